"""`fullpass init`: writes a pipeline file from data, with a reason for every line.

The file holds only entries that a run accepts: an entry that check refuses becomes a comment.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from fullpass.base.errors import UsageError, UserError
from fullpass.components.ingest.joins.config import is_joined
from fullpass.components.ingest.sources.config import ImagesSource
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.checks.data_rules import unread_derived
from fullpass.pipeline.authoring.data_check.data_check import check_sample
from fullpass.pipeline.authoring.init.propose_features import with_fast_encoder
from fullpass.pipeline.authoring.init.propose_joins import propose_joins, with_column
from fullpass.pipeline.authoring.init.propose_label import ChosenLabel, choose_label, named_columns
from fullpass.pipeline.authoring.init.propose_split import other_splits, ratios_of, split_line
from fullpass.pipeline.authoring.init.select_columns import (
    SelectedColumns,
    combine_columns,
    propose_sequences,
    select_columns,
)
from fullpass.pipeline.authoring.init.yaml_text import Draft, YamlLine, yaml_of
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys, Problem, format_path
from fullpass.pipeline.authoring.profile.column_profile import counted, shown
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile, profile_source
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import SMALL_NETWORK, auto_network

ROWS = 20_000
"""Default number of rows in the sample."""
_BLEND_FROM = 200
"""Fewer rows do not tell which of several models is better (docs/training.md)."""
_BLEND_UP_TO = 200_000
"""Up to this number of rows, a network is tried beside trees, whose training time grows more slowly with the rows."""
_OF_TREES = {"number", "category", "boolean", "date"}
_OF_BLEND = _OF_TREES | {"text", "categories"}
"""Kinds of columns of which `auto` grows trees; of more rows than it is for, only those of `_OF_TREES`."""
_MOST_SLICES, _SLICE_VALUES = 2, 12
_BUDGET, _MOST_BAD_ROWS = 0.001, 0.01
_MANY_ORDERS = 4.0
_LONGEST_PATH = 42
_LONGEST_NAME = 63
_BASELINE_AUC = 0.5
_LARGE_CLASS = 0.5
"""Share of the largest of several classes above which a proper score judges: few can be right more often than it."""
_SURELY = {"beyond_chance": 0.95}
_NOT_WORSE = {"not_worse_than": "blessed", "confidence": 0.95}
_NAME = re.compile(r"^name: *(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class WrittenFile:
    """A pipeline file that `init` wrote: its path, its content, and the lines to print for the user."""

    file: str
    text: str
    summary: tuple[str, ...]


def init(
    data: str,
    *,
    output: str,
    label: str | None = None,
    task: Task | None = None,
    rows: int = ROWS,
    bad_rows: float | None = None,
    tables: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> WrittenFile:
    """Profiles data and writes a pipeline file that passes `load` and `checks.require`.

    Args:
        data: A file, folder, pattern or package:NAME/PATH.
        output: The file to write; it must not exist yet.
        label: A column, or a condition or formula over columns; None takes the most likely label column.
        task: The task; None infers it from the label's values.
        bad_rows: Share of rows that may be unreadable, to be written as `data.bad_rows`; None accepts 1 %.
        tables: Folder of tables to join with, where a key matches.
        source: Keys of `data.source` that are written as given; the others are guessed to fit them.

    Raises:
        UserError: The data cannot be read or learned from, too many rows are unreadable, no column is clearly the
            label, or the file already exists.
    """
    file = Path(output)
    if file.exists():
        raise UsageError(f"{output} already exists. Name another file with -o, or remove it.")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{output}: there is no folder {file.parent}. Create it first.")
    profile = profile_source(data, file.absolute().parent, rows=rows, known=named_columns(label), given=source)
    _refuse_bad_rows(data, profile, bad_rows)
    chosen = choose_label(profile, label, task)
    of_label = {chosen.column.name, *chosen.reads, *named_columns(label)}
    joins = propose_joins(profile, tables, of_label, file.absolute().parent, rows=rows)
    own, profile = profile, joins.profile
    selection = select_columns(profile, chosen)
    joined = {line.name for line in joins.lines}
    read = {name for c in selection.features if (name := c.column.name.partition(".")[0]) in joined}
    sequences = propose_sequences(profile.sample, selection)
    taken = [*(c.name for c in profile.columns), chosen.column.name]
    of_rows = replace(selection, features=[c for c in selection.features if not is_joined(c.column.name, joined)])
    derived, combined = combine_columns(own, of_rows, chosen.target, taken)
    features = [*_features(profile, selection), *combined]
    name = _pipeline_name(data, file)
    draft = Draft(
        name=name,
        head=_head(data, file, profile),
        source=[YamlLine(key, value, profile.found.why.get(key, "")) for key, value in profile.found.settings.items()],
        derive=[*([chosen.derive] if chosen.derive else []), *derived],
        data=_data_lines(own, chosen, of_rows, bad_rows),
        splits=other_splits(own, has_epoch=any(c.has_trend for c in selection.features)),
        label=YamlLine("label", dict(chosen.guess.settings), chosen.guess.why),
        features=_with_unique_names([with_column(line, joined) for line in features]),
        left_out=[*(with_column(line, joined) for line in selection.left_out), *joins.left_out],
        sequences=sequences,
        rest=[
            *_model(profile, chosen, selection, sequences),
            _evaluation(profile, chosen, selection),
            YamlLine("push", {"to": f"serving/{name}"}, "models of this pipeline alone, which a model server watches"),
        ],
        joins=[line for line in joins.lines if line.name in read],
    )
    draft, problems = write_checked(file, draft, profile.sample)
    return WrittenFile(output, yaml_of(draft), tuple(_summary(output, profile, chosen, selection, draft, problems)))


def _refuse_bad_rows(data: str, profile: SourceProfile, allowed: float | None) -> None:
    """Raises UserError if more rows than allowed cannot be read: dropping them is the user's decision."""
    sample, share = profile.sample, profile.sample.bad_share
    if share <= (_MOST_BAD_ROWS if allowed is None else allowed):
        return
    total = sample.seen + sample.malformed
    examples = [f"  {row.file}, row {row.row}: {row.reason}: {shown(row.text, 60)}" for row in sample.bad[:3]]
    enough = min(1.0, float(np.ceil(share * 110) / 100))
    raise UserError(
        f"{data}: {sample.malformed:,} of {total:,} rows ({share:.1%}) cannot be read as "
        f"{profile.found.source.format}; nothing is written. Examples:\n"
        + "\n".join(examples)
        + f"\nFix the file. If a run may leave such rows out, give --bad-rows {enough:g}: that writes data.bad_rows: "
        f"{{max_fraction: {enough:g}}}."
    )


