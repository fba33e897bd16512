"""The sample that `fullpass check --data` checks, as the pipeline file reads it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.config import Source
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.derived_columns import derived_types, known_raw_columns, parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.column_profile import shown
from fullpass.pipeline.authoring.profile.evaluate_expression import evaluate_arrays, expression_input
from fullpass.pipeline.authoring.profile.label_candidates import label_rows
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_computed, count_values
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import RawColumn, feature_columns
from fullpass.preprocessing.features.feature import Feature
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.arrow_text import as_tokens


@dataclass(frozen=True, eq=False)
class SampledData:
    """A pipeline file and a sample of its data.

    Attributes:
        values: Raw and derived columns by name, without missing tokens. Lists of numbers are only in `sample`.
    """

    loaded: Loaded
    sample: Sample
    raw: Mapping[str, RawColumn]
    values: Mapping[str, ValueCounts]

    @property
    def config(self) -> PipelineConfig:
        """The pipeline file."""
        return self.loaded.config

    @cached_property
    def target(self) -> Target | None:
        """The label of every row; None if its column is not in the sample."""
        label = self.config.label
        values = self.values.get(label.name)
        if values is None:
            return None
        y = label_rows(values, label.task, label.positive, label.classes)
        return Target(label.task, y, label.name, () if label.task == "regression" else values.texts)

    def features(self) -> Iterator[tuple[Keys, Feature, str, ValueCounts]]:
        """Yields each feature with each of its columns that holds one value per row."""
        for name, feature in self.config.all_features.items():
            for column in feature_columns(name, feature):
                if column in self.values:
                    yield self.config.keys_of(name), feature, column, self.values[column]

    def reader(self, column: str) -> Keys:
        """Returns the path of the first key that reads a raw column."""
        return first_reader(self.loaded, column)

    def set_aside(self, keys: Keys, share: float, what: str, fix: str = "") -> Iterator[Finding]:
        """Yields a finding for a share of rows that Ingest sets aside: an error if it exceeds `data.bad_rows`."""
        allowed = self.config.data.bad_rows.max_fraction
        if share > allowed:
            yield Finding(keys, f"{what} The run allows {allowed:.2%} (data.bad_rows).{fix}")
        elif share:
            yield warning(keys, f"{what} Those rows are set aside.")


def first_reader(loaded: Loaded, column: str) -> Keys:
    """Returns the path of the first key that reads a column; a derived column only if no other key does."""
    readers = [keys for keys, read in columns_read(loaded) if read == column]
    return min(readers, key=lambda keys: keys[:2] == ("data", "derive"), default=("data",))


def decimal_of(source: Source) -> str:
    """Returns the decimal sign of numbers."""
    return str(getattr(source, "decimal", "."))


def sampled_data(loaded: Loaded, sample: Sample) -> SampledData:
    """Returns the sample as the file reads it, with the derived columns whose inputs are in the sample."""
    source = loaded.config.data.source
    raw = {name: column for name, column in known_raw_columns(loaded.config).items() if name in sample.columns}
    values = {}
    for name, array in sample.columns.items():
        if pa.types.is_string(array.type):
            array, missing = sample.numbers.get(name, array), source.missing_of(name)
            if name in raw and raw[name].token:
                array, missing = as_tokens(array), tuple(as_token(text) for text in missing)
            values[name] = count_values(array, decimal=decimal_of(source)).without(missing)
    return SampledData(loaded, sample, raw, {**values, **_derived(loaded.config, values, raw, sample.rows)})


def _derived(
    config: PipelineConfig, values: Mapping[str, ValueCounts], raw: Mapping[str, RawColumn], rows: int
) -> dict[str, ValueCounts]:
    types, _ = derived_types(config)
    expressions, _ = parsed(config.data.derive)
    read = {column for expression in expressions.values() for column in expression.columns}
    arrays: dict[str, np.ndarray] = {
        name: expression_input(values[name], column.type)
        for name, column in raw.items()
        if name in values and name in read
    }
    found: dict[str, ValueCounts] = {}
    for name, expression in expressions.items():
        if name in types and expression.columns <= arrays.keys():
            arrays[name] = evaluate_arrays(expression, arrays, rows)
            found[name] = count_computed(arrays[name])
    return found


def in_quotes(texts: Iterable[str], longest: int = 24) -> str:
    """Returns examples for a message: `"?", "n/a"`."""
    return ", ".join(f'"{shown(text, longest)}"' for text in texts)


def such_as(values: ValueCounts, wrong: np.ndarray) -> str:
    """Returns the commonest of the wrong values, bool [values], for a message: `, such as "?", "n/a"`."""
    examples = in_quotes(values.examples(wrong))
    return f", such as {examples}" if examples else ""
