"""Finds the user-defined functions and files that a config names, and computes their digest to detect changes."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from fullpass.base.user_modules import FOLDER_VARIABLE
from fullpass.components.library_versions import version
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.module_files import UserCode, find_code
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import CustomFeature, ImageFeature
from fullpass.preprocessing.features.image_feature import Pretrained, UserEncoder
from fullpass.trainer.config import Module

_HASHED_BYTES = 64 << 20


def transform_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths whose code becomes part of the transform graph."""
    of_features = [f.function for f in config.all_features.values() if isinstance(f, CustomFeature)]
    return of_features + ([config.preprocessing] if config.preprocessing else [])


def model_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths whose code builds the model."""
    encoders = [f.encoder for f in config.features.values() if isinstance(f, ImageFeature)]
    of_encoders = [encoder.function for encoder in encoders if isinstance(encoder, UserEncoder)]
    return of_encoders + ([config.model.function] if isinstance(config.model, Module) else [])


def weight_files(config: PreprocessingConfig) -> list[str]:
    """Returns the paths of the initial weights of image encoders."""
    encoders = [f.encoder for f in config.features.values() if isinstance(f, ImageFeature)]
    return sorted({encoder.weights for encoder in encoders if isinstance(encoder, Pretrained)})


def vocabulary_files(config: PreprocessingConfig) -> list[str]:
    """Returns the paths of vocabulary files."""
    vocabularies = [getattr(holder, "vocabulary", None) for holder in (*config.features.values(), *config.crosses)]
    return sorted({v.file for v in vocabularies if v is not None and v.file is not None})


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
    The code of a function is what `find_code` finds, and the versions of the libraries that it imports.
    """
    files = list(files)
    if not functions and not files:
        return ""
    digest = hashlib.sha256()
    for file in files:
        digest.update(_content(Path(file)))
    folder = os.environ.get(FOLDER_VARIABLE)
    code, modules = _code_of(functions), _modules_of(functions)
    digest.update(repr((modules, [(library, version(library)) for library in code.libraries])).encode())
    for path in code.files:
        digest.update(os.path.relpath(path, folder or path.anchor).encode() + b"\0" + _content(path))
    return digest.hexdigest()[:16]


def beside_code(functions: list[str]) -> list[tuple[str, int, int]]:
    """Returns name, size and time of each file in the folders of the user's modules: the modules may read them."""
    folders = {path.parent for path in _code_of(functions).files if path.suffix == ".py"}
    found = (file for folder in folders for file in os.scandir(folder) if file.is_file() and file.name[0] != ".")
    return sorted((file.path, file.stat().st_size, file.stat().st_mtime_ns) for file in found)


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
