"""What the measured placements cost, what follows for all of the data, and a comparison from end to end."""

import json
from dataclasses import replace

import pytest

from fullpass.pipeline.diagnose.placement_advice import Measurements, compare, report_json, table
from fullpass.trainer.diagnosis.placements import PlacementCost

TRANSFORM = PlacementCost(
    compute_at="transform",
    written_bytes=4_000_000,
    start_seconds=2.0,
    seconds_per_row=1e-3,
    read_bytes=3_200_000,
    streamed=1000.0,
    kept="memory",
    later=4000.0,
    memory_bytes=800_000,
    step_ms=10.0,
    row_ms=1.0,
    batch_ms=5.0,
)
INPUT = replace(TRANSFORM, compute_at="input", written_bytes=0, start_seconds=0.0, seconds_per_row=0.0, streamed=500.0)
MODEL = replace(INPUT, compute_at="model", streamed=800.0, later=2000.0, step_ms=100.0)


def measured(*costs: PlacementCost, **others) -> Measurements:
    given = {"rows": 1000, "gpu": False, "epochs": 3} | others
    return Measurements(train_rows=800, total=10_000, batch_size=100, analysis_seconds=7.0, costs=costs, **given)


def test_a_run_is_writing_a_first_epoch_from_files_and_the_others_from_memory():
    found = compare(measured(TRANSFORM, INPUT))
    # 8,000 rows in training, of which each takes 0.1 ms of step.
    assert found.run_seconds["transform"] == pytest.approx(2 + 10 + 8000 * (0.0011 + 2 * 0.00035))
    assert found.run_seconds["input"] == pytest.approx(8000 * (0.0021 + 2 * 0.00035))
    assert found.recommended == "input"
    assert "Advice: `input: {compute_at: input}`. The rows are kept in memory" in found.advice
    assert "transform: 1.18 times as long, and 4.00 MB more on disk" in found.advice


def test_rows_that_are_not_kept_are_read_and_computed_in_every_epoch():
    costs = [replace(cost, kept="files", later=cost.streamed) for cost in (TRANSFORM, INPUT)]
    found = compare(measured(*costs, epochs=30))
    assert found.run_seconds["input"] == pytest.approx(8000 * 30 * 0.0021)
    assert found.run_seconds["transform"] == pytest.approx(12 + 8000 * 30 * 0.0011)
    assert found.recommended == "transform"
    assert found.advice.startswith("Advice: `input: {compute_at: transform}`. Computing the features once")


def test_a_gpu_trains_while_the_cpu_reads():
    found = compare(measured(MODEL, gpu=True, epochs=2))
    assert found.run_seconds["model"] == pytest.approx(8000 * (0.00125 + 0.001))


def test_of_runs_about_as_short_the_one_that_writes_least_is_advised():
    close = replace(TRANSFORM, start_seconds=0.0, seconds_per_row=0.0, streamed=510.0, later=4000.0)
    assert (
        compare(measured(close, INPUT)).run_seconds["transform"] < compare(measured(close, INPUT)).run_seconds["input"]
    )
    assert compare(measured(close, INPUT)).recommended == "input"


def test_the_table_has_a_column_per_choice_and_the_json_all_figures():
    found = compare(measured(TRANSFORM, INPUT, MODEL))
    lines = table(found).splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == ["transform", "input", "model"])
    assert lines[head + 1].split()[-3:] == ["4.00", "0.00", "0.00"]
    assert any(line.split()[-3:] == ["memory", "memory", "memory"] for line in lines)
    said = json.loads(report_json(found))
    assert said["recommended"] == "input" and said["measured"]["costs"][2]["compute_at"] == "model"


@pytest.mark.integration
@pytest.mark.long
def test_a_pipeline_file_is_compared_by_compute_at(edited, folder, monkeypatch):
    from fullpass.pipeline.authoring.loading.load import load
    from fullpass.pipeline.diagnose.compare_placements import compare_placements
    from fullpass.trainer.diagnosis import placements

    rows = [
        f"{fare / 7:.2f},{fare % 3},{'ABC'[fare % 3]},2024-02-{fare % 28 + 1:02d},{fare % 24},1" for fare in range(400)
    ]
    (folder / "trips.csv").write_text("fare,tips,company,started,hour,zone\n" + "\n".join(rows) + "\n")
    # How steady the figures are is nothing that this looks at.
    monkeypatch.setattr(placements, "_ROUNDS", 2)
    monkeypatch.setattr(placements, "_SECONDS", 0.05)
    told: list[str] = []
    found = compare_placements(
        load(edited({16: "  company: {type: category, compute_at: model}"})), rows=200, say=told.append
    )
    costs = {cost.compute_at: cost for cost in found.measured.costs}
    assert list(costs) == ["transform", "input", "model", "as written"]
    assert (found.measured.rows, found.measured.train_rows, found.measured.total) == (200, 160, 400)
    assert [cost.written_bytes > 0 for cost in costs.values()] == [True, False, False, True]
    assert costs["input"].read_bytes == costs["model"].read_bytes
    assert min(min(c.streamed, c.later, c.step_ms, c.row_ms, c.batch_ms, c.memory_bytes) for c in costs.values()) > 0
    assert len(told) == 6 and found.recommended in costs
