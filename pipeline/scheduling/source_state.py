"""Reads the current spans of the source and the newest span that was trained on, the input of `due`."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.processes import in_thread
from fullpass.components.ingest.sources.files import fingerprint
from fullpass.components.ingest.sources.storage import matches
from fullpass.components.ingest.spans.span_files import Span, path_pattern
from fullpass.components.ingest.spans.span_pattern import FORMS, SpanPattern, Unit, label_of, parse_span
from fullpass.components.ingest.spans.spans import Window, find_window, span_unit
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.provenance import data_digest
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.scheduling.drift import drift_in_a_process
from fullpass.pipeline.scheduling.due import SourceState, SpanDrift

LOOK_SECONDS = 60.0
"""Seconds that the scheduler waits for the state of a source."""


class WatchedSource:
    """The source of a pipeline. It remembers the last look, to detect which spans are still changing."""

    def __init__(self, loaded: Loaded, root: Path) -> None:
        self._loaded = loaded
        self._history = RunHistory(root)
        self._index = RootLayout(root).span_index
        self._known: dict[int, str] = {}
        schedule = loaded.config.schedule
        self._drift = (
            BackgroundMeasurement(lambda number: _moved(loaded, root, number))
            if schedule is not None and schedule.drift and not schedule.new_span
            else None
        )

    def look(self) -> SourceState:
        """Returns the current state of the source."""
        loaded = self._loaded
        unit, run = self._trained()
        trained, run_id = (run.last, run.run_id) if run else (None, "")
        try:
            window = find_window(loaded.config.data, loaded.resolve, index=self._index)
            marked = _marked(loaded, unit, window)
        except (UserError, OSError) as error:
            # Nothing or only a part has arrived, or a remote source is unreachable for a while.
            return self.unseen(str(error))
        if unit is None:
            fresh = run is None or data_digest(loaded.config, window) != run.data_digest
            available = frozenset() if marked is None else marked
            ready = marked is None or _marker(loaded) is not None or bool(marked)
            return SourceState(_marker_unit(loaded), available, spans=False, ready=ready, fresh=fresh, run=run_id)
        available = frozenset(window.all_spans) if marked is None else marked & frozenset(window.all_spans)
        steady = self._steady(window, available)
        newest = max(steady, default=None)
        drift_by_span: Mapping[int, SpanDrift] = {}
        if self._drift is not None and newest is not None and (trained is None or newest > trained):
            drift_by_span = self._drift.look(newest)
        return SourceState(unit, available, steady, trained=trained, run=run_id, drift_by_span=drift_by_span)

    def unseen(self, problem: str) -> SourceState:
        """Returns the state of a source that cannot be read: only the facts known without it."""
        unit, run = self._trained()
        shown = unit or _marker_unit(self._loaded)
        known = SourceState(unit=shown, spans=unit is not None, problem=problem)
        return replace(known, trained=run.last, run=run.run_id) if run else known

    def _trained(self) -> tuple[Unit | None, RunFacts | None]:
        """Returns the unit of the spans, and the run that trained on the newest span."""
        unit = span_unit(self._loaded.config.data)
        return unit, self._history.newest_trained(unit)

    def _steady(self, window: Window, available: frozenset[int]) -> frozenset[int]:
        """Returns the complete spans: those that are marked, or unchanged since the last look."""
        if self._loaded.config.schedule is not None and self._loaded.config.schedule.wait_for is not None:
            return available
        before, self._known = self._known, {span.number: _files_of(window, span) for span in window.spans}
        return frozenset(n for n in available if n not in self._known or before.get(n) == self._known[n])


class SourceReaderWithTimeout:
    """Reads the state of a source in a thread with a time limit, because a store may answer slowly or never.

    The next call returns a result that arrives after the limit. No second read starts while one is running.
    """

    def __init__(self, source: WatchedSource, seconds: float = LOOK_SECONDS) -> None:
        self._source = source
        self._seconds = seconds
        self._found: Future[SourceState] | None = None

    def __call__(self) -> SourceState:
        """Returns the state of the source, or only the facts known without it."""
        found = self._found = self._found or in_thread(self._source.look)
        if not wait([found], self._seconds).done:
            return self._source.unseen(f"reading the source takes longer than {self._seconds:g} s")
        self._found = None
        return found.result()


class BackgroundMeasurement:
    """A slow measurement of spans that runs in a thread, one span at a time."""

    def __init__(self, measure: Callable[[int], SpanDrift]) -> None:
        self._measure = measure
        self._found: dict[int, SpanDrift] = {}
        self._thread: threading.Thread | None = None

    def look(self, number: int) -> Mapping[int, SpanDrift]:
        """Returns the results so far, and starts the measurement of the span if it has none."""
        busy = self._thread is not None and self._thread.is_alive()
        if number not in self._found and not busy:
            self._thread = threading.Thread(target=self._find, args=(number,), daemon=True)
            self._thread.start()
        return dict(self._found)

    def _find(self, number: int) -> None:
        self._found[number] = self._measure(number)


def whole_span(loaded: Loaded) -> str | None:
    """Returns the newest span that is whole if the newest of the source is still arriving; None if there is none.

    That is the newest marked one (`wait_for`), and without any mark the one before the newest.
    """
    data, unit = loaded.config.data, span_unit(loaded.config.data)
    try:
        window = find_window(data.model_copy(update={"joins": {}}), loaded.resolve)
        marked = _marked(loaded, unit, window)
    except (UserError, OSError):
        return None
    newest = window.all_spans[-1:]
    whole = marked or frozenset(window.all_spans[:-1])
    if unit is None or not whole or newest == (max(whole),):
        return None
    return label_of(unit, max(whole))


def _moved(loaded: Loaded, root: Path, number: int) -> SpanDrift:
    """Returns whether the data gate would retrain on a span; true if that cannot be measured, so the run decides."""
    unit = span_unit(loaded.config.data) or "number"
    try:
        verdict = drift_in_a_process(loaded.file.absolute(), root=root, span=label_of(unit, number))
    except UserError as error:
        return SpanDrift(True, str(error))
    reasons = [finding.text for finding in verdict.findings if finding.policy == "retrain"]
    nothing = "no change exceeds a limit of the checks with the policy retrain"
    return SpanDrift(verdict.retrain, "; ".join(reasons) or nothing)


def _files_of(window: Window, span: Span) -> str:
    """Returns a digest of the files of a span and of the joined tables that its rows see."""
    tables = [table.seen_by({span.number}).files for table in window.tables.values()]
    return fingerprint([*span.files, *(file for files in tables for file in files)])


def coarser(unit: Unit, number: int, into: Unit) -> int:
    """Returns the span of a coarser unit that contains a span, such as the day of an hour."""
    return number if unit == into else parse_span(into, label_of(unit, number)[: len(FORMS[into])])


def _marker(loaded: Loaded) -> SpanPattern | None:
    schedule = loaded.config.schedule
    return path_pattern(schedule.wait_for, loaded.resolve) if schedule and schedule.wait_for else None


def _marker_unit(loaded: Loaded) -> Unit | None:
    pattern = _marker(loaded)
    return pattern.unit if pattern else None


def _marked(loaded: Loaded, unit: Unit | None, window: Window) -> frozenset[int] | None:
    """Returns the spans that are marked as complete; None if `wait_for` is not set.

    A plain path that exists marks every span, and 0 for a source without spans.
    """
    schedule = loaded.config.schedule
    if schedule is None or schedule.wait_for is None:
        return None
    pattern = path_pattern(schedule.wait_for, loaded.resolve)
    if pattern is None:
        return frozenset(window.all_spans or (0,)) if matches(loaded.resolve(schedule.wait_for)) else frozenset()
    places = (pattern.span_and_version(path) for path in matches(pattern.glob))
    marked = {place[0] for place in places if place is not None}
    if unit is None:
        return frozenset(marked)
    return frozenset(n for n in window.all_spans if coarser(unit, n, pattern.unit) in marked)
