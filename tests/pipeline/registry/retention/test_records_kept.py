"""What is needed, of histories of any shape: runs, models blessed or not, pushed or not, windows of any size."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.pipeline.registry.retention.records import (
    COMPLETE,
    DELETED,
    LIVE,
    Artifact,
    Execution,
    MetadataRecords,
    RecordedRun,
    find_kept,
    removal_of,
)

CACHED = 5


@dataclass
class History:
    """Builds records run by run, as a pipeline leaves them: run n trains on span n and those before it."""

    window: int
    artifacts: dict[int, Artifact] = field(default_factory=dict)
    executions: dict[int, Execution] = field(default_factory=dict)
    runs: list[RecordedRun] = field(default_factory=list)
    spans: dict[int, int] = field(default_factory=dict)
    blessed: list[int] = field(default_factory=list)
    models: list[int] = field(default_factory=list)
    graphs: dict[int, int] = field(default_factory=dict)

    def make(self, kind: str, **properties) -> int:
        identity = len(self.artifacts) + 1
        self.artifacts[identity] = Artifact(identity, kind, f"/root/{identity}", LIVE, properties)
        return identity

    def execute(self, node: str, inputs: dict[str, list[int]], outputs: dict[str, list[int]], state=COMPLETE) -> int:
        identity = len(self.executions) + 1
        read, made = (frozenset(one for ids in side.values() for one in ids) for side in (inputs, outputs))
        looked_up = node in ("Window", "LastBlessedModel")
        self.executions[identity] = Execution(identity, state, read | made, frozenset() if looked_up else made)
        return identity

    def run(self, *, blessed: bool) -> None:
        number = len(self.runs) + 1
        self.spans[number] = self.make("Examples", fingerprint=f"f{number}", span=number)
        window = [self.spans[n] for n in range(max(1, number - self.window + 1), number + 1)]
        before = self.blessed[-1:]
        graph, ready = self.make("TransformGraph"), self.make("Examples")
        model, evaluation = self.make("Model"), self.make("ModelEvaluation")
        blessing = self.make("ModelBlessing", blessed=int(blessed), current_model_id=model)
        report = self.make("fullpass.components.artifacts.Report")
        followed = {"followed": [self.graphs[before[0]]]} if before else {}
        executions = [
            self.execute("Ingest", {}, {"examples": [self.spans[number]]}),
            self.execute("Window", {}, {"examples": window}),
            self.execute(
                "Transform",
                {"examples": window, **followed},
                {"transform_graph": [graph], "transformed_examples": [ready]},
            ),
            self.execute("LastBlessedModel", {}, {"model": before}),
            self.execute(
                "Trainer",
                {"examples": [ready], "transform_graph": [graph], "base_model": before},
                {"model": [model]},
            ),
            self.execute(
                "Evaluator",
                {"examples": window, "model": [model], "baseline_model": before},
                {"evaluation": [evaluation], "blessing": [blessing]},
            ),
            self.execute("Report", {"blessing": [blessing]}, {"report": [report]}),
        ]
        self.runs.append(RecordedRun(number, f"run-{number}", float(number), frozenset(executions)))
        self.models.append(model)
        self.graphs[model] = graph
        self.blessed += [model] if blessed else []

    def records(self) -> MetadataRecords:
        return MetadataRecords(dict(self.artifacts), dict(self.executions), tuple(self.runs))


@st.composite
def histories(draw):
    history = History(draw(st.integers(1, 4)))
    for blessed in draw(st.lists(st.booleans(), min_size=1, max_size=8)):
        history.run(blessed=blessed)
    return history


def keep(history: History, records: MetadataRecords, runs: int, pushed: set[str]):
    last = len(history.runs)
    spans = range(last - history.window + 2, last + 1)
    return find_kept(records, runs, pushed, spans)


def after(records: MetadataRecords, removal) -> MetadataRecords:
    """What is recorded once a removal is done, worked out without the code that does it."""
    artifacts = {
        identity: replace(artifact, state=DELETED) if identity in removal.gone else artifact
        for identity, artifact in records.artifacts.items()
        if identity not in removal.artifacts
    }
    executions = {i: e for i, e in records.executions.items() if i not in removal.executions}
    runs = [replace(r, executions=r.executions & executions.keys()) for r in records.runs if r.id not in removal.runs]
    return MetadataRecords(artifacts, executions, tuple(runs))


def used_by(records: MetadataRecords, run: RecordedRun) -> set[int]:
    """All artifacts that a run took or made."""
    executions = [records.executions[identity] for identity in run.executions]
    return {artifact for one in executions for artifact in one.artifacts}


@pytest.mark.integration
@given(history=histories(), runs=st.integers(1, 9), data=st.data())
def test_kept_runs_models_and_the_window_lose_nothing(history: History, runs: int, data):
    records = history.records()
    chosen = data.draw(st.sets(st.sampled_from(history.models)))
    kept = keep(history, records, runs, {records.artifacts[m].uri for m in chosen})
    removal = removal_of(records, kept)
    gone = removal.artifacts | removal.gone
    for run in records.runs[-runs:]:
        assert not gone & used_by(records, run)
    for model in chosen | set(history.blessed[-2:]):
        said = {a.id for a in records.artifacts.values() if a.properties.get("current_model_id") == model}
        assert not gone & {model, history.graphs[model], *said}
    last = len(history.runs)
    assert not gone & {history.spans[n] for n in range(max(1, last - history.window + 2), last + 1)}


@pytest.mark.integration
@given(history=histories(), runs=st.integers(1, 9), data=st.data())
def test_nothing_else_is_kept_and_a_second_removal_is_empty(history: History, runs: int, data):
    records = history.records()
    chosen = data.draw(st.sets(st.sampled_from(history.models)))
    pushed = {records.artifacts[m].uri for m in chosen}
    removal = removal_of(records, keep(history, records, runs, pushed))
    left = after(records, removal)
    assert not any(vars(removal_of(left, keep(history, left, runs, pushed))).values())
    newest = {artifact for run in records.runs[-runs:] for artifact in used_by(records, run)}
    live = {artifact.id for artifact in left.artifacts.values() if artifact.state == LIVE}
    models = {m for m in history.models if m in live}
    assert models <= newest | chosen | set(history.blessed[-2:])
    last = len(history.runs)
    window = {history.spans[n] for n in range(max(1, last - history.window + 2), last + 1)}
    assert {a for a in live if records.artifacts[a].type == "Examples"} <= newest | window


@pytest.mark.integration
@given(history=histories(), runs=st.integers(1, 9))
def test_the_lineage_of_a_kept_model_reaches_its_spans(history: History, runs: int):
    records = history.records()
    left = after(records, removal_of(records, keep(history, records, runs, set())))
    makers = {made: e for e in left.executions.values() if e.state == COMPLETE for made in e.made}
    for model in (a.id for a in left.artifacts.values() if a.type == "Model" and a.state == LIVE):
        trainer = makers[model]
        (ready,) = (a for a in trainer.artifacts if left.artifacts[a].type == "Examples")
        spans = [a for a in makers[ready].artifacts - {ready} if left.artifacts[a].type == "Examples"]
        assert spans and all("fingerprint" in left.artifacts[span].properties for span in spans)
        assert any(trainer.id in run.executions for run in left.runs)


@given(history=histories(), runs=st.integers(1, 8))
def test_keeping_more_runs_removes_no_more(history: History, runs: int):
    records = history.records()
    few, more = (removal_of(records, keep(history, records, n, set())) for n in (runs, runs + 1))
    assert more.artifacts <= few.artifacts and more.executions <= few.executions
    assert more.artifacts | more.gone <= few.artifacts | few.gone
