"""The schema of the raw examples: declared by the features, and compared with the schema that TFDV infers from data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.base.errors import did_you_mean
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns, request_columns, row_columns
from fullpass.preprocessing.config import PreprocessingConfig

TRAINING = "TRAINING"
SERVING = "SERVING"
"""Schema environments: serving has no label, no weight, and no column that only these two read."""

_TYPES = {"number": schema_pb2.FLOAT, "string": schema_pb2.BYTES, "vector": schema_pb2.FLOAT}
_WORDS = {schema_pb2.FLOAT: "numbers", schema_pb2.INT: "whole numbers", schema_pb2.BYTES: "text"}


@dataclass(frozen=True)
class Difference:
    """A difference between data and its declaration.

    problem: `absent`, no such column; `empty`, a column without any value; `type`, values of another type;
    `values`, more values in a cell than declared; `unused`, a column that the configuration does not read.
    message: a readable description with the declared and the found state.
    """

    column: str
    problem: Literal["absent", "empty", "type", "values", "unused"]
    message: str


def raw_schema(config: PreprocessingConfig) -> schema_pb2.Schema:
    """Returns the schema of the raw examples that `config` reads.

    Every column is optional. A number is one float, a string one byte string, a vector the declared number of floats. A
    list has any number of floats or byte strings. The row number of ingest is an integer.
    """
    schema = schema_pb2.Schema(default_environment=[TRAINING, SERVING])
    serving = request_columns(config)
    for name, column in raw_columns(config).items():
        _add(schema, column, serving=name in serving)
    for name in row_columns(config):
        row = schema.feature.add(name=name, type=schema_pb2.INT, not_in_environment=[SERVING])
        _optional(row, least=0, most=1)
    return schema


def _add(schema: schema_pb2.Schema, column: RawColumn, *, serving: bool) -> None:
    feature = schema.feature.add(name=column.name, type=_TYPES[column.type])
    _optional(feature, least=column.width if column.type == "vector" else 0, most=column.width)
    if column.many:
        feature.value_count.ClearField("max")
    if not serving:
        feature.not_in_environment.append(SERVING)


def _optional(feature: schema_pb2.Feature, *, least: int, most: int) -> None:
    feature.presence.min_count = 0
    feature.presence.min_fraction = 0.0
    feature.value_count.min = least
    feature.value_count.max = most


def compare_schemas(declared: schema_pb2.Schema, inferred: schema_pb2.Schema) -> tuple[Difference, ...]:
    """Returns the differences between data and its declaration, in the order of the declaration, unused columns last.

    A schema has no counts; the statistics report the number of missing values.

    Args:
        declared: From `raw_schema`.
        inferred: From `tfdv.infer_schema` of the data's statistics.
    """
    found = {feature.name: feature for feature in inferred.feature}
    known = {feature.name for feature in declared.feature}
    differences = [d for feature in declared.feature for d in _differences(feature, found, known)]
    unused = [name for name in found if name not in known]
    return (*differences, *(Difference(name, "unused", f"{name}: no feature reads it.") for name in unused))


def _differences(
    declared: schema_pb2.Feature, found: Mapping[str, schema_pb2.Feature], known: set[str]
) -> Iterator[Difference]:
    name, wanted = declared.name, _described(declared)
    if name not in found:
        hint = did_you_mean(name, found.keys() - known)
        yield Difference(name, "absent", f"{name}: declared as {wanted}, absent from the data.{hint}")
        return
    inferred = found[name]
    if inferred.HasField("presence") and inferred.presence.min_count == 0:
        yield Difference(name, "empty", f"{name}: declared as {wanted}, without any value in the data.")
    elif inferred.type != declared.type:
        message = f"{name}: declared as {wanted}, holds {_WORDS.get(inferred.type, 'something else')}."
        yield Difference(name, "type", message)
    elif declared.value_count.max == 1 and _holds_several(inferred):
        message = f"{name}: declared as {wanted}, one for each row; holds several in some rows."
        yield Difference(name, "values", message)


def _holds_several(inferred: schema_pb2.Feature) -> bool:
    """Returns whether any row has several values. TFDV infers no upper bound if their number varies."""
    if inferred.HasField("shape"):
        return any(dimension.size > 1 for dimension in inferred.shape.dim)
    return inferred.HasField("value_count") and inferred.value_count.max != 1


def _described(feature: schema_pb2.Feature) -> str:
    if feature.value_count.max > 1:
        return f"vectors of {feature.value_count.max} numbers"
    return _WORDS[feature.type]


def describe_differences(differences: Sequence[Difference]) -> str:
    """Returns one line per difference, most serious first, or one line if there are no differences."""
    if not differences:
        return "The data matches the declaration."
    order = ("absent", "type", "values", "empty", "unused")
    return "\n".join(d.message for d in sorted(differences, key=lambda d: order.index(d.problem)))
