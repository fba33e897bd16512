"""Checks of labels: missing ones, rare classes, uneven splits, weights, and columns that hold the label."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from fullpass.components.ingest.config import HashSplit, StratifiedSplit
from fullpass.components.ingest.splitting.assign import columns_of_split
from fullpass.components.statistics.label_balance import uneven_means, uneven_shares
from fullpass.pipeline.authoring.data_check.row_findings import SOURCE_PATH
from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, in_quotes
from fullpass.pipeline.authoring.loading.load import Finding, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.column_profile import BOOLEAN
from fullpass.pipeline.authoring.profile.leaks import indicators_of_label
from fullpass.pipeline.authoring.profile.number_profile import profile_numbers
from fullpass.pipeline.authoring.profile.sample import row_keys
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.features.label import Label

_RARE = 0.01
"""Share of a class below which accuracy says little."""
_FEW_OF_CLASS = 10
"""Rows of a class below which it is hardly learned or judged."""
_NAME: Keys = ("label", "name")


def check_label_values(sampled: SampledData) -> Iterator[Finding]:
    """Enough rows have a label that the task can read."""
    label, target = sampled.config.label, sampled.target
    if target is None:
        return
    values, none = sampled.values[label.name], np.isnan(target.y)
    of_train = none[_train_rows(sampled)]
    missing = float(of_train.mean())
    unread = sorted({values.texts[code] for code in values.codes[none] if code >= 0})[:4]
    if missing == 1:
        whose = "row" if none.all() else "train row"
        hint = f" Its values are {in_quotes(unread)}." if unread else f" It is missing in every {whose}."
        yield Finding(
            _NAME, f"no {whose} has a label that task {label.task} can read.{hint}{_how_to_read(label, unread)}"
        )
    elif missing > label.max_missing and label.weight is None:
        what = f"{missing:.1%} of train rows have no usable label"
        what += f" (values such as {in_quotes(unread)})" if unread else ""
        yield Finding(
            ("label", "max_missing"),
            f"{what}; max_missing allows {label.max_missing:.1%}, so the run would stop. Raise it, or fix the data."
            f"{_how_to_read(label, unread) if unread else ''}",
        )
    elif unread:
        yield warning(
            _NAME, f"values such as {in_quotes(unread)} are no labels of task {label.task}; those rows get weight 0."
        )


@rule("check of label classes", otherwise=())
def check_label_classes(sampled: SampledData) -> Iterator[Finding]:
    """Several classes exist, none is very rare, and splits share them; numeric labels have no far outliers."""
    label, target = sampled.config.label, sampled.target
    known = target.y[~np.isnan(target.y)] if target is not None else []
    if target is None or label.task == "multilabel" or not len(known):
        return
    if label.task == "regression":
        yield from _number_findings(label, np.asarray(known))
        return
    classes, counts = np.unique(known, return_counts=True)
    if len(classes) < 2:
        yield Finding(_NAME, f"every row has the same label, {_shown(target, classes[0])}.{_how_to_read(label)}")
    elif counts.min() / len(known) < _RARE and label.task == "binary":
        yield warning(
            _NAME,
            f"{_shown(target, classes[counts.argmin()])} occurs in {counts.min() / len(known):.2%} of rows. Use auc_pr "
            "rather than accuracy; class_weights: balanced makes rare rows count more.",
        )
    elif label.task == "multiclass" and (counts < _FEW_OF_CLASS).any():
        rare = [_shown(target, one) for one, rows in zip(classes, counts, strict=True) if rows < _FEW_OF_CLASS]
        yield warning(_NAME, f"{len(rare)} classes occur in fewer than {_FEW_OF_CLASS} rows, such as {rare[0]}.")
    of_train = np.unique(target.y[_train_rows(sampled) & ~np.isnan(target.y)])
    if len(classes) > len(of_train) == 1:
        keys: Keys = SOURCE_PATH if sampled.sample.splits else ("data", "split")
        what = f"every row of train has the same label, {_shown(target, of_train[0])}; there is nothing to learn."
        yield Finding(keys, what, "error" if sampled.sample.whole else "warning")
    yield from _split_findings(sampled, target)


def _train_rows(sampled: SampledData) -> np.ndarray:
    """Returns the rows of train, bool [rows]; all rows if their split is unknown or train has none of them."""
    names, splits = sampled.config.data.split_names, sampled.split_indices
    train = np.ones(sampled.sample.rows, bool) if splits is None else splits == names.index("train")
    return train if train.any() else ~train


def check_split_balance(sampled: SampledData) -> Iterator[Finding]:
    """Every split has the labels of all rows, beyond chance; many equal rows, which stay together, change that."""
    label, data, target = sampled.config.label, sampled.config.data, sampled.target
    if target is None or label.task == "multilabel" or sampled.sample.splits or isinstance(data.split, StratifiedSplit):
        return
    splits = sampled.split_indices
    if splits is None:
        return
    y = target.y
    of_split = {name: y[(splits == i) & ~np.isnan(y)] for i, name in enumerate(data.split_names)}
    if label.task == "regression":
        moments = {name: (len(of), float(of.mean()), float(of.std())) for name, of in of_split.items() if len(of)}
        found = uneven_means(label.name, moments)
    else:
        found = uneven_shares({n: Counter(_class_name(label, target, one) for one in of) for n, of in of_split.items()})
    for imbalance in found:
        yield warning(("data", "split"), f"{imbalance.words}.{_why_uneven(sampled)}")


def _class_name(label: Label, target: Target, number: float) -> str:
    if label.task == "multiclass":
        return target.texts[int(number)]
    if label.classes is not None:
        return f"{label.name} = {label.classes[int(number)]}"
    return f"{label.name} = {label.positive if number and label.positive is not None else f'{number:g}'}"


def _why_uneven(sampled: SampledData) -> str:
    """Returns which rows stay together in one split by hash, and a split that divides them better."""
    split, label = sampled.config.data.split, sampled.config.label
    if not isinstance(split, HashSplit):
        return ""
    by_key = columns_of_split(split)
    keys = row_keys(sampled.sample, by_key or list(sampled.sample.seen_columns))
    rows = max(pc.value_counts(keys).field("counts").to_pylist(), default=0)
    why = f" Rows with the same {' and '.join(by_key)} stay" if by_key else " Equal rows stay"
    why += f" in one split, and {rows:,} of {len(keys):,} rows looked at are the same."
    if label.task == "regression":
        return why
    ratios = ", ".join(f"{name}: {ratio:g}" for name, ratio in split.ratios.items())
    stratified = f"{{method: stratified, column: {label.name}, ratios: {{{ratios}}}}}"
    return f"{why} Give each split its share of every class: {stratified}."


def check_weight(sampled: SampledData) -> Iterator[Finding]:
    """Example weights are present and above 0."""
    weight = sampled.config.label.weight
    values = sampled.values.get(weight or "")
    if values is None:
        return
    numbers = values.row_numbers
    none = float((np.isnan(numbers) | (numbers <= 0)).mean())
    if none == 1:
        yield Finding(("label", "weight"), f"no row has a weight above 0 in column {weight}.")
    elif none > _RARE:
        yield warning(("label", "weight"), f"{none:.1%} of rows weigh 0: missing, 0 or negative in {weight}.")


@rule("check of leaks", otherwise=())
def check_leaks(sampled: SampledData) -> Iterator[Finding]:
    """No feature predicts the label almost completely, alone or as one of its one-hot columns."""
    target = sampled.target
    if target is None or sampled.config.label.forecast is not None:  # the present value is not the label
        return
    columns: dict[str, tuple[Keys, ValueCounts]] = {}
    for keys, _, name, values in sampled.features():
        columns.setdefault(name, (keys, values))
    indicators = indicators_of_label({name: values for name, (_, values) in columns.items()}, target)
    for name, (keys, _) in columns.items():
        strength = sampled.strengths[name]
        why = f"{strength.shown} {strength.by}" if strength is not None and strength.is_leak else None
        if why or name in indicators:
            yield warning(
                keys,
                f"column {name} alone predicts the label: {why or indicators[name].why}. Does it hold the label, or is "
                "it known only afterwards? Then remove it.",
            )


def _how_to_read(label: Label, unread: Sequence[str] = ()) -> str:
    if label.classes is not None:
        return " Change label.classes."
    if label.task == "binary" and label.positive is None:
        return f" Without `positive`, {', '.join(BOOLEAN.true[:4])} ... are true; name the value that counts as 1."
    if label.task == "binary":
        return f" positive is {label.positive!r}."
    in_lines = any("\n" in text or "\r" in text for text in unread)
    return " A class with a line break is known only if label.classes lists it." if in_lines else ""


def _shown(target: Target, number: float) -> str:
    if target.task != "binary":
        return in_quotes([target.texts[int(number)]])
    return "the positive class" if number == 1 else "the negative class"


def _number_findings(label: Label, known: np.ndarray) -> Iterator[Finding]:
    numbers = profile_numbers(known)
    if numbers is None:
        return
    below, above = numbers.outliers
    if numbers.low == numbers.high:
        yield Finding(_NAME, f"every row has the same label, {numbers.low:g}.")
    elif below is not None or above is not None:
        far, sign, limit = (numbers.high, ">", above) if above is not None else (numbers.low, "<", below)
        yield warning(
            _NAME,
            f"{label.name} reaches {far:g}, while 998 of 1,000 rows lie in {numbers.usual[0]:g} .. "
            f"{numbers.usual[1]:g}: a few rows decide every metric. Derive it with missing_if({label.name}, "
            f"{label.name} {sign} {limit:.2g}).",
        )


def _split_findings(sampled: SampledData, target: Target) -> Iterator[Finding]:
    """Yields findings for given splits with a single class, or with classes that train lacks."""
    label, splits, values = sampled.config.label, sampled.sample.splits, sampled.values[target.name]
    rows_of = splits
    if not splits and sampled.split_indices is not None:
        rows_of = {name: sampled.split_indices == i for i, name in enumerate(sampled.config.data.split_names)}
    labels = {name: target.y[rows][~np.isnan(target.y[rows])] for name, rows in rows_of.items()}
    train = labels.pop("train", None)
    for name, of in labels.items() if train is not None else ():
        keys: Keys = ("data", "source", "path", name) if splits else ("data", "split")
        if splits and len(np.unique(of)) == 1 and label.task == "binary":
            texts = in_quotes(dict.fromkeys(values.texts[c] for c in values.codes[splits[name]][:200] if c >= 0))
            yield Finding(keys, f"split {name} has one class only. Its labels are {texts}.{_how_to_read(label)}")
        classes, counts = np.unique(of[~np.isin(of, train)], return_counts=True)
        # Of rows that are looked at, train may have rare classes elsewhere.
        told = counts >= (1 if splits or sampled.sample.whole else _FEW_OF_CLASS)
        if told.any() and len(train):
            share = counts[told].sum() / len(of)
            named = in_quotes([_class_name(label, target, one) for one in classes[told][np.argsort(-counts[told])][:3]])
            counted = "no metric counts them" if label.classes is None else "metrics count them as wrong"
            what = f"{share:.1%} of labels of split {name} never occur in train, such as {named}: {counted}."
            yield Finding(keys, what, "error" if share > 0.5 else "warning")
