"""Options of a feature whose column holds a list of any length, and the encoders that read its elements in order."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from fullpass.preprocessing.spec import Count, Name, SelectedBy, Spec, TaggedSpec

Keep = Literal["first", "last"]
Pooling = Literal["mean", "sum", "max", "sqrt_n", "attention"]
LONGEST_LIST = 65_536
"""Largest number of elements; a row with a longer list goes to quarantine."""


class Gru(TaggedSpec):
    """A gated recurrent unit: its state after the last element. Cho et al. 2014. Cheap, good for short lists."""

    tag: ClassVar[str] = "gru"
    units: Count = 64
    """Width of the output vector of a list."""


class Transformer(TaggedSpec):
    """A small transformer with trained positions: the mean of its output over the elements. Vaswani et al. 2017.

    Positions are counted from the first kept element; it needs `max_length`.
    """

    tag: ClassVar[str] = "transformer"
    units: Count = 64
    """Width of the vector of an element, and of the output vector of a list."""
    heads: Count = 4
    """Attention heads of each layer; must divide `units`."""
    layers: Count = 1
    """Number of attention layers, each followed by a feed-forward layer."""
    dropout: float = Field(default=0.1, strict=True, ge=0, lt=1)
    """Share of numbers that training drops."""

    @model_validator(mode="after")
    def _divisible(self) -> "Transformer":
        if self.units % self.heads:
            raise ValueError(f"heads must divide units. Received: units {self.units}, heads {self.heads}.")
        return self


Encoder = Annotated[Gru | Transformer, SelectedBy()]


class ListOf(Spec):
    """How a list of any length becomes a feature: truncation, and pooling or encoding of the elements.

    Missing elements at the end of a list are dropped. Elsewhere a missing element keeps its position, counts toward
    `max_length`, and is excluded from pooling.
    """

    max_length: Count | None = None
    """Longer lists are cut to this many elements; by default they stay whole."""
    keep: Keep = "first"
    """Elements of a longer list that are kept."""
    pooling: Pooling | None = None
    """Pooling of the elements: mean, sum, max, sqrt_n (the sum divided by the root of the sum of squared weights), or
    for ids attention (a mean with learned weights). By default numbers and embeddings are averaged, and one-hot ids are
    1 for each value in the list."""
    encoder: Encoder | None = None
    """Encoder that reads the elements in order: gru or transformer, instead of pooling; for a category."""
    attend_to: Name | None = None
    """A single-valued category whose vocabulary is `shared_with` this feature's, or vice versa, to compare the
    elements with (target attention)."""
    weights: Name | None = None
    """A second list column with a weight for each element, for mean, sum and sqrt_n; a missing weight is 1."""
    separator: Name | None = None
    """Splits the text of a cell, if the source has no lists; or an example of a list, `"[1, 2]"`. A category has
    `separator` beside `list` instead."""

    @model_validator(mode="after")
    def _encodes(self) -> "ListOf":
        if self.encoder is not None and (self.pooling is not None or self.weights is not None):
            raise ValueError("encoder: replaces pooling and weights. Remove these.")
        if isinstance(self.encoder, Transformer) and self.max_length is None:
            raise ValueError("encoder: transformer: needs max_length, because it learns a vector per position.")
        return self

    @property
    def reads_order(self) -> bool:
        """Whether the model reads the individual elements instead of their pooled value."""
        return self.encoder is not None or self.attend_to is not None


def _written(value: Any) -> Any:
    if value is True:
        return {}
    return None if value is False else value


OptionalList = Annotated[ListOf | None, BeforeValidator(_written, json_schema_input_type=ListOf | bool | None)]
"""`list: true` is short for the defaults."""


def refuse_attention(options: ListOf | None, what: str) -> None:
    """Raises ValueError for attention over numbers, which carry too little information for it."""
    if options is not None and options.pooling == "attention":
        raise ValueError(
            f"list.pooling: attention chooses among ids, and {what} has none. Accepted here: mean, sum, max, sqrt_n."
        )


def refuse_order(options: ListOf | None, what: str) -> None:
    """Raises ValueError if a list is read in order, which is for categories only."""
    if options is not None and options.reads_order:
        key = "encoder" if options.encoder is not None else "attend_to"
        raise ValueError(f"list.{key}: is only for a category. Received: {what}.")


def list_options(feature: object) -> ListOf | None:
    """Returns the options of a feature whose values are lists; None for a single-valued feature."""
    options = getattr(feature, "list", None)
    if options is None and getattr(feature, "type", None) == "category" and getattr(feature, "separator", None):
        return ListOf()
    return options if isinstance(options, ListOf) else None


def reads_list(feature: object) -> bool:
    """Returns whether the raw column itself holds lists, not text that the graph splits."""
    return isinstance(getattr(feature, "list", None), ListOf) and getattr(feature, "separator", None) is None
