"""Finds the files that determine what a user's function computes, without importing anything.

These are the modules that its module imports, directly or through others, wherever the import is written, and the files
that these modules name. A text in the code counts as a name, so `import_module("helper")` and
`Path(__file__).with_name("zones.json")` are found. If a module is imported by a name that is computed, all Python files
of the YAML's folder count. A file that is read by a computed name cannot be found; the YAML declares it (`code_files`).
"""

import ast
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fullpass.base.user_modules import source_of

_SUFFIXES = (".py", *importlib.machinery.EXTENSION_SUFFIXES)
_INSTALLED = ("site-packages", "dist-packages", f"python{sys.version_info.major}.{sys.version_info.minor}")
_IMPORTS = frozenset(
    "import_module __import__ spec_from_file_location run_path run_module exec iter_modules walk_packages".split()
)
_LISTS = frozenset("glob iglob rglob iterdir listdir scandir walk".split())
_READS = frozenset(
    "open read_text read_bytes load loadtxt genfromtxt fromfile read_csv read_json read_parquet read_table get_data "
    "read_file GFile connect".split()
)
_LONGEST_NAME = 200


@dataclass(frozen=True)
class UserCode:
    """What is known of a user's code.

    Attributes:
        files: The modules, and the existing files that they name; sorted.
        libraries: Top-level names of the other modules that are imported, without those of Python itself.
        unknown: Lines of the code, as `file:line`, that read a file whose name is not in the code.
    """

    files: tuple[Path, ...]
    libraries: tuple[str, ...]
    unknown: tuple[str, ...]


def find_code(modules: Iterable[str], folder: Path | None) -> UserCode:
    """Returns what is known of the code of modules, which are named as in the YAML, and of the YAML's folder."""
    search = _Search(folder)
    for module in modules:
        search.add_named(module)
    own = search.libraries - sys.stdlib_module_names
    return UserCode(tuple(sorted(search.files)), tuple(sorted(own)), tuple(sorted(search.unknown)))


@dataclass
class _Search:
    folder: Path | None
    files: set[Path] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def add_named(self, module: str) -> None:
        """Adds a module of the YAML. Of an installed library, only its own file and its version count."""
        if self.folder is not None and self._add_module(module, [self.folder]):
            return
        source = source_of(module)
        if source is None:
            return
        depth = module.count(".") + (source.name == "__init__.py")
        if any(part in _INSTALLED for part in source.parts):
            self.files.add(source)
            self.libraries.add(module.partition(".")[0])
        else:
            self._add_module(module, [source.parents[depth]])

    def _add_module(self, name: str, roots: Iterable[Path]) -> bool:
        """Adds the files that are loaded by importing a module; returns whether one of the roots has it."""
        found = [(file, root) for root in roots for file in _files_of(name, root)]
        for file, root in found:
            self._add_file(file, root)
        return bool(found)

    def _add_file(self, file: Path, root: Path) -> None:
        file = Path(os.path.normpath(file))
        if file in self.files:
            return
        self.files.add(file)
        if file.suffix == ".py":
            try:
                tree = ast.parse(file.read_bytes())
            except (SyntaxError, ValueError, RecursionError):
                return
            self._follow(_Module(file, root, self.folder, tree))

    def _follow(self, module: "_Module") -> None:
        for level, name in module.imports:
            if level:
                self._add_module(name, [module.file.parents[level - 1]])
            elif not self._add_module(name, module.folders):
                self.libraries.add(name.partition(".")[0])
        for name in module.texts:
            if all(part.isidentifier() for part in name.removeprefix(".").split(".")):
                self._add_module(name.lstrip("."), module.folders)
        computes_imports = any(name in _IMPORTS and not _is_text(call) for name, call in module.calls)
        if computes_imports and self.folder is not None:
            for file in _python_files(self.folder):
                self._add_file(file, self.folder)
        named = list(module.named_files())
        for file in named:
            self._add_file(file, module.root)
        if not named:
            self.unknown.update(f"{module.file}:{call.lineno}" for name, call in module.calls if name in _READS)


@dataclass(frozen=True)
class _Module:
    """A parsed module. root: the folder in which its import began."""

    file: Path
    root: Path
    folder: Path | None
    tree: ast.Module

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """The level (0 if absolute) and the name of each import, in functions too; `from a import b` gives a.b."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(0, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(node.level, ".".join(filter(None, [node.module, alias.name]))) for alias in node.names]
        return found

    @cached_property
    def texts(self) -> set[str]:
        """The short texts in the code."""
        constants = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        one_line = (text for text in constants if isinstance(text, str) and 0 < len(text) <= _LONGEST_NAME)
        return {text for text in one_line if "\n" not in text and "\0" not in text and text.strip("./")}

    @cached_property
    def folders(self) -> list[Path]:
        """The folders in which the module may find others: its roots, its own, and those that it names."""
        bases = list(dict.fromkeys([*([self.folder] if self.folder else []), self.root, self.file.parent]))
        return [*bases, *(base / text for base in bases for text in sorted(self.texts) if _is_folder(base / text))]

    def named_files(self) -> Iterator[Path]:
        """Yields the existing files that the module names; of a folder that it lists, all files that may match."""
        lists = any(name in _LISTS for name, _ in self.calls)
        for folder in self.folders:
            for text in self.texts:
                if _is_file(folder / text):
                    yield folder / text
                elif lists and "*" in text and not text.startswith("/"):
                    yield from filter(_is_file, folder.glob(text))
            if lists and folder not in (self.folder, self.root, self.file.parent):
                yield from filter(_is_file, folder.iterdir())

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """The calls in the code with the names of the functions, without the object before a dot."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        names = [str(getattr(call.func, "attr", None) or getattr(call.func, "id", "")) for call in calls]
        return list(zip(names, calls, strict=True))


def _files_of(name: str, root: Path) -> list[Path]:
    """Returns the files that importing a module from a folder loads: its packages and itself; empty without such a
    module. The last part may be a name in the module before it."""
    files: list[Path] = []
    for part in name.split("."):
        package = root / part
        choices = [*(package / f"__init__{end}" for end in _SUFFIXES), *(root / f"{part}{end}" for end in _SUFFIXES)]
        file = next(filter(_is_file, choices), None)
        if file is None and not _is_folder(package):
            break
        files += [file] if file is not None else []
        root = package
    return files


def _python_files(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and not _is_file(Path(above, f, "pyvenv.cfg"))]
        yield from (Path(above, name) for name in names if name.endswith(_SUFFIXES))


def _is_text(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
