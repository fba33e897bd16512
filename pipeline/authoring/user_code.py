"""Finds the user-defined functions and files that a config names, without importing them, and computes their digest.

What a function computes depends on the modules that its module imports, directly or through others, wherever the import
is written, and on the files that these modules name. A text in the code counts as a name, so `import_module("helper")`
and `Path(__file__).with_name("zones.json")` are found. If a module is imported by a name that is computed, all Python
files of the YAML's folder count. A file that is read by a computed name cannot be found; the YAML declares it
(`code_files`).
"""

import ast
import hashlib
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.base.files import is_address
from fullpass.base.loaded_code import loaded_digest, watched
from fullpass.base.user_modules import FOLDER_VARIABLE, find_source, import_function, source_file_of
from fullpass.components.ingest.sources.config import ModuleSource
from fullpass.components.ingest.sources.files import inputs_by_split
from fullpass.components.library_versions import version
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.features.feature import ImageFeature
from fullpass.preprocessing.features.image_feature import Pretrained, UserEncoder
from fullpass.trainer.config import Module

_HASHED_BYTES = 64 << 20
_Function = ast.FunctionDef | ast.AsyncFunctionDef
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
        libraries: Top-level names of the other modules that are imported, without those of Python itself.
        unknown: Lines of the code, as `file:line`, that read a file whose name is not in the code.
    """

    files: tuple[Path, ...]
    libraries: tuple[str, ...]
    unknown: tuple[str, ...]


def model_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths whose code builds the model."""
    encoders = [f.encoder for f in config.features.values() if isinstance(f, ImageFeature)]
    of_encoders = [encoder.function for encoder in encoders if isinstance(encoder, UserEncoder)]
    return of_encoders + ([config.model.function] if isinstance(config.model, Module) else [])


def user_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths of the user's code."""
    return config.preprocessing_config.functions + model_functions(config)


def weight_files(loaded: Loaded) -> list[str]:
    """Returns the files of initial weights: of image encoders, and of the export that a warm start names."""
    features, training = loaded.config.preprocessing_config.features, loaded.config.training
    encoders = [feature.encoder for feature in features.values() if isinstance(feature, ImageFeature)]
    files = {loaded.resolve(encoder.weights) for encoder in encoders if isinstance(encoder, Pretrained)}
    if training.begins_from_folder and not is_address(training.warm_start):
        files |= set(matching_files(loaded.resolve(training.warm_start)))
    return sorted(files)


def vocabulary_files(loaded: Loaded) -> list[str]:
    """Returns the vocabulary files."""
    config = loaded.config.preprocessing_config
    vocabularies = [getattr(holder, "vocabulary", None) for holder in (*config.features.values(), *config.crosses)]
    return sorted({loaded.resolve(v.file) for v in vocabularies if v is not None and v.file is not None})


def declared_code_files(loaded: Loaded) -> list[str]:
    """Returns the files that `code_files` names; a pattern stands for its matches, a folder for all files in it."""
    return sorted({file for entry in loaded.config.code_files for file in matching_files(loaded.resolve(entry))})


def matching_files(path: str) -> list[str]:
    """Returns the files that a path or pattern of `code_files` names."""
    named = Path(path)
    found = [named] if named.exists() else Path(named.anchor).glob(str(named.relative_to(named.anchor)))
    inside = (child for match in found for child in (match.rglob("*") if match.is_dir() else [match]))
    return sorted(str(child) for child in inside if child.is_file())


def code_digest(functions: list[str], files: Iterable[str] = ()) -> str:
    """Returns 16 hex digits of the code of `functions` and the content of `files`; "" if there are neither.

    TFX's cache compares parameters, not code. With this digest as a parameter, a node runs again after a code change.
    The code of a function is what `find_code` finds, what it has loaded in earlier runs (`loaded_code.py`), and the
    versions of the libraries that it imports.
    """
    files = list(files)
    if not functions and not files:
        return ""
    digest = hashlib.sha256()
    for file in files:
        digest.update(_content(Path(file)))
    folder = os.environ.get(FOLDER_VARIABLE)
    code, modules = _code_of(functions), _modules_of(functions)
    digest.update(loaded_digest(functions).encode())
    digest.update(repr((modules, [(library, version(library)) for library in code.libraries])).encode())
    for path in code.files:
        digest.update(os.path.relpath(path, folder or path.anchor).encode() + b"\0" + _content(path))
    return digest.hexdigest()[:16]


