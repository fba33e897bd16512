"""How a model reads ids in their order: the encoders of lists and texts, as data."""

from typing import ClassVar

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, TaggedSpec, tagged_union


class Gru(TaggedSpec):
    """A gated recurrent unit: its state behind the last element. Cho et al. 2014. Cheap, good for short lists."""

    tag: ClassVar[str] = "gru"
    units: Count = 64
    """Numbers that a list becomes."""


class Transformer(TaggedSpec):
    """A small transformer with trained positions: the mean of its output over the elements. Vaswani et al. 2017.

    Positions are counted from the first element kept; it needs `max_length`.
    """

    tag: ClassVar[str] = "transformer"
    units: Count = 64
    """Numbers that an element, and so a list, becomes."""
    heads: Count = 4
    """Of each attention layer; they divide `units`."""
    layers: Count = 1
    """Attention layers, each with a feed-forward layer behind it."""
    dropout: float = Field(default=0.1, strict=True, ge=0, lt=1)
    """Share of numbers that training leaves out."""

    @model_validator(mode="after")
    def _divisible(self) -> "Transformer":
        if self.units % self.heads:
            raise ValueError(f"heads must divide units. Received: units {self.units}, heads {self.heads}.")
        return self


Encoder = tagged_union(Gru, Transformer)