def _features(profile: SourceProfile, selection: SelectedColumns) -> list[YamlLine]:
    lines = []
    for one in selection.features:
        for line in one.lines:
            if one.column.image is not None and one.column.kind == "image":
                line = with_fast_encoder(line, profile.sample.total or profile.sample.seen)
            why = f"{line.why}; CHECK: {one.doubt}; is it known at serving time?" if one.doubt else line.why
            lines.append(replace(line, why=why))
    return lines


def _head(data: str, file: Path, profile: SourceProfile) -> list[str]:
    sample = profile.sample
    which = f"{sample.rows:,} of {sample.of_rows} rows"
    which = f"all {sample.rows:,} rows" if sample.whole and sample.rows == sample.seen else which
    name = data if len(data) <= _LONGEST_PATH else f".../{PurePath(data).name}"
    return [
        f"Written by `fullpass init` from {shown(name, _LONGEST_PATH)}: by {which}; each line has its reason.",
        f"Next: `fullpass check {file.name} --data`, then `fullpass run {file.name}`. All of it is yours to change:",
        "remove the # of a line to use it; ## marks remarks.",
    ]


def _pipeline_name(data: str, file: Path) -> str:
    """Returns a name by the data that no other pipeline file beside has: root and served folder are named by it."""
    others = (other for other in file.absolute().parent.glob("*.y*ml") if other != file.absolute())
    taken = {found[1] for other in others if (found := _NAME.search(other.read_text("utf-8", "replace")))}
    stem = PurePath(data.rstrip("/*")).name.split(".")[0] or file.stem
    names = chain([stem, f"{stem}-{file.stem}"], (f"{stem}-{number}" for number in count(2)))
    return next(name for name in map(_slug, names) if name not in taken)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[-_LONGEST_NAME:].strip("-") or "pipeline"


