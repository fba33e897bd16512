"""The feature types, one class each. The fields are the YAML schema, and the docstrings are the manual.

An empty text is missing, and an infinite number is missing.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fullpass.preprocessing.features.base_feature import BaseFeature
from fullpass.preprocessing.features.id_features import BooleanFeature, CategoryFeature, DateFeature, TextFeature
from fullpass.preprocessing.features.ids import Encoding
from fullpass.preprocessing.features.image_feature import ImageFeature
from fullpass.preprocessing.features.number_features import (
    CountFeature,
    DurationFeature,
    NumberFeature,
    OrdinalFeature,
    VectorFeature,
)
from fullpass.preprocessing.features.output import Output, dense_output, ids_output
from fullpass.preprocessing.features.target_feature import TargetFeature
from fullpass.preprocessing.spec import Count, ImportPath, Name, SelectedBy, members_by_tag


class CustomFeature(BaseFeature):
    """A TensorFlow function of your own, which may use TFT analyzers.

    Called with a dict of `columns`: float32 [batch] with NaN for missing numbers, string [batch] with "" for missing
    text. Must return float32 [batch] or [batch, k] (k static), or with `ids` int64 [batch] in 0 .. ids-1. Other ids
    become 0, but Transform refuses TFT ids of a wider range, such as -1 for unknown tokens. TensorFlow operations only.
    """

    example: ClassVar[str] = """\
distance:
  type: custom
  function: my_features:haversine
  columns: {pickup_latitude: number, pickup_longitude: number, zone: string}
"""
    computed_by: ClassVar = "custom.custom"

    type: Literal["custom"]
    function: ImportPath
    """The function."""
    columns: dict[Name, Literal["number", "string"]] = Field(min_length=1)
    """Raw or derived columns that it reads, and their types."""
    ids: Count | None = None
    """Number of ids, if it returns ids."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model (of numbers: after bucketize)."""

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type, for the columns that it declares."""
        return {**self.columns}

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields its numbers or ids."""
        yield dense_output(name) if self.ids is None else ids_output(name, self.encoding, 0)


Feature = Annotated[
    NumberFeature
    | CategoryFeature
    | BooleanFeature
    | DateFeature
    | DurationFeature
    | OrdinalFeature
    | TextFeature
    | CountFeature
    | TargetFeature
    | VectorFeature
    | ImageFeature
    | CustomFeature,
    SelectedBy("type", bare=True),
]
FEATURE_TYPES: Mapping[str, type[BaseFeature]] = members_by_tag(Feature)
"""The value of `type` -> the class."""
Features = Annotated[dict[Name, Feature], Field(min_length=1)]