def user_digest(loaded: Loaded) -> str:
    """Returns `code_digest` of all that a pipeline reads beside its YAML and its data; "" if that is nothing."""
    files = [*vocabulary_files(loaded), *weight_files(loaded), *declared_code_files(loaded)]
    return code_digest(user_functions(loaded.config), files)


def beside_code(functions: list[str]) -> list[tuple[str, int, int]]:
    """Returns name, size and time of each file in the folders of the user's modules: the modules may read them."""
    folders = {path.parent for path in _code_of(functions).files if path.suffix == ".py"}
    found = (file for folder in folders for file in os.scandir(folder) if file.is_file() and file.name[0] != ".")
    return sorted((file.path, file.stat().st_size, file.stat().st_mtime_ns) for file in found)


def check_code_is_packed(loaded: Loaded) -> None:
    """Checks that importing the user's functions loads nothing that an image lacks.

    It has the YAML's folder and installed packages. A function that cannot be imported here is not judged.

    Raises:
        UserError: Another file is loaded.
    """
    source, folder = loaded.config.data.source, f"{loaded.folder}{os.sep}"
    of_source = [path for _, path in inputs_by_split(source.function)] if isinstance(source, ModuleSource) else []
    installed = [f"{os.path.abspath(entry)}{os.sep}" for entry in sys.path if entry]
    held = (folder, *(entry for entry in installed if not folder.startswith(entry)))
    for function in (*of_source, *user_functions(loaded.config)):
        files = set[str]()
        with suppress(UserError), watched(files):
            import_function(function)
        outside = sorted(file for file in files if not file.startswith(held))
        if outside:
            raise UserError(
                f"{function} loads {listed(outside)}, which the image lacks: it has {loaded.folder} and installed "
                "packages. Move the file into that folder, and name it from there (Path(__file__).parent), or install "
                "its package in the image."
            )


def _modules_of(functions: Iterable[str]) -> list[str]:
    return sorted({function.partition(":")[0] for function in functions})


def _code_of(functions: Iterable[str]) -> UserCode:
    folder = os.environ.get(FOLDER_VARIABLE)
    return find_code(_modules_of(functions), Path(folder) if folder is not None else None)


def _content(path: Path) -> bytes:
    """Returns the content of a file, of a very large one its size and time."""
    status = path.stat()
    if status.st_size > _HASHED_BYTES and path.suffix != ".py":
        return repr((status.st_size, status.st_mtime_ns)).encode()
    return path.read_bytes()


def function_problem(path: str, arguments: Iterable[str], *, folder: Path) -> str | None:
    """Returns the problem of the function that `path` names, or None.

    Args:
        arguments: Names of the positional arguments that the function is called with.
        folder: The folder of the YAML, whose modules take precedence over installed ones.
    """
    module, _, name = path.partition(":")
    file = find_source(module, [str(folder)]) or find_source(module, list(sys.path))
    if file is None:
        return f"no module {module!r}, neither in {folder} nor among the installed packages."
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"{file}{f':{line}' if line else ''} is no valid Python: {error.args[0]}."
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    if name in functions:
        return _arguments_problem(functions[name], list(arguments), file)
    if name in _other_names(tree):
        return None
    found = ", ".join(functions) or "none"
    return f"{file} has no function {name!r}.{did_you_mean(name, functions)} Functions there: {found}."


def _arguments_problem(function: _Function, given: list[str], file: Path) -> str | None:
    taken = [*function.args.posonlyargs, *function.args.args]
    needed = len(taken) - len(function.args.defaults)
    keyword_only = [
        a.arg for a, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if default is None
    ]
    fits = needed <= len(given) and (len(given) <= len(taken) or function.args.vararg is not None)
    if fits and not keyword_only:
        return None
    has = ", ".join([*(a.arg for a in taken), *(f"*, {name}" for name in keyword_only)])
    return f"{file}:{function.lineno}: {function.name}({has}) is called as {function.name}({', '.join(given)})."


def _other_names(tree: ast.Module) -> set[str]:
    """Returns the names that a module binds by import, assignment or class; they may be functions too."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
    return names


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
        source = source_file_of(module)
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
    return os.path.isfile(path)  # false for a text that no path can be, where Path raises an error


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)
