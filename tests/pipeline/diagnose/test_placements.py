"""The cost of each placement, the run that follows for all data, and a comparison from end to end."""

import json
from dataclasses import replace

import pytest

from fullpass.pipeline.diagnose import placements
from fullpass.pipeline.diagnose.placements import Comparison, PlacementCost, report_json, table

pytestmark = pytest.mark.integration

TRANSFORM = PlacementCost(
    compute_at="transform",
    written_bytes=4_000_000,
    start_seconds=2.0,
    seconds_per_row=1e-3,
    read_bytes=3_200_000,
    kept="memory",
    first=1000.0,
    epochs=4000.0,
    train_seconds=0.0018,
    row_ms=1.0,
    batch_ms=5.0,
)
INPUT = replace(
    TRANSFORM, compute_at="input", written_bytes=0, start_seconds=0.0, seconds_per_row=0.0, train_seconds=0.0028
)
MODEL = replace(INPUT, compute_at="model", train_seconds=0.01)


def compared(*costs: PlacementCost) -> Comparison:
    return Comparison(
        rows=1000, train_rows=800, total=10_000, batch_size=100, epochs=3, analysis_seconds=7.0, costs=costs
    )


def test_a_run_is_writing_all_rows_and_training_on_those_of_train():
    found = compared(TRANSFORM, INPUT)
    assert found.run_seconds == {"transform": pytest.approx(2 + 10 + 8000 * 0.0018), "input": pytest.approx(22.4)}
    assert found.recommended is INPUT
    advice = table(found)
    assert "Advice: `input: {compute_at: input}`, 22 s for 3 epochs, writing included: the features are" in advice
    assert "transform: 1.18 times as long, and 4.00 MB more on disk" in advice


def test_features_that_cost_more_in_every_epoch_are_written():
    found = compared(TRANSFORM, replace(INPUT, train_seconds=0.01))
    assert found.recommended is TRANSFORM
    assert "Advice: `input: {compute_at: transform}`, 26 s for 3 epochs" in table(found)


def test_of_runs_about_as_short_the_one_that_writes_least_is_advised():
    close = replace(TRANSFORM, start_seconds=0.0, seconds_per_row=0.0, train_seconds=0.0027)
    found = compared(close, INPUT)
    assert found.run_seconds["transform"] < found.run_seconds["input"]
    assert found.recommended is INPUT


def test_the_table_has_a_column_per_choice_and_the_json_all_figures():
    found = compared(TRANSFORM, INPUT, MODEL)
    lines = table(found).splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == ["transform", "input", "model"])
    assert lines[head + 1].split()[-3:] == ["4.00", "0.00", "0.00"]
    assert any(line.split()[-3:] == ["memory", "memory", "memory"] for line in lines)
    said = json.loads(report_json(found))
    assert said["recommended"] == "input" and said["costs"][2]["compute_at"] == "model"
    assert said["run_seconds"]["model"] == pytest.approx(80.0)


@pytest.mark.long
def test_a_pipeline_file_is_compared_by_compute_at(edited, folder, monkeypatch):
    from fullpass.pipeline.authoring.loading.load import load

    rows = [
        f"{fare / 7:.2f},{fare % 3},{'ABC'[fare % 3]},2024-02-{fare % 28 + 1:02d},{fare % 24},1" for fare in range(400)
    ]
    (folder / "trips.csv").write_text("fare,tips,company,started,hour,zone\n" + "\n".join(rows) + "\n")
    # How steady the figures are is nothing that this looks at.
    monkeypatch.setattr(placements, "_ROUNDS", 2)
    monkeypatch.setattr(placements, "_SECONDS", 0.05)
    told: list[str] = []
    found = placements.compare_placements(
        load(edited({16: "  company: {type: category, compute_at: model}"})), rows=200, say=told.append
    )
    costs = {cost.compute_at: cost for cost in found.costs}
    assert list(costs) == ["transform", "input", "model", "as written"]
    assert (found.rows, found.train_rows, found.total) == (200, 160, 400)
    assert [cost.written_bytes > 0 for cost in costs.values()] == [True, False, False, True]
    assert costs["input"].read_bytes == costs["model"].read_bytes
    assert min(min(c.first, c.epochs, c.train_seconds, c.row_ms, c.batch_ms) for c in costs.values()) > 0
    assert len(told) == 6 and found.recommended.compute_at in costs
