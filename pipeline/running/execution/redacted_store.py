"""A metadata store that redacts secrets on write, whatever the parameters of a node contain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ml_metadata import proto

from fullpass.base.redact import redact

_RECORDS = (proto.Artifact, proto.Execution, proto.Context)


class RedactedStore:
    """Forwards every call to a store; the text properties of records are redacted before they are put."""

    def __init__(self, store: Any) -> None:
        """Takes the store of ML Metadata."""
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Returns a method of the store."""
        method = getattr(self._store, name)
        return _redacting(method) if name.startswith("put_") else method


def _redacting(put: Callable[..., Any]) -> Callable[..., Any]:
    def put_redacted(*values: Any, **named: Any) -> Any:
        _redact_records([*values, *named.values()])
        return put(*values, **named)

    return put_redacted


def _redact_records(value: Any) -> None:
    """Redacts records in place, in lists and pairs too, so the records in memory match the written ones."""
    if isinstance(value, _RECORDS):
        for properties in (value.properties, value.custom_properties):
            _redact_properties(properties)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            _redact_records(inner)


def _redact_properties(properties: Mapping[str, Any]) -> None:
    for value in properties.values():
        if value.HasField("string_value"):
            value.string_value = redact(value.string_value)
