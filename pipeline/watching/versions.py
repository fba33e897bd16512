"""The versions that answered: their columns, and the training rows and eval metrics that they are compared with."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.files import read_json
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore, merge_parts, merge_spans
from fullpass.components.evaluation.measure.measured_metrics import read_measured
from fullpass.components.push.push import folder_of, served_version, served_versions
from fullpass.components.watch.came_in import ANSWER, SCORE, answered_by, watched_series
from fullpass.components.watch.judge_live import EvalMetrics
from fullpass.components.watch.log_rows import LoggedColumns
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.record.facts import RunFacts, read_facts
from fullpass.pipeline.registry.compared_model import ComparedModel, find_model
from fullpass.pipeline.root.layout import RootLayout
from fullpass.preprocessing.columns.raw_columns import raw_columns, request_columns
from fullpass.trainer.export.run_provenance import TRAINING_FILE
from fullpass.trainer.insight.words import reference_words

_DAMAGED = "Its metrics have no standard errors."


@dataclass(frozen=True)
class WatchedVersion:
    """A pushed version."""

    number: int
    model: ComparedModel
    config: PipelineConfig
    layout: RootLayout

    @property
    def export(self) -> Path:
        """The folder of its SavedModel."""
        assert self.model.export is not None  # noqa: S101
        return self.model.export

    @cached_property
    def columns(self) -> LoggedColumns:
        """Its columns, as requests have them and the log holds them, and those that only training has."""
        return columns_in_log(self.config)

    @property
    def is_logged(self) -> bool:
        """Whether the log has every column that it reads: none is of persons."""
        return not {*request_columns(self.config.preprocessing_config)} & {*self.config.data.personal}

    @cached_property
    def series(self) -> SeriesSource:
        """The series that its requests are compared in."""
        return watched_series(self.config.preprocessing_config, self.columns.columns, self._unit)

    @property
    def _unit(self) -> Any:
        return self._facts.unit

    @cached_property
    def _facts(self) -> RunFacts:
        path = self.layout.run_file(str(self.model.lineage.get("run")))
        with suppress(UserError):
            if path.is_file():
                return read_facts(path, _DAMAGED)
        return RunFacts()

    @property
    def at_eval(self) -> EvalMetrics:
        """Its metrics on the eval split."""
        values, errors = dict(self.model.lineage.get("metrics") or {}), {}
        with suppress(UserError, OSError):
            if self._facts.evaluation:
                whole = next(one for one in read_measured(self._facts.evaluation) if not one.keys and not one.newest)
                errors = dict(whole.errors)
        return EvalMetrics({name: value for name, value in values.items() if value is not None}, errors)

    @property
    def reference_words(self) -> str:
        """How it compares with the simple reference on the eval split, as text; "" if that is not known."""
        with suppress(OSError, ValueError):
            if self._facts.model_run:
                record: Mapping[str, Any] = read_json(f"{self._facts.model_run}/{TRAINING_FILE}")
                return reference_words(record.get("reference"))
        return ""

    def reference(self) -> tuple[SpanSummary | None, str]:
        """Returns the distributions of its training rows and of its answers for eval rows, and what is missing."""
        rows, why = self._training_rows()
        store = SummaryStore(str(self.layout.watch), self.series)
        answers = store.read(self.number, "answers")
        if answers is None:
            answers = self._eval_answers()
            if answers is not None:
                store.write(answers)
        if answers is None:
            why = f"{why} The eval rows of version {self.number} are not here, so its answers are not compared.".strip()
        if rows is None:
            return None, why
        distributions = {**rows.distributions, **(answers.distributions if answers is not None else {})}
        return SpanSummary(0, f"the training rows of version {self.number}", "", rows.rows, distributions), why

    def _training_rows(self) -> tuple[SpanSummary | None, str]:
        """Returns the summary that the data gate made of the spans of its window."""
        source = SeriesSource.of(self.config.preprocessing_config, self._unit)
        store = SummaryStore(str(self.layout.span_statistics), source)
        spans = [
            store.read(span["number"], span["fingerprint"]) for span in self.model.lineage.get("spans") or () if span
        ]
        known = [summary for summary in spans if summary is not None]
        if not known:
            return None, f"{self.layout.span_statistics} has no summary of the training rows of version {self.number}."
        lost = len(spans) - len(known)
        why = f"{lost} of {len(spans)} training spans of version {self.number} have no summary." if lost else ""
        return merge_spans(known), why

    def _eval_answers(self) -> SpanSummary | None:
        """Returns the distributions of its answers for the rows of the eval split."""
        files = self.model.eval_files
        if not files:
            return None
        from fullpass.pipeline.registry.score_models import records_of, score

        scored = score(self.model, records_of(files), {}).models[0]
        mine = tuple(one for one in self.series.series if one.name in (SCORE, ANSWER))
        columns = tuple(c for c in self.series.columns if c.name in {one.column for one in mine})
        sketches = Sketches(SeriesSource(mine, columns, {}))
        sketches.add(answered_by(scored), len(scored.scores))
        return merge_parts(self.number, "", "answers", sketches.rows, [sketches.distributions()])


def columns_in_log(config: PipelineConfig) -> LoggedColumns:
    """Returns the columns of a model, as the log holds them, and those that only training has."""
    every, requested = raw_columns(config.preprocessing_config), request_columns(config.preprocessing_config)
    late = {name: column for name, column in every.items() if name not in requested and column.is_single}
    return LoggedColumns({n: one for n, one in requested.items() if n not in config.data.personal}, late)


def pushed_versions(file: Path, target: Path, layout: RootLayout) -> tuple[list[WatchedVersion], int]:
    """Returns the pushed versions, the oldest first, and the number of the served one.

    Raises:
        UserError: No version is served, or the YAML of the served one was not recorded.
    """
    served = served_version(target)
    if served is None:
        raise UserError(f"{target}: no model is served. Run the pipeline first: fullpass run {file}")
    found = []
    for number in served_versions(target):
        model = find_model(str(folder_of(target, number)), file)
        if model.config is not None:
            found.append(WatchedVersion(number, model, model.config, layout))
        elif number == served:
            raise UserError(
                f"{target}/{number}: the YAML that the served model was trained by was not recorded, or is not of this "
                "release, so its columns are unknown. Push a model that `fullpass run` trained."
            )
    return found, served


def sliced_columns(versions: Sequence[WatchedVersion], slices: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Returns the entries of `evaluation.slices` whose columns every version reads."""
    return [tuple(entry) for entry in slices if all({*entry} <= {*one.model.columns} for one in versions)]
