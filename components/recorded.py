"""What MLMD has recorded of an artifact or an execution, as plain values."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from ml_metadata import proto

ADDRESS = "address"
"""Custom property of an artifact that is a copy for this process alone: where everybody else finds it."""
_OF_TFX = "__value__"
"""Under which TFX keeps, in a Struct, JSON that is no object."""


def properties_of(record: proto.Artifact | proto.Execution) -> dict[str, Any]:
    """Returns all properties by name, custom ones too; what is unset is None."""
    recorded = [*record.properties.items(), *record.custom_properties.items()]
    return {name: plain_value(value) for name, value in recorded}


def plain_value(value: Any) -> Any:
    """Returns what a `Value` of MLMD holds; JSON is decoded, as properties come on Kubeflow, zero and False too."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(value, kind)
    if not isinstance(found, Struct):
        return found
    given = MessageToDict(found)
    return given.get(_OF_TFX, given)
