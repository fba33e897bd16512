"""Watches the served model: reads the request log, judges each version that answered, and reports what it found."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fullpass.base.errors import UserError
from fullpass.components.data_gate.config import Policy
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import AsOf, Join
from fullpass.components.ingest.joins.join_index import JoinIndex
from fullpass.components.ingest.joins.tables import Tables, of_join
from fullpass.components.ingest.readers.read_source import columns_of_file, find_inputs
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.serving_log.columns import DAY
from fullpass.components.watch.came_in import DAY_HOURS, HOUR, days_between
from fullpass.components.watch.config import LABELS, TRAINING, WATCHED_AT, ServingLogConfig
from fullpass.components.watch.findings import WatchFinding, most_serious_first
from fullpass.components.watch.judge_live import Live, LiveJudge
from fullpass.components.watch.judge_traffic import JudgedTraffic, TrafficJudge
from fullpass.components.watch.log_rows import LogReader
from fullpass.components.watch.recomputed import Recomputed, judge_recomputed
from fullpass.components.watch.skew import RowsOfTraining, judge_skew, rows_before
from fullpass.components.watch.watch_files import Watched, WatchFiles
from fullpass.components.watch.went_out import ScoringPlan, WentOut, days_of
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.registry.compared_model import ComparedModel, find_model
from fullpass.pipeline.root.layout import RootLayout, pipeline_root, served_folder
from fullpass.pipeline.running.beam_args import beam_args
from fullpass.pipeline.watching.challenger import ShadowReport, shadow_report, with_challenger
from fullpass.pipeline.watching.versions import WatchedVersion, pushed_versions, sliced_columns
from fullpass.preprocessing.columns.raw_columns import RawColumn, date_formats

_MOST_BAD = 1.0
"""Share of unusable rows of the label table: they are counted, and their requests have no label."""
_ALONE = "--direct_num_workers=1"
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class VersionReport:
    """What was found about one version.

    Attributes:
        others: Findings about skew and answers that were computed again.
        shadow: The comparison with a challenger, if there is one and rows are scored.
    """

    number: int
    served: bool
    traffic: JudgedTraffic
    live: Live
    notes: Sequence[str] = ()
    others: Sequence[WatchFinding] = ()
    shadow: ShadowReport | None = None


@dataclass(frozen=True)
class WatchReport:
    """What a watch found.

    Attributes:
        at: The time of the watch: later rows and labels do not count.
        rows: Rows of the log that were read; later: those after `at`; bad: unreadable ones, by reason.
        versions: Those that answered, the newest first.
        findings: The most serious first.
    """

    pipeline: str
    at: datetime
    rows: int
    later: int
    bad: Mapping[str, int]
    versions: Sequence[VersionReport]
    findings: Sequence[WatchFinding] = ()
    notes: Sequence[str] = field(default_factory=list)

    def is_open(self, finding: WatchFinding) -> bool:
        """Returns whether a finding is of the newest day that its check could judge, and its version still answers."""
        newest = {one.number: one.traffic.hours[-1].name[:10] for one in self.versions}
        compared = [one.traffic.days[-1].period.name for one in self.versions if one.traffic.days]
        judged = finding.judged or max(compared, default="")
        return finding.last >= judged and newest[finding.version] == max(newest.values())

    @property
    def stops(self) -> list[WatchFinding]:
        """The open findings that are a reason to intervene."""
        return self._open("stop")

    @property
    def reasons(self) -> list[WatchFinding]:
        """The open findings that are a reason to train; none while a stop is open.

        A model that is trained anew does not help against requests that are wrong.
        """
        return [] if self.stops else self._open("retrain")

    def _open(self, policy: Policy) -> list[WatchFinding]:
        return [one for one in self.findings if one.policy == policy and self.is_open(one)]


def serving_log_of(loaded: Loaded) -> ServingLogConfig:
    """Returns the section `serving_log`.

    Raises:
        UserError: There is none.
    """
    if loaded.config.serving_log is None:
        raise UserError(
            f"{loaded.file}: serving_log is missing, so there is nothing to watch. For the log of Fullpass: "
            'serving_log: {source: {format: jsonl, path: "log/*/*.jsonl"}}.'
        )
    return loaded.config.serving_log


def watch(loaded: Loaded, *, root: Path | None = None, at: datetime | None = None, challenger: str = "") -> WatchReport:
    """Reads the log up to a time, and judges it.

    Args:
        at: The time of the watch; by default now.
        challenger: A model that scores the same rows, as `find_model` takes it; "" for none.

    Raises:
        UserError: There is no log, or no model is served.
    """
    log, at = serving_log_of(loaded), at or datetime.now(UTC)
    layout = RootLayout(pipeline_root(loaded, root))
    versions, served = pushed_versions(loaded.file, served_folder(loaded), layout)
    shadow = find_model(challenger, loaded.file) if challenger else None
    place = None
    if loaded.config.beam.runner != "direct":  # workers on other machines reach the root
        place = layout.watch
        place.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place) as folder:
        return _Watch(loaded, log, versions, served, at, folder, shadow).report()


class _Watch:
    """One watch."""

    def __init__(
        self,
        loaded: Loaded,
        log: ServingLogConfig,
        versions: Sequence[WatchedVersion],
        served: int,
        at: datetime,
        folder: str,
        challenger: ComparedModel | None,
    ):
        self._challenger = challenger
        self._columns = {
            one.number: with_challenger(one.columns, challenger) if challenger else one.columns for one in versions
        }
        self._loaded, self._log, self._config = loaded, log, loaded.config.watch
        self._versions, self._served, self._at, self._folder = versions, served, at, folder
        self._notes: list[str] = []

    def report(self) -> WatchReport:
        """Returns what was found."""
        evaluation = self._loaded.config.evaluation
        names = dict.fromkeys((ALWAYS_MEASURED, *evaluation.measured, *self._config.live))
        slices = sliced_columns(self._versions, evaluation.slices)
        self._accumulator = SliceAccumulator(tuple(names), tuple(slices), None, 2 if self._challenger else 1)
        files = self._read()
        args = beam_args(self._loaded.config.beam, data_bytes=files.size)
        # This process is the only worker of a log that pays for no other.
        watched = files.watch() if _ALONE in args else files.watch_on_beam(args, self._folder)
        by_number = {one.number: one for one in self._versions}
        found = sorted({version for version, _, _ in watched.hours}, reverse=True)
        reports = [self._version(by_number[one], watched) for one in found if one in by_number]
        gone = [str(one) for one in found if one not in by_number]
        if gone:
            self._notes.append(f"Versions {', '.join(gone)} are not pushed any more: their requests are only counted.")
        findings = [f for one in reports for f in (*one.traffic.findings, *one.live.findings, *one.others)]
        count = watched.count
        return WatchReport(
            self._loaded.config.name,
            self._at,
            count.rows,
            count.later,
            {f"{reason}; first: {count.first[reason].shown}": bad for reason, bad in count.bad.items()},
            reports,
            most_serious_first(findings),
            self._notes,
        )

    def _read(self) -> WatchFiles:
        until = int(self._at.timestamp() * 1e6)
        labels = self._labels()
        reader = LogReader(
            self._log,
            self._columns,
            self._served,
            until - self._config.days * DAY_HOURS * HOUR,
            until,
            labels,
            self._config.labels.at if self._config.labels is not None else None,
        )
        sliced = {column for entry in self._accumulator.slices for column in entry}
        plans = {
            one.number: ScoringPlan(
                str(one.export),
                {name: one.model.columns[name].type for name in sorted(sliced)},
                self._config.answers.tolerance if one.is_logged and self._config.answers.policy != "ignore" else 0.0,
                str(self._challenger.export) if self._challenger else "",
            )
            for one in self._versions
        }
        series = {one.number: one.series for one in self._versions}
        return WatchFiles(self._files(), reader, series, plans, self._accumulator, self._trained())

    def _trained(self) -> RowsOfTraining | None:
        """Returns the training rows by the id of the log; None if nothing asks, or they cannot be read."""
        check, id = self._config.skew, self._config.training_id
        if check.policy == "ignore" or id is None:
            return None
        index = self._training_index({self._log.id: id}, None)
        return None if index is None else RowsOfTraining(index, self._date_formats, check.tolerance, check.entity)

    @property
    def _date_formats(self) -> Mapping[str, str]:
        formats = date_formats(self._loaded.config.preprocessing_config)
        return {name: of[0] for name, of in formats.items()}

    def _training_index(self, on: dict[str, str], as_of: AsOf | None) -> JoinIndex | None:
        """Returns the rows of the training data, as a table that rows of the log are joined with."""
        data = self._loaded.config.data
        with _noted(self._notes), of_join(TRAINING):
            join = Join(source=data.source, on=on, as_of=as_of, duplicates="last")
            files = find_window(data, self._loaded.resolve).files
            present = {*(columns_of_file(files[0], data.source) or ())}
            named = {n: c for version in self._versions for n, c in version.columns.columns.items() if n in present}
            columns = [RawColumn(**{**vars(column), "name": f"{TRAINING}.{name}"}) for name, column in named.items()]
            return build_index(TRAINING, join, Tables(files), columns, _MOST_BAD, self._folder)
        return None

    def _rows_before(self) -> Callable[[str], Any]:
        """Returns column -> the function that finds it in the row before of an entity, if `skew.entity` names one."""
        check = self._config.skew
        index = None
        if check.entity is not None and check.at is not None:
            as_of = AsOf(left=WATCHED_AT, right=check.at, available_after="1s")
            index = self._training_index({check.entity: check.entity}, as_of)
        return lambda column: index and rows_before(index, column, self._date_formats)

    def _files(self) -> list[SourceFile]:
        """Returns the files of the log; those in the folder of a day that is not watched are left out."""
        first = (self._at - timedelta(days=self._config.days)).strftime(DAY)
        last = self._at.strftime(DAY)

        def is_watched(file: SourceFile) -> bool:
            day = Path(file.path).parent.name
            return not _DATED.fullmatch(day) or first <= day <= last

        return [file for file in find_inputs(self._log.source, self._loaded.resolve) if is_watched(file)]

    def _labels(self) -> JoinIndex | None:
        table = self._config.labels
        if table is None:
            return None
        join = table.join(self._log.id)
        with _noted(self._notes), of_join(LABELS):
            files = tuple(find_inputs(table.source, self._loaded.resolve))
            present = {*(columns_of_file(files[0], table.source) or ())}
            late = {name: one for of in self._columns.values() for name, one in of.late.items()}
            columns = [column for name, column in late.items() if name in present]
            columns += [RawColumn(table.at, "string")] if table.at is not None else []
            named = [RawColumn(**{**vars(column), "name": f"{LABELS}.{column.name}"}) for column in columns]
            return build_index(LABELS, join, Tables(files), named, _MOST_BAD, self._folder)
        return None

    def _version(self, version: WatchedVersion, watched: Watched) -> VersionReport:
        reference, missing = version.reference()
        now = int(self._at.timestamp()) // 3600
        judge = TrafficJudge(version.number, self._config, version.series.series, reference, watched.hours, now)
        answered = Counter[int]()
        for (of, hour, _), count in watched.hours.items():
            if of == version.number:
                answered[hour // DAY_HOURS] += count.rows
        traffic = judge.judge()
        again = dict(days_of(watched.out.again, version.number))
        notes = tuple(filter(None, (missing, version.reference_words, self._again_words(version, again))))
        others = judge_recomputed(again, version.number, self._config.answers)
        if watched.skew:
            others += judge_skew(watched.skew, version.number, self._config.skew, self._rows_before())
        stops = [one for one in (*traffic.findings, *others) if one.policy == "stop"]
        live = LiveJudge(
            version.number,
            self._config,
            watched.out,
            self._accumulator,
            version.at_eval,
            answered,
            now // DAY_HOURS,
            {day for one in stops for day in days_between(*one.days)},
        )
        return VersionReport(
            version.number,
            version.number == self._served,
            traffic,
            live.judge(),
            notes,
            others,
            self._shadow(version, watched.out),
        )

    def _shadow(self, version: WatchedVersion, out: WentOut) -> ShadowReport | None:
        sums = [of for _, of in days_of(out.shadow, version.number)]
        if not sums or self._challenger is None:
            return None
        states = [state for _, state in days_of(out.labelled, version.number)]
        labelled = measured_of(self._accumulator, self._accumulator.merge(states))[0] if states else None
        has_classes = version.config.label.task in ("binary", "multiclass")
        return shadow_report(
            self._challenger.name, np.sum(sums, axis=0), labelled, self._config, has_classes=has_classes
        )

    def _again_words(self, version: WatchedVersion, again: Mapping[int, Recomputed]) -> str:
        if not version.is_logged:
            return "Its answers are not computed again: the log has no columns with data of persons, which it reads."
        differing, rows = (sum(getattr(one, name) for one in again.values()) for name in ("differing", "rows"))
        beyond = f"by over {self._config.answers.tolerance:g}"
        return f"{differing:,} of {rows:,} answers that were computed again differ {beyond}." if rows else ""


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Adds the error of a block to the notes: labels that are not there yet end no watch."""
    try:
        yield
    except UserError as error:
        notes.append(
            str(error).replace("data.joins.labels", "watch.labels").replace("data.joins.training", "watch.skew")
        )
