"""Days of one number for the tests of the data gate, each drawn anew, and a judge of their windows."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from fullpass.base.json_text import parse_json
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import GateVerdict, SpanRelease
from fullpass.components.data_gate.judge_window import WindowJudge
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore, merge_parts
from fullpass.components.data_gate.span_verdicts import KnownVerdicts, VerdictStore, with_known_verdicts
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.ingest.spans.spans import Window, select_window
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.config import PreprocessingConfig

_CONFIG = {"features": {"x": "number"}, "label": {"name": "y", "task": "binary"}}
SOURCE = SeriesSource.of(PreprocessingConfig.model_validate(_CONFIG), "day")
ROWS = 1500


def summary(number: int, shift: float, version: str, unit: str | None) -> SpanSummary:
    """The summary of a day of normal numbers around `shift`; label and rows never change."""
    random = np.random.default_rng([number, len(version)])
    sketches = Sketches(SOURCE)
    x = pa.array((random.normal(size=ROWS) + shift).astype(np.float32))
    y = pa.array(np.resize([0.0, 1.0], ROWS).astype(np.float32))
    sketches.add({"x": x, "y": y}, ROWS)
    label = label_of("day", number) if unit else ""
    return merge_parts(number, label, f"f{number}{version}", ROWS, [sketches.distributions()])


@dataclass
class Days:
    """The days of a source, and the folders that outlive its runs.

    Attributes:
        shift: Number of a day -> mean of its numbers; a day without an entry is absent.
        versions: Number of a day -> text that changes with its file.
    """

    folder: Path
    gates: dict[str, object] = field(default_factory=lambda: {"drift": "stop"})
    shift: dict[int, float] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    size: int = 7
    unit: str | None = "day"
    runs: int = 0

    @property
    def store(self) -> VerdictStore:
        return VerdictStore(str(self.folder / "span_verdicts"))

    def file(self, number: int) -> SourceFile:
        return SourceFile(f"{number}.csv", None, 1, self.versions.get(number, ""))

    def window(self, last: int | None = None, release: SpanRelease | None = None) -> Window:
        """The window of a run for the span `last`, as a run and a look-up on Kubeflow make it."""
        if self.unit is None:
            found = Window(None, (Span(0, (self.file(0),)),))
        else:
            spans = {number: Span(number, (self.file(number),)) for number in self.shift}
            found = select_window("day", spans, self.size, None if last is None else str(label_of("day", last)))
        config = PipelineConfig.model_validate(
            {"name": "days", "data": {"source": {"format": "csv", "path": "{YYYY}-{MM}-{DD}.csv"}}, **_CONFIG}
        ).ingest_config
        return with_known_verdicts(found, self.store, config, GatesConfig.model_validate(self.gates), release)

    def run(self, last: int | None = None, release: SpanRelease | None = None) -> GateVerdict:
        """Judges the window of a run as the node SpanComparison does, and keeps the decisions."""
        self.runs += 1
        window, summaries = self.window(last, release), SummaryStore(str(self.folder / "span_statistics"), SOURCE)
        found = []
        for span in window.spans:
            made = summary(span.number, self.shift[span.number], self.versions.get(span.number, ""), self.unit)
            if summaries.read(made.number, made.fingerprint) is None:
                summaries.write(made)
            found.append(made)
        contents = {span.number: window.content(span) for span in window.spans}
        gates = GatesConfig.model_validate(self.gates)
        known = parse_json(KnownVerdicts, window.gate)
        judge = WindowJudge.of(summaries, self.store, SOURCE, gates, self.unit, known, contents)
        judged = judge.verdict(found)
        for decision in judged.decisions:
            self.store.write(decision)
        return judged.verdict
