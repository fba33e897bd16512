"""Finds the user-defined functions and files that a config names, and computes their digest to detect changes."""

import hashlib
from pathlib import Path

from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import CustomFeature, ImageFeature
from fullpass.preprocessing.features.image_feature import Pretrained, UserEncoder
from fullpass.preprocessing.user_modules import source_of
from fullpass.trainer.config import Module


def transform_functions(config: PipelineConfig) -> list[str]:
    """Returns the `module:function` paths whose code becomes part of the transform graph."""
    of_features = [f.function for f in config.features.values() if isinstance(f, CustomFeature)]
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


def code_digest(functions: list[str], files: list[str] | None = None) -> str:
    """Returns 16 hex digits of the source of `functions` and the content of `files`; "" if there are neither.

    TFX's cache compares parameters, not code. With this digest as a parameter, a node runs again after a code change.
    """
    if not functions and not files:
        return ""
    digest = hashlib.sha256()
    for file in files or ():
        digest.update(Path(file).read_bytes())
    for module in sorted({function.partition(":")[0] for function in functions}):
        source = source_of(module)
        digest.update(module.encode())
        if source is not None:
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
