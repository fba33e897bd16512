"""The transforms of number features: the fields of each class are its YAML, and its docstring is its manual.

`apply/number.py` has a function for each class. Common to all:

* Input is a float32 column of shape [batch]. A missing value is NaN and stays NaN, so statistics use only the present
  values of the train split.
* A value outside the domain of a transform (the square root of -1) becomes missing.
* After the last transform every missing value becomes the transformed `missing` value of the feature.
"""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Float32, Fraction, Name, SelectedBy, TaggedSpec


class TransformSpec(TaggedSpec):
    """A transform. It is an analyzer unless it is stateless."""

    @property
    def is_stateless(self) -> bool:
        """Whether the transform needs no statistics of the train split."""
        return isinstance(self, StatelessTransform)


class StatelessTransform(TransformSpec):
    """A transform that never needs statistics of the train split."""


class ZScore(TransformSpec):
    """Subtracts train's mean and divides by its standard deviation.

    A constant column becomes 0, and so does an unseen `key`. An analyzer. Like tft.scale_to_z_score(_per_key).
    """

    tag: ClassVar[str] = "z_score"
    example: ClassVar[str] = "transforms: [z_score, {z_score: {key: company}}]"
    key: Name | None = None
    """Raw column of the groups; rows without a value are one."""


class MinMax(TransformSpec):
    """Scales linearly: train's smallest value becomes `min`, the largest `max`.

    Other values fall outside [min, max] unless `clip` stands before. A constant column, or an unseen `key`, becomes the
    middle. An analyzer. Like tft.scale_by_min_max(_per_key).
    """

    tag: ClassVar[str] = "min_max"
    example: ClassVar[str] = "transforms: [{clip: {min: 0}}, {min_max: {min: -1, max: 1}}]"
    min: Float32 = 0.0
    """Output for train's smallest value."""
    max: Float32 = 1.0
    """Output for train's largest value."""
    key: Name | None = None
    """Raw column of the groups; rows without a value are one."""

    @model_validator(mode="after")
    def _ordered(self) -> "MinMax":
        if not self.min < self.max:
            raise ValueError(f"min must be below max. Received: min={self.min:g}, max={self.max:g}.")
        return self


class ScaleToGaussian(TransformSpec):
    """Makes a heavy-tailed column nearly standard normal: the inverse of a Tukey HH distribution fitted by L-moments.

    A column without long tails is only standardized; a constant one becomes 0. An analyzer. Source: tft.tukey_location,
    tukey_scale, tukey_h_params; Headrick and Pant (2012).
    """

    tag: ClassVar[str] = "scale_to_gaussian"


class Log1p(StatelessTransform):
    """log(1 + x); values of -1 and below become missing. Stateless. Source: tf.math.log1p."""

    tag: ClassVar[str] = "log1p"
    example: ClassVar[str] = "transforms: [{clip: {min: 0}}, log1p, z_score]"


class Sqrt(StatelessTransform):
    """Square root; negative values become missing. Stateless. Source: tf.sqrt."""

    tag: ClassVar[str] = "sqrt"
    example: ClassVar[str] = "transforms: [sqrt, z_score]"


class Power(StatelessTransform):
    """x to the power of `exponent`.

    Missing: a negative base with a fractional exponent, zero with a negative one, results beyond float32.
    Stateless. Source: tf.pow.
    """

    tag: ClassVar[str] = "power"
    example: ClassVar[str] = "transforms: [{power: {exponent: 0.5}}]"
    exponent: Float32
    """0.5 is the square root, -1 the reciprocal."""


