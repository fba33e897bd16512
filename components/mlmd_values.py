"""Reads artifacts and properties that ML Metadata records as plain Python values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from ml_metadata import proto

ADDRESS = "address"
"""Custom property of an artifact that was copied to this machine: the address of the original."""
_TFX_VALUE_KEY = "__value__"
"""Key under which TFX wraps JSON that is not an object in a Struct."""


@dataclass(frozen=True)
class RecordedArtifact:
    """An artifact as ML Metadata records it. uri: its location for this process. address: its original location."""

    uri: str
    address: str
    properties: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: proto.Artifact) -> "RecordedArtifact":
        """Returns a recorded artifact."""
        properties = properties_of(record)
        return cls(record.uri, properties.pop(ADDRESS, record.uri), properties)


def properties_of(record: proto.Artifact | proto.Execution) -> dict[str, Any]:
    """Returns all properties and custom properties by name; None for unset ones."""
    recorded = [*record.properties.items(), *record.custom_properties.items()]
    return {name: plain_value(value) for name, value in recorded}


def plain_value(value: Any) -> Any:
    """Returns the content of an MLMD `Value`. A Struct, which Kubeflow uses for properties, is decoded."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    content = getattr(value, kind)
    if not isinstance(content, Struct):
        return content
    fields = MessageToDict(content)
    return fields.get(_TFX_VALUE_KEY, fields)
