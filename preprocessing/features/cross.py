"""Crosses: categories that are combinations of features."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from fullpass.preprocessing.features.ids import Encoding, Vocabulary
from fullpass.preprocessing.features.output import Output, ids_output
from fullpass.preprocessing.spec import Count, Name, Spec

_BUCKETS = 1000
"""Hash buckets of a cross that names neither buckets nor a vocabulary."""


class Cross(Spec):
    """A category that combines two or more features; missing if any is missing.

    Inputs are single-valued: categories by token; booleans, bucketized numbers, custom ids and date parts by id.
    Transformed: int64 [batch] ids.
    """

    separator: ClassVar[str] = "\x1f"

    inputs: tuple[Name, ...] = Field(min_length=2)
    """Features, or `feature.part` of dates."""
    name: Name | None = None
    """null: the inputs joined by `_x_`."""
    hash_buckets: Count | None = None
    """Hashes combinations; 1000 unless `vocabulary` is given."""
    vocabulary: Vocabulary | None = None
    """Learned or given combinations."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model."""

    @model_validator(mode="before")
    @classmethod
    def _default_buckets(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not {"hash_buckets", "vocabulary"} & set(value):
            return {**value, "hash_buckets": _BUCKETS}
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

    def outputs(self) -> Iterator[Output]:
        """Yields its ids."""
        unseen = 1 + (self.vocabulary.oov_buckets if self.vocabulary is not None else 0)
        yield ids_output(self.feature_name, self.encoding, unseen)
