"""The user-defined functions and files that a config names, and the digest of the code on which they depend.

The rule: all Python files at or below the YAML's folder, and the files that `code_files` names, are the pipeline's own
code; installed packages count by their versions. So no code is read to guess what it loads. A folder of another Python
environment, and one whose name begins with a dot, are left out.
"""

import ast
import hashlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.base.files import is_address
from fullpass.base.user_modules import FOLDER_VARIABLE, find_source, import_function, source_file_of
from fullpass.components.ingest.sources.config import ModuleSource
from fullpass.components.ingest.sources.files import inputs_by_split
from fullpass.components.library_versions import version
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.features.feature import ImageFeature
from fullpass.preprocessing.features.image_feature import Pretrained, UserEncoder
from fullpass.trainer.config import Module, RunFn

_HASHED_BYTES = 64 << 20
"""Bytes above which a declared file counts by its size and time: weights of gigabytes would be read in every run."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_CODE = (".py", *importlib.machinery.EXTENSION_SUFFIXES)
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+(.+)", re.MULTILINE)
_IMPORTED = re.compile(rb"(?:^|,\s*)(\w+)")
_READS = frozenset(
    "open read_text read_bytes load loadtxt genfromtxt fromfile read_csv read_json read_parquet read_table get_data "
    "read_file GFile connect glob iglob rglob iterdir listdir scandir walk".split()
)
"""Names of functions that read files or list folders, in Python and the libraries of data."""


def model_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths whose code builds the model."""
    encoders = [f.encoder for f in config.features.values() if isinstance(f, ImageFeature)]
    of_encoders = [encoder.function for encoder in encoders if isinstance(encoder, UserEncoder)]
    return of_encoders + ([config.model.function] if isinstance(config.model, Module | RunFn) else [])


def user_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths of the user's code."""
    own_nodes = [config.nodes] if config.nodes is not None else []
    return config.preprocessing_config.functions + model_functions(config) + own_nodes


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
    """
    files = list(files)
    if not functions and not files:
        return ""
    digest = hashlib.sha256(repr(_modules_of(functions)).encode())
    for file in files:
        digest.update(_content(Path(file)))
    imported = set[str]()
    folder = os.environ.get(FOLDER_VARIABLE, os.sep)
    for path in _code_of(functions):
        content = path.read_bytes()
        digest.update(os.path.relpath(path, folder).encode() + b"\0" + content)
        if path.suffix == ".py":
            imported |= _imports(content)
    libraries = sorted(imported - sys.stdlib_module_names)
    digest.update(repr([(library, version(library)) for library in libraries]).encode())
    return digest.hexdigest()[:16]


def user_digest(loaded: Loaded) -> str:
    """Returns `code_digest` of all that a pipeline reads beside its YAML and its data; "" if that is nothing."""
    files = [*vocabulary_files(loaded), *weight_files(loaded), *declared_code_files(loaded)]
    return code_digest(user_functions(loaded.config), files)


def check_code_is_packed(loaded: Loaded) -> None:
    """Checks that importing the user's functions loads no module that an image lacks.

    It has the YAML's folder and installed packages. A function that cannot be imported here is not judged.

    Raises:
        UserError: A module lies elsewhere.
    """
    source, folder = loaded.config.data.source, f"{loaded.folder}{os.sep}"
    of_source = [path for _, path in inputs_by_split(source.function)] if isinstance(source, ModuleSource) else []
    installed = [f"{os.path.abspath(entry)}{os.sep}" for entry in sys.path if entry]
    held = (folder, *(entry for entry in installed if not folder.startswith(entry)))
    for function in (*of_source, *user_functions(loaded.config)):
        before = set(sys.modules)
        with suppress(UserError):
            import_function(function)
        files = (getattr(sys.modules[name], "__file__", None) for name in sys.modules.keys() - before)
        outside = sorted(file for file in files if isinstance(file, str) and not os.path.abspath(file).startswith(held))
        if outside:
            raise UserError(
                f"{function} loads {listed(outside)}, which the image lacks: it has {loaded.folder} and installed "
                "packages. Move the file into that folder, or install its package in the image."
            )


def reads_of(function: str, folder: Path) -> Iterator[str]:
    """Yields the lines of a function's module, as `file:line`, that call a function which reads files."""
    file = find_source(function.partition(":")[0], [str(folder)])
    with suppress(SyntaxError, ValueError):
        for call in ast.walk(ast.parse(file.read_bytes())) if file else ():
            if isinstance(call, ast.Call) and {getattr(call.func, "attr", ""), getattr(call.func, "id", "")} & _READS:
                yield f"{file}:{call.lineno}"


def _modules_of(functions: Iterable[str]) -> list[str]:
    return sorted({function.partition(":")[0] for function in functions})


def _code_of(functions: Iterable[str]) -> list[Path]:
    """Returns the Python files of the YAML's folder, and the file of each module that lies elsewhere."""
    files = set[Path]()
    folder = os.environ.get(FOLDER_VARIABLE)
    if functions and folder is not None:
        files.update(_python_files(Path(folder)))
    sources = (source_file_of(module) for module in _modules_of(functions))
    return sorted(files | {source for source in sources if source is not None})


def _imports(content: bytes) -> set[str]:
    """Returns the first names of the modules that Python code imports, wherever the import is written."""
    return {name.decode() for names in _IMPORT.findall(content) for name in _IMPORTED.findall(names)}


def _python_files(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and not os.path.isfile(Path(above, f, "pyvenv.cfg"))]
        yield from (Path(above, name) for name in names if name.endswith(_CODE))


def _content(path: Path) -> bytes:
    """Returns the content of a file, of a very large one its size and time."""
    status = path.stat()
    if status.st_size > _HASHED_BYTES:
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
