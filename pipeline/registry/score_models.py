"""Scores rows with one or two models, and finds the rows on which two models can be compared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UsageError, UserError
from fullpass.components.evaluation.measure.labelled_rows import LabelledRows
from fullpass.components.evaluation.measure.measure_rows import chosen, joined
from fullpass.components.evaluation.measure.other_model import LabelOutput
from fullpass.components.evaluation.measure.score_rows import Scorer
from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.spans import Window, find_window
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.pipeline.authoring.loading.load import YAML_ENDINGS, load
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.registry.compared_model import ComparedModel
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.config import RunFn
from fullpass.trainer.records.record_files import BLOCK_ROWS, record_batches

_RELATIVE = 1e-5
"""The relative difference up to which two labels are equal: some steps of float32, in which models hold them."""
_ABSOLUTE = 1e-6
"""The same around 0."""


class NotComparable(UserError):
    """Two models have no rows, or no metrics, in common; the message says why."""


@dataclass(frozen=True)
class RowsOfBoth:
    """The rows that both models have scored.

    Attributes:
        rows: `models` are the first and the second model; labels and weights are those of the first.
        source: Where the rows come from, as text.
        notes: Rows that were left out, and what to know about the rest.
        of: The data whose rows have these ids.
    """

    rows: ScoredRows
    source: str
    notes: tuple[str, ...]
    of: object = None


def score(model: ComparedModel, records: Iterable[Sequence[bytes]], columns: Mapping[str, RawColumn]) -> ScoredRows:
    """Returns all rows, scored by a model.

    Args:
        records: Batches of serialized tf.Examples.
        columns: The raw columns whose values slices need.

    Raises:
        UserError: There are no rows, or TensorFlow cannot load the model.
    """
    scorer = _scorer(model, columns)
    batches = [scorer(tf.constant(batch)) for batch in records]
    if not batches:
        raise UserError(f"{model.name}: there are no rows to score.")
    return joined(batches)


def _scorer(model: ComparedModel, columns: Mapping[str, RawColumn]) -> Scorer:
    model.verify()
    found = model.config.model if model.config else None
    label = LabelOutput(found.label, found.logits) if isinstance(found, RunFn) else None
    try:
        return Scorer([str(model.export)], {name: column.type for name, column in columns.items()}, label)
    except (tf.errors.OpError, ValueError, AttributeError, OSError) as error:
        made = (model.lineage.get("code") or {}).get("line") or "an unknown line"
        raise UserError(
            f"{model.export}: TensorFlow {tf.__version__} cannot load the model, which was made with {made}: {error}"
        ) from error


def records_of(files: Sequence[str]) -> Iterator[list[bytes]]:
    """Yields the records of TFRecord files in batches."""
    for file in files:
        yield from record_batches(file, rows=BLOCK_ROWS)


def labelled_rows(config: PipelineConfig, data: str, read_as: Mapping[str, Any]) -> LabelledRows:
    """Returns the rows of labelled data as the model of a configuration reads them.

    Args:
        data: A file, folder, glob or address, read like the training data; or a YAML, whose `data.source` is read.
        read_as: Keys of `data.source` that differ from those of training; none for a YAML.

    Raises:
        UserError: The data does not exist, or cannot be read so.
    """
    ingest, joined = config.ingest_config, [*config.data.joins]
    if Path(data).suffix in YAML_ENDINGS:
        if read_as:
            raise UsageError(f"{data}: its data.source tells how to read the rows; drop {', '.join(read_as)}.")
        loaded = load(data)
        own = loaded.config.data
        window = find_window(own, loaded.resolve)
        changes: dict[str, Any] = {"source": own.source, "joins": own.joins, "span": own.span}
        return LabelledRows(window, ingest.model_copy(update=changes), config.preprocessing_config, joined)
    how = input_source(config.data.source.description(), data, read_as)
    changes = {"source": how.source, "joins": {}, "span": None}
    window = Window(None, (Span(0, tuple(input_files(how.source, data))),))
    return LabelledRows(window, ingest.model_copy(update=changes), config.preprocessing_config, joined, how.text)


def rows_of_both(
    a: ComparedModel, b: ComparedModel, data: str | None, read_as: Mapping[str, Any], slices: Iterable[str]
) -> RowsOfBoth:
    """Returns rows that both models have scored: of `data`, of both eval splits, or of one model's eval split.

    Raises:
        NotComparable: There are no such rows, or the models do not predict the same label.
        UserError: The data cannot be read.
    """
    if a.config is None or b.config is None:
        unknown = a if a.config is None else b
        raise NotComparable(f"{unknown.name}: this release does not know the columns that it reads")
    tasks = (a.config.label.task, b.config.label.task)
    if tasks[0] != tasks[1]:
        raise NotComparable(f"the tasks differ: {a.name} is {tasks[0]}, {b.name} is {tasks[1]}")
    columns = [_sliced(one, slices) for one in (a, b)]
    if data is not None:
        read = [labelled_rows(one.config, data, read_as) for one in (a, b) if one.config]
        scored = [score(one, rows, of) for one, rows, of in zip((a, b), read, columns, strict=True)]
        notes = [
            f"{rows.bad:,} of {rows.rows:,} rows cannot be read by {one.name}: {'; '.join(rows.reasons)}"
            for one, rows in zip((a, b), read, strict=True)
            if rows.bad
        ]
        notes += [
            f"left out for {one.name}: {left}"
            for one, rows in zip((a, b), read, strict=True)
            for left in rows.unlabelled
        ]
        notes += [
            f"columns that {data} lacks, missing for {one.name}: {', '.join(rows.absent)}"
            for one, rows in zip((a, b), read, strict=True)
            if rows.absent
        ]
        notes += dict.fromkeys(note for rows in read for note in rows.short_histories)
        return paired(a, b, scored, data, notes, data)
    if a.eval_files and b.eval_files and a.data == b.data != ():
        scored = [score(one, records_of(one.eval_files), of) for one, of in zip((a, b), columns, strict=True)]
        if len(np.intersect1d(scored[0].row_ids, scored[1].row_ids)):
            return paired(a, b, scored, "the eval split of both, which have the same data", [], a.data)
    for owner, other in ((a, b), (b, a)):
        known = owner.columns
        if owner.eval_files and all(known.get(name) == column for name, column in other.columns.items()):
            own = _sliced(owner, slices)
            scored = [score(one, records_of(owner.eval_files), own) for one in (a, b)]
            note = f"their data or splits differ, so some of these rows may be among the training rows of {other.name}"
            of: object = owner.data or tuple(owner.eval_files)
            return paired(a, b, scored, f"the eval split of {owner.name}", [note], of)
    raise NotComparable(_why_no_rows(a, b))


def rows_of_all(pairs: Sequence[RowsOfBoth]) -> list[RowsOfBoth] | None:
    """Returns those rows of each pair that all pairs have; None if they have other data, or no row in common."""
    common = reduce(np.intersect1d, (pair.rows.row_ids for pair in pairs))
    if len({pair.of for pair in pairs}) > 1 or not len(common):
        return None
    return [replace(pair, rows=chosen(pair.rows, np.isin(pair.rows.row_ids, common))) for pair in pairs]


def _why_no_rows(a: ComparedModel, b: ComparedModel) -> str:
    gone = [one.name for one in (a, b) if not one.eval_files]
    why = f"the eval examples of {' and of '.join(gone)} are not on this machine" if gone else ""
    lacks = [
        f"the eval examples of {owner.name} lack {', '.join(missing)}, which {other.name} reads"
        for owner, other in ((a, b), (b, a))
        if owner.eval_files
        and (missing := [name for name, column in other.columns.items() if owner.columns.get(name) != column])
    ]
    return f"{'; '.join(filter(None, (why, *lacks)))}. Give labelled rows with the columns of both: --data FILE"


def _sliced(model: ComparedModel, slices: Iterable[str]) -> dict[str, RawColumn]:
    return {name: column for name in slices if (column := model.columns.get(name)) is not None and column.is_single}


def paired(
    a: ComparedModel,
    b: ComparedModel,
    scored: Sequence[ScoredRows],
    source: str,
    notes: Sequence[str],
    of: object = None,
) -> RowsOfBoth:
    """Returns the rows that both have scored and that have a usable label for both, in the order of their ids."""
    _, *index = np.intersect1d(scored[0].row_ids, scored[1].row_ids, assume_unique=True, return_indices=True)
    first, second = (chosen(rows, of) for rows, of in zip(scored, index, strict=True))
    notes = list(notes)
    for one, rows in zip((a, b), scored, strict=True):
        if left := len(rows.row_ids) - len(first.row_ids):
            notes.append(f"{left:,} of {len(rows.row_ids):,} rows of {one.name} are not among the rows of the other")
    used = [rows.models[0].weights > 0 for rows in (first, second)]
    both = used[0] & used[1]
    if only := int((used[0] ^ used[1]).sum()):
        notes.append(f"{only:,} rows are left out, because one model only has a usable label there")
    if neither := int((~(used[0] | used[1])).sum()):
        notes.append(f"{neither:,} rows have no usable label, and count nowhere")
    if not both.any():
        raise NotComparable(f"no row of {source} has a label that both models can use")
    first, second = chosen(first, both), chosen(second, both)
    mine, other = first.models[0], second.models[0]
    _check_labels(a, b, mine, other)
    if not np.allclose(mine.weights, other.weights):
        notes.append(f"the weights of rows differ; both models are measured with those of {a.name}")
    if mine.classes != other.classes:
        notes.append(_class_note(a, b, mine.classes, other.classes))
    columns, models = {**second.columns, **first.columns}, (mine, replace(other, weights=mine.weights))
    return RowsOfBoth(replace(first, columns=columns, models=models), source, tuple(notes), of)


def _class_note(a: ComparedModel, b: ComparedModel, first: Sequence[str], second: Sequence[str]) -> str:
    only = [
        f"{one.name} alone knows {', '.join(name for name in known if name not in others)}"
        for one, known, others in ((a, first, second), (b, second, first))
        if not {*known} <= {*others}
    ]
    return f"the classes differ: {'; '.join(only)}" if only else "the classes have another order"


def _check_labels(a: ComparedModel, b: ComparedModel, first: Scored, second: Scored) -> None:
    labels = [_named(rows) for rows in (first, second)]
    if labels[0].shape != labels[1].shape:
        raise NotComparable(
            f"the classes of the label differ, of which a row of {a.name} and {b.name} may have several"
        )
    same = labels[0] == labels[1]
    if labels[0].dtype.kind == "f":
        same = np.isclose(labels[0], labels[1], rtol=_RELATIVE, atol=_ABSOLUTE)
    wrong = int((~(same if same.ndim == 1 else same.all(axis=1))).sum())
    if wrong:
        raise NotComparable(
            f"the labels differ in {wrong:,} of {len(same):,} rows, so no metric is of the same target: "
            f"{_label(a)} in {a.name}, {_label(b)} in {b.name}"
        )


def _named(rows: Scored) -> np.ndarray:
    """Returns labels by the names of their classes; of several labels per row, by class in the order of the names."""
    if not rows.classes:
        return rows.labels
    if rows.labels.ndim == 2:
        return rows.labels[:, np.argsort(rows.classes)]
    return np.array(rows.classes, object)[rows.labels.astype(np.int64)]


def _label(model: ComparedModel) -> str:
    assert model.config is not None  # noqa: S101
    label = model.config.label
    how = model.config.data.derive.get(label.name)
    return f"{label.column} = {how}" if how else label.column