def _data_lines(
    profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns, bad_rows: float | None
) -> list[YamlLine]:
    names = [*(c.column.name for c in selection.features), chosen.column.name, *chosen.reads, *selection.types]
    lines = []
    if selection.types:
        lines.append(YamlLine("types", dict(selection.types), "read only by expressions, which need the type"))
    if not profile.found.source.given_splits:
        lines.append(split_line(profile, names))
    share = profile.sample.bad_share
    if share > _BUDGET / 2:
        limit = float(np.ceil(share * 200) / 100) if bad_rows is None else bad_rows
        why = f"{share:.2%} of rows cannot be read; the run would stop at 0.10%"
        lines.append(YamlLine("bad_rows", {"max_fraction": limit}, why))
    return lines


def _with_unique_names(features: Sequence[YamlLine]) -> list[YamlLine]:
    """Returns features renamed to avoid collisions with parts: `at.hour` is also the hour of the date `at`."""
    taken: set[str] = set()
    lines = []
    for line in features:
        name, value = line.name, line.value
        while _made_of(name, value) & taken:
            reads = "column" not in value and value["type"] != "duration" if isinstance(value, dict) else True
            if reads:
                value = {**(value if isinstance(value, dict) else {"type": value}), "column": line.name}
            name += "_"
        taken |= _made_of(name, value)
        lines.append(YamlLine(name, value, line.why))
    return lines


def _made_of(name: str, value: Any) -> set[str]:
    parts = value.get("parts", ()) if isinstance(value, dict) else ()
    missing = [f"{name}.missing"] if isinstance(value, dict) and value.get("indicator") else []
    return {*(f"{name}.{part}" for part in parts), *missing} | (set() if parts else {name})


@rule("linear model for texts")
def _linear_for_texts(chosen: ChosenLabel, selection: SelectedColumns) -> dict[str, Any] | None:
    """Returns the linear model if texts are the only features of a classification; it is hard to beat there.

    docs/init.md has the measurements for two classes with bags of words, and for several with weighted n-grams.
    """
    weighted = {c.text.chosen.is_weighted if c.text is not None else None for c in selection.features}
    if chosen.guess.task == "binary" and weighted == {False}:
        return {"kind": "linear", "l2": 0.0001}
    return {"kind": "linear"} if chosen.guess.task == "multiclass" and weighted == {True} else None


def _model(
    profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns, sequences: Sequence[YamlLine]
) -> list[YamlLine]:
    """Returns the line `model`, followed by `training` if the model or its features need it."""
    linear = None if sequences else _linear_for_texts(chosen, selection)
    training: dict[str, Any] = {}
    why: list[str] = []
    if linear is not None:
        training, why = {"learning_rate": 0.01 if "l2" in linear else 0.02}, ["large, for a linear model"]
    if not {"image", "text"}.isdisjoint(candidate.column.kind for candidate in selection.features):
        training, why = training | {"time": "15m"}, [*why, "its longest time; the best epoch so far is kept"]
    if chosen.guess.task == "regression" and (orders := _orders_of_magnitude(chosen.target.y)) >= _MANY_ORDERS:
        training |= {"loss": "log_normal"}
        why.append(f"the label is above 0 and spans {orders:.0f} orders of magnitude: squared, few rows would decide")
    model = _model_of(profile, chosen, selection, sequences, linear)
    return [model, *([YamlLine("training", training, "; ".join(why))] if training else [])]


@rule("label of many orders of magnitude", otherwise=0.0)
def _orders_of_magnitude(labels: np.ndarray) -> float:
    """Returns how many powers of ten all but 2 in 1,000 labels span; 0 if a label is 0 or below."""
    known = labels[~np.isnan(labels)]
    if not len(known) or known.min() <= 0:
        return 0.0
    low, high = np.quantile(known, [0.001, 0.999])
    return float(np.log10(high / low))


