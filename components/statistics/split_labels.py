"""The labels of each split, by the statistics of the run: what their metrics do not say.

A split may have another share of a label than all rows, and classes that train never has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.base.errors import listed
from fullpass.base.files import read_bytes
from fullpass.components.statistics.label_balance import Imbalance, uneven_means, uneven_shares
from fullpass.preprocessing.features.label import Label

_SHOWN = 5
"""Classes that a sentence names at most."""


@dataclass(frozen=True)
class NewClasses:
    """The classes of a split that train never has.

    Attributes:
        classes: Their names, the most frequent first.
        rows: Number of rows of the split with one of them.
        labelled: Number of rows of the split with a label.
        counted: Whether metrics count these rows, always as wrong; of classes that are learned from train, none does.
    """

    split: str
    classes: tuple[str, ...]
    rows: float
    labelled: float
    counted: bool

    @property
    def words(self) -> str:
        """The classes as text for people."""
        named = f"{self.rows / self.labelled:.1%} of the labels of split {self.split} never occur in train"
        how = "metrics count them as wrong" if self.counted else "no metric counts them"
        return f"{named} ({listed(self.classes, most=_SHOWN)}): {how}"

    def beside(self, metrics: Mapping[str, float | None]) -> str:
        """Returns the text, with the accuracy of all rows if it is measured without these."""
        accuracy = None if self.counted else metrics.get("multiclass_accuracy")
        if accuracy is None:
            return self.words
        of_all = accuracy * (1 - self.rows / self.labelled)
        return f"{self.words}; with these as wrong, multiclass_accuracy is {of_all:.4f}"


@dataclass(frozen=True)
class SplitLabels:
    """The labels of each split of a run.

    Attributes:
        values: Split -> text of the label -> number of rows; empty for numbers, and for a derived label.
        moments: Split -> number of rows, mean and standard deviation of a label of numbers.
        complete: Whether the statistics hold all texts of the label in train.
    """

    label: Label
    values: Mapping[str, Mapping[str, float]]
    moments: Mapping[str, tuple[float, float, float]]
    complete: bool

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return self.label.names_of_values(tuple(self.values.get("train", ()))) or ()

    @property
    def uneven(self) -> tuple[Imbalance, ...]:
        """The splits whose label is distributed otherwise than in all rows.

        Texts of one class, such as 1 and true, count together, and each class of a multilabel row by itself.
        """
        rows = dict.fromkeys(self.values, 0.0)
        counts: dict[str, dict[str, float]] = {split: {} for split in self.values}
        for split, of_split in self.values.items():
            for value, count in of_split.items():
                classes = self.label.classes_of(value, self._names)
                rows[split] += count if classes is not None else 0
                for name in classes or ():
                    counts[split][name] = counts[split].get(name, 0) + count
        return (*uneven_shares(counts, rows), *uneven_means(self.label.column, self.moments))

    def notes(self, metrics: Mapping[str, float | None]) -> list[str]:
        """Returns what people need to know beside the metrics of eval, as text."""
        new = [one.beside(metrics if one.split == "eval" else {}) for one in self.new]
        return [*(imbalance.words for imbalance in self.uneven), *new]

    @property
    def new(self) -> tuple[NewClasses, ...]:
        """The splits with classes that train never has; none of more classes than the statistics hold."""
        if self.label.task not in ("multiclass", "multilabel") or "train" not in self.values or not self.complete:
            return ()
        known = {name for value in self.values["train"] for name in self.label.classes_of(value, ()) or ()}
        found = []
        for split, of_split in self.values.items():
            classes = {value: self.label.classes_of(value, ()) for value in of_split}
            new = {value: {*of} - known for value, of in classes.items() if of and not {*of} <= known}
            if new:
                names = dict.fromkeys(
                    name for value in sorted(new, key=lambda v: -of_split[v]) for name in sorted(new[value])
                )
                labelled = sum(count for value, count in of_split.items() if classes[value] is not None)
                rows = sum(of_split[value] for value in new)
                found.append(NewClasses(split, tuple(names), rows, labelled, self.label.classes is not None))
        return tuple(found)


def read_split_labels(statistics: str, label: Label, splits: Sequence[str]) -> SplitLabels:
    """Returns the labels of the splits; nothing of a derived label, which is in no statistics.

    Args:
        statistics: The folder of the statistics, with a folder per split.
    """
    values: dict[str, dict[str, float]] = {}
    moments: dict[str, tuple[float, float, float]] = {}
    complete = True
    for split in splits:
        content = read_bytes(f"{statistics}/Split-{split}/FeatureStats.pb") or b""
        datasets = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
        feature = next((f for data in datasets for f in data.features if list(f.path.step) == [label.column]), None)
        if feature is not None and feature.WhichOneof("stats") == "num_stats":
            stats = feature.num_stats
            moments[split] = (stats.common_stats.num_non_missing, stats.mean, stats.std_dev)
        elif feature is not None:
            stats = feature.string_stats
            values[split] = {b.label: b.sample_count for b in stats.rank_histogram.buckets}
            complete &= split != "train" or stats.unique <= len(values[split])
    return SplitLabels(label, values, moments, complete)