class Clip(TransformSpec):
    """Moves values outside [low, high] to the nearer end; give values, quantiles of train, or one of each.

    Quantiles are approximate: the rank of a bound is off by at most 0.1 % of the rows. An analyzer
    with quantiles, else stateless. Source: tf.clip_by_value; tft.quantiles.

    Example: `{clip: {min: 0, max_quantile: 0.99}}` turns [-1, 2, 1000] into [0, 2, q99].
    """

    tag: ClassVar[str] = "clip"
    example: ClassVar[str] = "transforms: [{clip: {min: 0, max_quantile: 0.99}}, z_score]"
    min: Float32 | None = None
    """Smallest value kept."""
    max: Float32 | None = None
    """Largest value kept."""
    min_quantile: Fraction | None = None
    """Quantile of train below which values are moved up."""
    max_quantile: Fraction | None = None
    """Quantile of train above which values are moved down."""

    @property
    def is_stateless(self) -> bool:
        """Whether both bounds are values."""
        return self.min_quantile is None and self.max_quantile is None

    @model_validator(mode="after")
    def _bounds(self) -> "Clip":
        if self.min is not None and self.min_quantile is not None:
            raise ValueError("give min or min_quantile, not both.")
        if self.max is not None and self.max_quantile is not None:
            raise ValueError("give max or max_quantile, not both.")
        if all(b is None for b in (self.min, self.max, self.min_quantile, self.max_quantile)):
            raise ValueError("give at least one of min, max, min_quantile, max_quantile.")
        if self.min is not None and self.max is not None and not self.min < self.max:
            raise ValueError(f"min must be below max. Received: min={self.min:g}, max={self.max:g}.")
        low, high = self.min_quantile, self.max_quantile
        if low is not None and high is not None and not low < high:
            raise ValueError(f"min_quantile must be below max_quantile. Received: {low:g}, {high:g}.")
        return self


class QuantileScale(TransformSpec):
    """Maps a value to its rank in train, between 0 and 1, interpolated between quantiles.

    Values beyond train's range become 0 or 1; a value that spans several intervals takes their middle. An analyzer.
    Source: tft.quantiles.
    """

    tag: ClassVar[str] = "quantile_scale"
    example: ClassVar[str] = "transforms: [{quantile_scale: {quantiles: 1000}}]"
    quantiles: int = Field(default=100, strict=True, ge=2)
    """Intervals between the interpolation points."""


class Bucketize(TransformSpec):
    """Converts a number to the id of its bucket: by quantiles of train (`buckets`) or given `boundaries`.

    Output: int64; 0 is missing, 1 is below the first boundary. A value equal to a boundary belongs above it. Equal
    quantiles are merged. Must be the last transform; the feature is then encoded like a category and can be crossed. An
    analyzer with `buckets`, else stateless. Like tft.bucketize, tft.apply_buckets.

    Example: `{bucketize: {boundaries: [0, 10]}}` turns [-5, 0, 9.9, 10, missing] into [1, 2, 2, 3, 0].
    """

    tag: ClassVar[str] = "bucketize"
    example: ClassVar[str] = "transforms: [{bucketize: {boundaries: [0, 10, 100]}}]"
    buckets: int | None = Field(default=None, strict=True, ge=2)
    """Number of quantile buckets."""
    boundaries: tuple[Float32, ...] | None = Field(default=None, min_length=1)
    """Increasing; n boundaries make n + 1 buckets."""

    @model_validator(mode="after")
    def _one_way(self) -> "Bucketize":
        if (self.buckets is None) == (self.boundaries is None):
            raise ValueError("give either buckets (quantiles) or boundaries, e.g. {bucketize: {buckets: 10}}.")
        if self.boundaries is not None:
            for low, high in zip(self.boundaries, self.boundaries[1:], strict=False):
                if not low < high:
                    raise ValueError(f"boundaries must increase. Received: {low:g} before {high:g}.")
        return self


class Pca(TransformSpec):
    """Projects a vector onto its first `dimensions` principal components in train.

    Output: float32 [batch, dimensions], with mean 0 on train, unlike tft.pca, its source. An analyzer that keeps a
    float64 matrix of width x width in memory.
    """

    tag: ClassVar[str] = "pca"
    example: ClassVar[str] = "transforms: [z_score, {pca: {dimensions: 2}}]"
    dimensions: Count
    """At most the width of the vector."""


class VectorZScore(TransformSpec):
    """Standardizes each component of a vector separately, like `z_score` for a number.

    For vectors. Output: float32 [batch, width]. A constant component becomes 0. An analyzer.
    Source: tft.scale_to_z_score(elementwise=True).
    """

    tag: ClassVar[str] = "z_score"


NumberTransform = Annotated[
    ZScore | MinMax | ScaleToGaussian | Log1p | Sqrt | Power | Clip | QuantileScale | Bucketize, SelectedBy()
]
VectorTransform = Annotated[VectorZScore | Pca, SelectedBy()]
