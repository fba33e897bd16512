"""What a feature becomes: the transformed features that the trainer builds its inputs from, and their names."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fullpass.preprocessing.features.ids import Encoding
from fullpass.preprocessing.features.lists import Encoder, ListOf, Pooling


def transformed_name(feature: str, part: str | None = None) -> str:
    """Returns the name of a transformed feature. No other code builds these names.

    Example:
        >>> transformed_name("fare"), transformed_name("started_at", "hour")
        ('fare_xf', 'started_at.hour_xf')
    """
    return f"{feature}.{part}_xf" if part else f"{feature}_xf"


def weight_name(name: str, part: str | None = None) -> str:
    """Returns the name of the transformed feature with the weights of the ids of a feature, or of a date part."""
    return transformed_name(name, "weight" if part is None else f"{part}.weight")


@dataclass(frozen=True)
class Output:
    """One transformed feature.

    kind: `dense` is float32 [batch] or [batch, width]; `ids` is int64, [batch] or, if `multi`, a row of ids with 0 as
    padding only: of any length (a VarLenFeature, without zeros except in sequences), or [batch, max_length]. The
    transformed schema has the domain of every `ids`. `image` is pixels [batch, height, width, channels], declared by
    the ImageFeature `image`: uint8 in training, int64 in TF Transform. part: the part of the feature, if it has
    several. weights: name of the transformed feature with a float32 weight per id, if any, which is of any length too.
    tf_idf: whether these are by tf-idf. unseen: number of ids, from 0, for missing and unknown values; 0 if that number
    is unknown. pooling: pooling of the ids of a row, if configured. encoder: encoder that reads at most `longest` ids
    in order instead. attend_to: the transformed feature with the id that they are compared with. table: name of the
    embedding, if its vocabulary is shared. sequence: the sequence that contains it as a column. Its rows then hold 0
    for missing values too, which makes all columns of a sequence equally long; a number is the id 2, a missing number
    the id 1, and the number is the weight of the id.
    """

    name: str
    feature: str
    kind: Literal["dense", "ids", "image"]
    multi: bool = False
    encoding: Encoding = "auto"
    weights: str | None = None
    unseen: int = 0
    image: Any = None
    pooling: Pooling | None = None
    encoder: Encoder | None = None
    longest: int | None = None
    attend_to: str | None = None
    table: str | None = None
    sequence: str | None = None
    tf_idf: bool = False
    part: str | None = field(default=None, compare=False)


def dense_output(feature: str, part: str | None = None) -> Output:
    """Returns a transformed feature of numbers."""
    return Output(transformed_name(feature, part), feature, "dense", part=part)


def ids_output(
    feature: str, encoding: Encoding, unseen: int, options: ListOf | None = None, part: str | None = None
) -> Output:
    """Returns a transformed feature of ids.

    Args:
        options: How a list becomes one row of ids, of which some may have weights; None for one id per row.
    """
    output = Output(transformed_name(feature, part), feature, "ids", encoding=encoding, unseen=unseen, part=part)
    if options is None:
        return output
    weights = weight_name(feature, part) if options.weights is not None else None
    return replace(output, multi=True, weights=weights, pooling=options.pooling)