def _model_of(
    profile: SourceProfile,
    chosen: ChosenLabel,
    selection: SelectedColumns,
    sequences: Sequence[YamlLine],
    linear: dict[str, Any] | None,
) -> YamlLine:
    rows, kinds = profile.sample.seen, {candidate.column.kind for candidate in selection.features}
    if "image" in kinds:
        return YamlLine("model", {"kind": "mlp", "hidden": [64]}, "layers above the network of the image")
    if linear is not None:
        return YamlLine("model", linear, "one weight per word and class: texts alone need no more")
    many = (profile.sample.total or rows) > _BLEND_UP_TO
    if rows >= _BLEND_FROM and not sequences and chosen.guess.task != "multilabel":
        if many and kinds <= _OF_TREES:
            why = "boosted trees: all features are single numbers and categories"
            return YamlLine("model", {"kind": "trees"}, why)
        if not many and kinds <= _OF_BLEND:
            why = "boosted trees, a network and a linear model, blended if that is better; or write one of their kinds"
            return YamlLine("model", {"kind": "auto"}, why)
    ratios = ratios_of(profile)
    if auto_network(rows * ratios["train"] // sum(ratios.values())) == SMALL_NETWORK:
        model = SMALL_NETWORK.model_dump(mode="json", exclude_unset=True)
        return YamlLine("model", model, f"small, for {rows:,} rows")
    return YamlLine("model", {"kind": "wide_deep"}, "linear in ids and crosses, beside a network of all features")


def _evaluation(profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns) -> YamlLine:
    slices = [[name] for name in _slices(profile, selection)]
    metric, bound, span, why = _push_threshold(chosen)
    bounds = {**bound, **_SURELY, **_NOT_WORSE, "tolerance": _tolerance(profile, chosen, span)}
    why += "; and no worse than the last blessed model, beyond chance and what training anew changes"
    return YamlLine("evaluation", {**({"slices": slices} if slices else {}), "thresholds": {metric: bounds}}, why)


def _tolerance(profile: SourceProfile, chosen: ChosenLabel, span: float) -> float:
    """Returns by how much training anew moves a metric: about half its standard error on the eval rows.

    Equal models that learned from other rows differ by more than the rows that judge them explain (docs/evaluation.md).

    Args:
        span: How far a perfect model is from the best constant guess. Divided by the root of the number of rows, it is
            about the standard error of a metric of a model between them; for an AUC, of rows that count like as many of
            two equal classes.
    """
    ratios, (rows, y) = ratios_of(profile), (profile.sample.total or profile.sample.seen, chosen.target.y)
    share = np.nanmean(y) if chosen.guess.task == "binary" else 0.5
    judged = rows * ratios["eval"] / sum(ratios.values()) * 4 * share * (1 - share)
    return float(f"{span / (2 * max(judged, 1.0) ** 0.5):.1g}")


@rule("slices", otherwise=[])
def _slices(profile: SourceProfile, selection: SelectedColumns) -> list[str]:
    """Returns the raw columns to slice metrics by: those with a few common values."""
    found = []
    for candidate in selection.features:
        values = candidate.column.values
        is_raw = profile.column(candidate.column.name) is not None
        if candidate.column.kind in ("category", "boolean") and is_raw:
            if 2 <= values.distinct <= _SLICE_VALUES and values.counts[1] >= 0.05 * values.rows:
                found.append((values.distinct, candidate.column.name))
    return [name for _, name in sorted(found)[:_MOST_SLICES]]


def _push_threshold(chosen: ChosenLabel) -> tuple[str, dict[str, float], float, str]:
    """Returns metric, bound, its distance from a perfect model, and the reason.

    The model must beat the best constant guess beyond chance.
    """
    y = chosen.target.y[~np.isnan(chosen.target.y)]
    task = chosen.guess.task
    if task in ("binary", "multilabel"):
        return "auc", {"min": _BASELINE_AUC}, 1 - _BASELINE_AUC, "the result of any constant guess"
    if task == "multiclass":
        shares = np.unique(y, return_counts=True)[1] / len(y)
        if shares.max() > _LARGE_CLASS:
            entropy = float(-(shares * np.log(shares)).sum())
            why = "the result of predicting the shares of the classes; accuracy says little about one large class"
            return "multiclass_log_loss", {"max": float(f"{entropy:.4g}")}, entropy, why
        why = "the result of always predicting the most common class"
        return "multiclass_accuracy", {"min": float(f"{shares.max():.4g}")}, 1 - float(shares.max()), why
    return "explained", {"min": 0}, 1.0, "share of the label's variance; always predicting the mean explains 0"


def _summary(
    output: str,
    profile: SourceProfile,
    chosen: ChosenLabel,
    selection: SelectedColumns,
    draft: Draft,
    problems: Sequence[Problem],
) -> list[str]:
    counts = counted(len(draft.features), "feature")
    if draft.sequences:
        counts += f", {counted(len(draft.sequences), 'sequence')}"
    lines = [
        f"{output}: {counts}, from {profile.sample.rows:,} rows looked at",
        f"label: {chosen.column.name} ({chosen.guess.task}; {chosen.guess.why})",
    ]
    if profile.sample.malformed:
        lines.append(f"bad rows: {profile.sample.bad_share:.2%} of rows cannot be read; a run sets them aside")
    if "missing_in" in profile.found.settings:
        lines.append(f"missing: {profile.found.why['missing_in']}")
    lines += [f"left out: {line.name} ({line.why})" for line in draft.left_out]
    lines += [f"check: {c.column.name}: {c.doubt}; is it known at serving time?" for c in selection.features if c.doubt]
    lines += [f"a run would stop: {p.path}: {p.message}" for p in problems if p.severity == "error"]
    lines += [f"check: {p.path}: {p.message}" for p in problems if "beyond chance" in p.message]
    return [*lines, f"Next: fullpass check {output} --data"]


def write_checked(file: Path, draft: Draft, sample: Sample) -> tuple[Draft, tuple[Problem, ...]]:
    """Writes the file by the rules of `check` and `check --data`; an error in a feature or slice removes it.

    Returns:
        The draft as written, and the warnings of the data, and its errors that no removal mends.

    Raises:
        UserError: A run would refuse the file for another reason; nothing is written.
    """
    pending = file.absolute().with_name(f".{file.name}-{os.getpid()}.yaml")
    try:
        while True:
            pending.write_text(yaml_of(draft), encoding="utf-8")
            refused = False
            try:
                loaded = load(pending)
                require(loaded)
                if unread := unread_derived(loaded):
                    draft = _with_unread(draft, unread)
                    continue
                images = isinstance(loaded.config.data.source, ImagesSource)
                problems = () if images else check_sample(loaded, sample, leaks=False)  # `select_columns` judged them
            except ConfigError as error:
                problems, refused = error.problems, True
            errors = [p for p in problems if p.severity == "error"]
            mended = next((found for error in errors if (found := _without(draft, error)) is not None), None)
            if mended is None and refused:
                told = "\n".join(f"  {p.path}: {p.message}" for p in errors)
                raise UserError(f"{file}: not written, because a run would refuse it:\n{told}")
            if mended is None:
                pending.replace(file)
                return draft, problems
            draft = mended
    finally:
        pending.unlink(missing_ok=True)


def _with_unread(draft: Draft, names: Collection[str]) -> Draft:
    """Returns the draft with derived columns that only left out features read as comments."""
    unread = [line for line in draft.derive if line.name in names]
    return replace(draft, derive=[line for line in draft.derive if line not in unread], unread=[*draft.unread, *unread])


def _without(draft: Draft, error: Problem) -> Draft | None:
    """Returns the draft without the entry that an error is about; None if it is about no entry that can be removed."""
    feature = next((line for line in draft.features if _is_at(error.path, ("features", line.name))), None)
    join = next((line for line in draft.joins if _is_at(error.path, ("data", "joins", line.name))), None)
    sequence = next((line for line in draft.sequences if _is_at(error.path, ("sequences", line.name))), None)
    why = f"a run would refuse it: {error.message}"
    if feature is not None and len(draft.features) > 1:
        left_out = [*draft.left_out, replace(feature, why=why)]
        return replace(draft, features=_others(draft.features, feature), left_out=left_out)
    if join is not None:
        return replace(draft, joins=_others(draft.joins, join))
    if sequence is not None:
        left_out = [*draft.left_out, YamlLine(sequence.name, None, why)]
        return replace(draft, sequences=_others(draft.sequences, sequence), left_out=left_out)
    for line in draft.rest:
        slices = line.value.get("slices", []) if line.name == "evaluation" else []
        kept = [s for i, s in enumerate(slices) if not _is_at(error.path, ("evaluation", "slices", i))]
        if len(kept) < len(slices):
            value = {key: kept if key == "slices" else entry for key, entry in line.value.items()}
            evaluation = replace(line, value={key: entry for key, entry in value.items() if entry != []})
            return replace(draft, rest=[evaluation if other is line else other for other in draft.rest])
    return None


def _others(lines: Sequence[YamlLine], removed: YamlLine) -> list[YamlLine]:
    return [line for line in lines if line is not removed]


def _is_at(path: str, keys: Keys) -> bool:
    above = format_path(keys)
    return path == above or path.startswith((f"{above}.", f"{above}["))
