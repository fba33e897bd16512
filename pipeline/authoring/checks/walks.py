"""The walks over a pipeline file that several rules take."""

from collections.abc import Iterator
from typing import TypeVar

from fullpass.pipeline.authoring.derived_columns import parsed
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import feature_columns, with_source_columns
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import Feature

Kind = TypeVar("Kind")


def features_and_crosses(loaded: Loaded) -> Iterator[tuple[Keys, Feature | Cross]]:
    """Yields all features, those of sequences too, and crosses, with their paths."""
    for name, feature in loaded.config.all_features.items():
        yield loaded.config.keys_of(name), feature
    for i, cross in enumerate(loaded.config.crosses):
        yield ("crosses", i), cross


def features_of(loaded: Loaded, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """Yields the features of one type that are no columns of a sequence, by name."""
    for name, feature in loaded.config.features.items():
        if isinstance(feature, kind):
            yield name, feature


def columns_of_features(loaded: Loaded) -> Iterator[tuple[Keys, str, set[str]]]:
    """Yields the columns that features read: the path of the feature, the column, and all that it is computed from."""
    expressions, _ = parsed(loaded.config.data.derive)
    for name, feature in loaded.config.all_features.items():
        for column in feature_columns(name, feature):
            yield loaded.config.keys_of(name), column, with_source_columns([column], expressions)
