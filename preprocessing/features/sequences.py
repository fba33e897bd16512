"""Sequences: several list columns of equal length that belong together and are read element by element."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.features.id_features import CategoryFeature, DateFeature
from fullpass.preprocessing.features.lists import Encoder, Gru, Keep, ListOf, Pooling, Transformer
from fullpass.preprocessing.features.number_features import NumberFeature
from fullpass.preprocessing.spec import Count, Name, SelectedBy, Spec

SequenceColumn = Annotated[NumberFeature | CategoryFeature | DateFeature, SelectedBy("type", bare=True)]
_REFUSED = {"list": None, "separator": None, "indicator": False, "cyclic": False, "compute_at": None}


class SequenceSpec(Spec):
    """Columns of lists of equal length, whose elements the model reads in order, with their columns concatenated.

    Each is a feature named SEQUENCE.COLUMN, with statistics over train's kept elements (docs/lists.md).
    """

    example: ClassVar[str] = """\
history: {columns: {item: category, price: number}, max_length: 50, keep: last, encoder: {transformer: {units: 32}}}
basket: {within: basket, columns: {item: category, at: {type: date, parts: [hour]}}, pooling: attention}
"""

    columns: dict[Name, SequenceColumn] = Field(min_length=1)
    """Column of lists -> category, number or date, with the options of that feature."""
    within: Name | None = None
    """Column of lists of structs with `columns` as fields."""
    separator: Name | None = None
    """Splits the text of a cell, as in CSV."""
    max_length: Count | None = None
    """Cuts longer sequences; null keeps them whole."""
    keep: Keep = "first"
    """Elements kept of a longer sequence."""
    encoder: Encoder | None = None
    """Reads the elements in order; null: gru."""
    pooling: Pooling | None = None
    """Instead of an encoder, after a layer of 64 units for each element."""
    attend_to: Name | None = None
    """Category that shares the vocabulary of one of `columns`: target attention."""
    compute_at: Literal["transform", "input"] | None = None
    """Where it is computed; null: `input.compute_at`."""

    @model_validator(mode="after")
    def _fits(self) -> "SequenceSpec":
        if self.encoder is not None and self.pooling is not None:
            raise ValueError("give encoder or pooling, not both.")
        if self.separator is not None and self.within is not None:
            raise ValueError("give within or separator, not both: fields of structs or objects need no splitting.")
        if isinstance(self.encoder, Transformer) and self.max_length is None:
            raise ValueError("encoder: transformer: needs max_length, because it learns a vector per position.")
        for name, column in self.columns.items():
            used = [key for key, usual in _REFUSED.items() if getattr(column, key, usual) != usual]
            if used:
                raise ValueError(f"columns.{name}.{used[0]}: not supported in a column of a sequence. Remove it.")
        return self

    @property
    def reader(self) -> Any:
        """The encoder, by default a gru; None if the elements are pooled."""
        return self.encoder if self.pooling is not None else self.encoder or Gru()

    def features(self, name: str) -> dict[str, Any]:
        """Returns SEQUENCE.COLUMN -> feature of lists, for each column."""
        options = ListOf.model_construct(max_length=self.max_length, keep=self.keep, separator=self.separator)
        return {
            f"{name}.{key}": column.model_copy(
                update={"column": self.raw_column(key), "list": options, "compute_at": self.compute_at}
            )
            for key, column in self.columns.items()
        }

    def raw_column(self, key: str) -> str:
        """Returns the raw column of lists of one of `columns`."""
        column = self.columns[key].column or key
        return f"{self.within}.{column}" if self.within is not None else column


def sequence_of(sequences: Mapping[str, SequenceSpec], feature: str) -> str | None:
    """Returns the sequence that contains a feature as a column; None for any other feature."""
    owners = (name for name, spec in sequences.items() if feature in (f"{name}.{column}" for column in spec.columns))
    return next(owners, None)


def yaml_keys(sequences: Mapping[str, SequenceSpec], feature: str) -> tuple[str, ...]:
    """Returns the YAML keys that lead to a feature or to the column of a sequence."""
    sequence = sequence_of(sequences, feature)
    if sequence is None:
        return ("features", feature)
    return ("sequences", sequence, "columns", feature.removeprefix(f"{sequence}."))


def with_columns_of(sequences: Mapping[str, SequenceSpec], features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns features, followed by the columns of sequences."""
    columns = {key: column for name, sequence in sequences.items() for key, column in sequence.features(name).items()}
    return {**features, **columns}
