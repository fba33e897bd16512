"""What `fullpass check --data` looks at: the sample as the pipeline file reads it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from components.ingest.config import Source
from pipeline.derived import derived_types, known_raw_columns, parsed
from pipeline.loading.load import Loaded
from pipeline.loading.problems import Keys
from pipeline.profile.columns import shown
from pipeline.profile.derived import array_of, values_of_array
from pipeline.profile.evaluate import evaluate
from pipeline.profile.sample import Sample
from pipeline.profile.values import Values, values_of
from preprocessing.columns import RawColumn, feature_columns
from preprocessing.feature import Feature


@dataclass(frozen=True, eq=False)
class Seen:
    """A pipeline file and a sample of its data.

    raw: raw columns as they are read. values: raw and derived columns by name, missing tokens taken out; lists of
    numbers are in the sample only.
    """

    loaded: Loaded
    sample: Sample
    raw: Mapping[str, RawColumn]
    values: Mapping[str, Values]

    @property
    def source(self) -> Source:
        """The section `data.source`."""
        return self.loaded.config.data.source

    @property
    def decimal(self) -> str:
        """What stands before the decimals of a number."""
        return str(getattr(self.source, "decimal", "."))

    def features(self) -> Iterator[tuple[Keys, Feature, str, Values]]:
        """Yields each feature with each column it reads that holds one value per row."""
        for name, feature in self.loaded.config.features.items():
            for column in feature_columns(name, feature):
                if column in self.values:
                    yield ("features", name), feature, column, self.values[column]

    def reader(self, column: str) -> Keys:
        """Returns the place that reads a raw column: a feature, the label, or the data section."""
        for keys, _, name, _ in self.features():
            if name == column:
                return keys
        label = self.loaded.config.label
        return (
            ("label", "name") if column == label.name else ("label", "weight") if column == label.weight else ("data",)
        )


def see(loaded: Loaded, sample: Sample) -> Seen:
    """Returns the sample as the file reads it, with the derived columns whose inputs are there."""
    source = loaded.config.data.source
    decimal = str(getattr(source, "decimal", "."))
    values = {
        name: values_of(array, decimal=decimal).without(source.missing_of(name))
        for name, array in sample.columns.items()
        if pa.types.is_string(array.type)
    }
    raw = {name: column for name, column in known_raw_columns(loaded.config).items() if name in sample.columns}
    return Seen(loaded, sample, raw, {**values, **_derived(loaded, values, raw, sample.rows)})


def _derived(
    loaded: Loaded, values: Mapping[str, Values], raw: Mapping[str, RawColumn], rows: int
) -> dict[str, Values]:
    arrays: dict[str, np.ndarray] = {
        name: array_of(values[name], column.type) for name, column in raw.items() if name in values
    }
    types, _ = derived_types(loaded.config)
    expressions, _ = parsed(loaded.config.data.derive)
    found: dict[str, Values] = {}
    for name, expression in expressions.items():
        if name in types and expression.columns <= arrays.keys():
            arrays[name] = evaluate(expression, arrays, rows)
            found[name] = values_of_array(arrays[name])
    return found


def listed(texts: Iterable[str], longest: int = 24) -> str:
    """Returns examples for a message: `"?", "n/a"`."""
    return ", ".join(f'"{shown(text, longest)}"' for text in texts)
