"""Crosses: categories that are combinations of features."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from fullpass.preprocessing.features.ids import Encoding, Vocabulary
from fullpass.preprocessing.spec import Count, Name, Spec


class Cross(Spec):
    """A category that is the combination of two or more features; missing if any of them is missing.

    Inputs are names of single-valued features: categories by token; booleans, bucketized numbers and custom ids by id;
    date parts as `feature.part`. Ids follow the id contract: `hash_buckets` hashes combinations (0 missing, then the
    buckets); `vocabulary` keeps the combinations of the train split. Transformed: int64 [batch].
    """

    separator: ClassVar[str] = "\x1f"

    inputs: tuple[Name, ...] = Field(min_length=2)
    """Names of features, or `feature.part` of dates."""
    name: Name | None = None
    """Name of the crossed feature; by default the inputs joined by `_x_`."""
    hash_buckets: Count | None = None
    """Number of hash buckets; 1000 unless `vocabulary` is given."""
    vocabulary: Vocabulary | None = None
    encoding: Encoding = "auto"
    """Encoding of the ids in the model: auto, one_hot or an embedding."""

    @model_validator(mode="before")
    @classmethod
    def _default_buckets(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not {"hash_buckets", "vocabulary"} & set(value):
            return {**value, "hash_buckets": 1000}
        return value

    @model_validator(mode="after")
    def _one_mapping(self) -> "Cross":
        if self.hash_buckets is not None and self.vocabulary is not None:
            raise ValueError("give hash_buckets or vocabulary, not both.")
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"every input must be listed only once. Received: {list(self.inputs)}.")
        return self

    @property
    def feature_name(self) -> str:
        """The name of the crossed feature."""
        return self.name or "_x_".join(self.inputs)
