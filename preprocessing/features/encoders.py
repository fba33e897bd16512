"""Declarations of the encoders that read the ids of lists and texts in order."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, SelectedBy, TaggedSpec


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
