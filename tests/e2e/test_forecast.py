"""A forecast over days: one run, measured again on the same days, by drift, and against numpy."""

import json

import numpy as np
import pytest

from fullpass.pipeline.scheduling.drift import drift_in_a_process
from tests.e2e.conftest import Owner

pytestmark = [pytest.mark.e2e, pytest.mark.long]

YAML = """\
name: shops
data:
  source: {format: csv, path: "days/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: all}
  split: {method: time, column: day, until: {train: 2024-01-25}}
  history: {past: {entity: shop, at: day, columns: [sales], within: 9d, max_length: 8}}
  derive: {usual: past_mean(past.sales), before: "past_last(past.sales, 2)"}
features: {sales: number, usual: {type: number, missing: mean}, before: {type: number, missing: mean}}
label: {name: sales, task: regression, forecast: {ahead: 2d, season: 7d}}
evaluation: {metrics: [mse]}
model: linear
training: {epochs: 2}
gates: {drift: warn}
"""
DAYS, SHOPS = 36, 8


def write_days(folder):
    """Writes a file per day, and returns the sales: float [days, shops]."""
    draw = np.random.default_rng(0)
    sales = np.round(50 + 20 * np.sin(np.arange(DAYS)[:, None] * 2 * np.pi / 7) + draw.normal(0, 5, (DAYS, SHOPS)), 1)
    (folder / "days").mkdir()
    for day in range(DAYS):
        name = str(np.datetime64("2024-01-01") + day)
        rows = [f"s{shop},{name},{sales[day, shop]}" for shop in range(SHOPS)]
        (folder / "days" / f"{name}.csv").write_text("\n".join(["shop,day,sales", *rows]) + "\n")
    return sales


def test_a_forecast_is_trained_measured_and_watched(tmp_path):
    owner = Owner(tmp_path, "shops", YAML)
    sales = write_days(tmp_path)
    owner("run", "pipeline.yaml")
    told = owner.summary()
    # Train are the rows before 2024-01-23 (until, less the gap of 2d), eval those of 25 January to 3 February.
    assert (told["rows"]["train"], told["rows"]["eval"]) == (22 * SHOPS, 10 * SHOPS), told
    measured = json.loads(owner("evaluate", "latest", "pipeline.yaml", "--json"))
    assert (measured["rows"], measured["examples"], measured["unlabelled"]) == (288, 272, 16), measured
    # The same rows with the lists that predict makes of raw events: the model's error is that of numpy.
    (tmp_path / "rows.csv").write_text("shop,day,sales\n" + "".join(
        f"s{shop},{np.datetime64('2024-01-01') + day},{sales[day, shop]}\n"
        for day in range(DAYS) for shop in range(SHOPS)))  # fmt: skip
    assert "--history past=PATH" in owner.run("predict", "serving", "rows.csv").stderr
    lines = owner("predict", "serving", "rows.csv", "--history", "past=rows.csv").splitlines()
    predicted = np.array([json.loads(line)["prediction"] for line in lines]).reshape(DAYS, SHOPS)
    error = float(((predicted[:-2] - sales[2:]) ** 2).mean())
    assert measured["metrics"]["mse"]["value"] == pytest.approx(error, rel=1e-4)
    # The newest two days have no labels; the gate and drift judge the newest day that has some.
    verdict = drift_in_a_process(tmp_path / "pipeline.yaml")
    assert (verdict.span, verdict.rows, told["data_gate"]["span"]) == ("2024-02-03", SHOPS, "2024-02-03"), verdict
