"""Converts Kubeflow's artifacts to TFX artifacts and back: types, properties, and their two locations."""

import hashlib
from collections.abc import Iterable

from tfx import types
from tfx.types.artifact import PropertyType

from fullpass.base.user_modules import import_class
from fullpass.components.internals.tfx_internals import ValueArtifact
from fullpass.components.mlmd_values import ADDRESS, properties_of
from fullpass.kubeflow.kfp_internals import BACKEND_PROPERTIES
from fullpass.kubeflow.protocol import Json
from fullpass.kubeflow.runtime.executor_input import ArtifactCopy

_NOT_OURS = (*BACKEND_PROPERTIES, ADDRESS)
"""Properties that the backend adds, or that only executors receive."""
_CASTS = {PropertyType.INT: int, PropertyType.FLOAT: float, PropertyType.STRING: str}


def to_tfx(copy: ArtifactCopy, class_path: str, *, direct: bool) -> types.Artifact:
    """Returns the TFX artifact for an executor.

    Args:
        class_path: Its type, which the backend does not pass on.
        direct: Whether to use the object store itself instead of the local copy.
    """
    result = import_class(class_path)()
    result.uri = copy.uri if direct else str(copy.path)
    if copy.name:
        result.id = _number(copy.name)
    declared = result.PROPERTIES or {}
    for name, value in copy.metadata.items():
        if value is None or name in _NOT_OURS:
            continue
        if name in declared:
            setattr(result, name, _CASTS.get(declared[name].type, lambda it: it)(value))
        else:
            # As JSON, which TFX's getters convert to the requested type: the backend passes an int as a float.
            result.set_json_value_custom_property(name, value)
    message = result.mlmd_artifact
    if not direct:
        message.custom_properties[ADDRESS].string_value = copy.uri
    result.set_mlmd_artifact(message)
    return result


def is_value_type(class_path: str) -> bool:
    """Returns whether an artifact type is a value, such as String, which is a file; others are folders."""
    return issubclass(import_class(class_path), ValueArtifact)


def read_values(artifacts: Iterable[types.Artifact]) -> None:
    """Reads the values among the inputs of an executor, as TFX does before it runs one."""
    for artifact in artifacts:
        if isinstance(artifact, ValueArtifact):
            artifact.read()


def metadata_of(artifact: types.Artifact, copies: Iterable[ArtifactCopy]) -> Json:
    """Returns the properties of an artifact for Kubeflow, without nulls, which Kubeflow rejects.

    Args:
        copies: Artifacts of the task; local paths in properties that are in one of these are replaced by its URI.
    """
    found = properties_of(artifact.mlmd_artifact)
    kept = {name: value for name, value in found.items() if value is not None and name not in _NOT_OURS}
    return {name: _to_address(value, copies) for name, value in kept.items()}


def _to_address(value: object, copies: Iterable[ArtifactCopy]) -> object:
    if not isinstance(value, str):
        return value
    for copy in copies:
        path = str(copy.path)
        if value == path or value.startswith(f"{path}/"):
            return copy.uri + value[len(path) :]
    return value


def _number(name: str) -> int:
    """Returns the backend's name of an artifact, usually a number, as a 63-bit number."""
    return int(name) if name.isdigit() else int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1
