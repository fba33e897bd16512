"""Numeric features: quantities, durations, counts and vectors."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from fullpass.preprocessing.features.base_feature import BaseFeature, WrittenDateFormat, WrittenNumberFormat
from fullpass.preprocessing.features.ids import Encoding
from fullpass.preprocessing.features.lists import OptionalList, list_options, refuse_attention, refuse_order
from fullpass.preprocessing.features.output import Output, dense_output, ids_output
from fullpass.preprocessing.features.transforms import (
    Bucketize,
    Log1p,
    NumberTransform,
    Pca,
    Power,
    Sqrt,
    VectorTransform,
    VectorZScore,
    ZScore,
)
from fullpass.preprocessing.spec import Count, Flag, Float32, Name
from fullpass.preprocessing.token_spelling import distinct_tokens

MissingRule = Literal["mean", "median", "min", "max", "own_bucket"] | Float32


class QuantityFeature(BaseFeature):
    """What becomes one number, or by `bucketize` an id: the fields of numbers, durations and ordinals."""

    missing: MissingRule = "mean"
    """Replaces missing values: a statistic of train, a constant, or own_bucket (id 0, after bucketize)."""
    indicator: Flag = False
    """Adds a feature: 1 if the value is missing, else 0."""
    transforms: tuple[NumberTransform, ...] = (ZScore(),)
    """Applied in order; `[]` leaves the number unchanged."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model (of numbers: after bucketize)."""

    @model_validator(mode="before")
    @classmethod
    def _missing_of_buckets(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "missing" not in value and _ends_in_buckets(value.get("transforms")):
            return {**value, "missing": "own_bucket"}
        return value

    @field_validator("transforms")
    @classmethod
    def _buckets_last(cls, transforms: tuple[Any, ...]) -> tuple[Any, ...]:
        for earlier in transforms[:-1]:
            if isinstance(earlier, Bucketize):
                raise ValueError("bucketize must be the last transform: it turns the number into an id.")
        return transforms

    @model_validator(mode="after")
    def _own_bucket_needs_buckets(self) -> "QuantityFeature":
        if self.missing == "own_bucket" and not self.bucketized:
            raise ValueError("missing: own_bucket needs `bucketize` as the last transform.")
        if self.encoding != "auto" and not self.bucketized:
            raise ValueError("encoding is for ids; a number has ids only after `bucketize`.")
        return self

    @property
    def bucketized(self) -> bool:
        """Whether the transformed feature is an id."""
        return bool(self.transforms) and isinstance(self.transforms[-1], Bucketize)

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields the number, or its ids after `bucketize`, and the indicator."""
        yield ids_output(name, self.encoding, 1, list_options(self)) if self.bucketized else dense_output(name)
        if self.indicator:
            yield dense_output(name, "missing")

    def not_crossed(self, name: str) -> str | None:
        """Returns how it gets ids, if it has none."""
        fix = "Add {bucketize: {buckets: 10}} as its last transform, or a second feature that has it."
        return None if self.bucketized else f"{name} is a number, not an id. {fix}"


class NumberFeature(QuantityFeature):
    """A quantity. Transformed: float32 [batch], or int64 ids after `bucketize`.

    `missing` is computed on train's raw values and passed through the transforms; after `bucketize` it is id 0 by
    default.
    """

    example: ClassVar[str] = """\
fare: number                       # missing as the mean, then z_score
trip_miles: {type: number, missing: median, indicator: true, transforms: [{clip: {min: 0, max: 100}}, log1p, z_score]}
latitude: {type: number, column: pickup_latitude, transforms: [{bucketize: {buckets: 10}}]}
prices: {type: number, list: {max_length: 50, keep: last, pooling: max}}
amount: {type: number, format: "1.234,5-"}     # text such as 27,41- for -27.41
runtime: {type: number, format: "2h 10m"}      # minutes
"""
    computed_by: ClassVar = "quantities.number"
    column_holds: ClassVar = "number"

    type: Literal["number"]
    format: WrittenNumberFormat | None = None
    """How the numbers are written, by an example, if they are text: any `like` of `number(text, like)`, such as
    "$1,234.5", "1.234,5-", "1234.5%", "<1234.5" or "2h 10m" (docs/expressions.md). Durations are minutes, feet and
    inches are inches. A cell that is written otherwise is missing; a request may also hold numbers."""
    list: OptionalList = None
    """A list of any length (docs/lists.md)."""

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type: of text, if the numbers have a format."""
        return {self.column or name: "number" if self.format is None else "string"}

    @model_validator(mode="after")
    def _pools_numbers(self) -> "NumberFeature":
        refuse_order(self.list, "a number")
        if not self.bucketized:
            refuse_attention(self.list, "a number")
        return self


class DurationFeature(QuantityFeature):
    """The time from `start` to `end`, missing if either is; then like a number."""

    example: ClassVar[str] = """\
wait: {type: duration, start: ordered_at, end: picked_up_at, unit: minutes, transforms: [log1p, z_score]}
"""
    computed_by: ClassVar = "quantities.duration"

    type: Literal["duration"]
    start: Name
    """Column of the earlier date."""
    end: Name
    """Column of the later date."""
    format: WrittenDateFormat = "iso"
    """Format of both, as in a date feature."""
    unit: Literal["seconds", "minutes", "hours", "days"] = "seconds"
    """Unit of the number, which may have a fraction."""

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type, for both dates."""
        return {self.start: "string", self.end: "string"}


class OrdinalFeature(QuantityFeature):
    """The rank of a word in an order: 1 for the first one. Then like a number; another text is missing.

    The words are compared as the tokens of a category.
    """

    example: ClassVar[str] = """\
priority: {type: ordinal, order: [low, medium, high]}
age: {type: ordinal, order: [18-24, 25-34, 35-64, 65+], missing: median, indicator: true}
"""
    computed_by: ClassVar = "quantities.ordinal"
    column_holds: ClassVar = "token"

    type: Literal["ordinal"]
    order: tuple[Name, ...] = Field(min_length=2)
    """The words, the lowest first."""

    @field_validator("order")
    @classmethod
    def _different_words(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return distinct_tokens(order)
        except ValueError as error:
            raise ValueError(f"every word must be listed only once; {error}.") from None


class CountFeature(BaseFeature):
    """How often the category occurs in train (count encoding), or its share of the rows (frequency encoding).

    Transformed: float32 [batch]; 0 if missing or unseen. An analyzer. Source: tft.vocabulary with its frequencies.
    """

    example: ClassVar[str] = """\
company_size: {type: count, column: company, transforms: [log1p]}
company_share: {type: count, column: company, share: true}
"""
    computed_by: ClassVar = "category.count"
    column_holds: ClassVar = "token"

    type: Literal["count"]
    share: Flag = False
    """Divide by the number of train rows, those without a value included."""
    transforms: tuple[NumberTransform, ...] = ()
    """Only log1p, sqrt and power."""

    @field_validator("transforms")
    @classmethod
    def _stateless(cls, transforms: tuple[Any, ...]) -> tuple[Any, ...]:
        for transform in transforms:
            if not isinstance(transform, Log1p | Sqrt | Power):
                raise ValueError(f"a count accepts log1p, sqrt or power. Received: {transform.tag}.")
        return transforms


class VectorFeature(BaseFeature):
    """One column with `width` numbers per example, or several number columns.

    Transformed: float32 [batch, width], or [batch, dimensions] after pca. A missing component, and each one of a row of
    the wrong length, takes its mean over train.
    """

    example: ClassVar[str] = """\
position: {type: vector, columns: [latitude, longitude]}
image: {type: vector, column: pixels, width: 784, transforms: [z_score, {pca: {dimensions: 32}}]}
"""
    computed_by: ClassVar = "quantities.vector"

    type: Literal["vector"]
    columns: tuple[Name, ...] | None = Field(default=None, min_length=2)
    """Number columns of the vector."""
    width: Count | None = None
    """Numbers per example in one column of lists."""
    transforms: tuple[VectorTransform, ...] = (VectorZScore(),)
    """z_score and pca, applied in order; `[]` leaves the vector unchanged."""

    @model_validator(mode="after")
    def _one_source(self) -> "VectorFeature":
        if (self.columns is None) == (self.width is None):
            raise ValueError("give columns (several number columns) or width (one column of lists).")
        if self.columns is not None and self.column is not None:
            raise ValueError("give columns or column, not both.")
        for i, transform in enumerate(self.transforms):
            if isinstance(transform, Pca) and transform.dimensions > self.size:
                raise ValueError(f"pca cannot compute {transform.dimensions} dimensions from {self.size}.")
            if isinstance(transform, Pca) and i < len(self.transforms) - 1:
                raise ValueError("pca must be the last transform.")
        return self

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type: the columns of numbers, or the one of vectors."""
        return {self.column or name: "vector"} if self.columns is None else dict.fromkeys(self.columns, "number")

    def vector_size(self) -> int:
        """Returns the number of components before the transforms."""
        return self.size

    @property
    def size(self) -> int:
        """Number of components before the transforms."""
        return len(self.columns) if self.columns is not None else self.width or 0


def _ends_in_buckets(transforms: Any) -> bool:
    if not isinstance(transforms, list | tuple) or not transforms:
        return False
    last = transforms[-1]
    return isinstance(last, Bucketize) or last == "bucketize" or (isinstance(last, Mapping) and "bucketize" in last)
