"""A forecast is proposed for series alone, as a comment that a run accepts once it is used."""

import numpy as np
import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load
from tests.pipeline.authoring.tables import write_csv


def series(shops=4, days=200, step="D", seed=3):
    random = np.random.default_rng(seed)
    shop, day = np.divmod(np.arange(shops * days), days)
    sales = 50 + 10 * shop + 8 * (day % 7 == 5) + random.normal(0, 3, len(day))
    times = np.datetime64("2024-01-01T00:00:00") + day.astype(f"timedelta64[{step}]")
    columns = {"shop": [f"shop {one}" for one in shop], "at": times, "open": random.integers(0, 2, len(day))}
    order = random.permutation(len(day))
    return {name: np.array(values)[order] for name, values in {**columns, "sales": sales.round(2)}.items()}


def drafted(folder, columns, label="sales"):
    write_csv(folder / "data.csv", columns)
    (folder / "p.yaml").unlink(missing_ok=True)
    return init(str(folder / "data.csv"), output=str(folder / "p.yaml"), label=label, search_seconds=0)


@pytest.mark.parametrize(("step", "says"), [("D", '"1d", season: "7d"'), ("h", '"1h", season: "24h"')])
def test_a_series_is_proposed_and_runs_as_a_forecast_once_its_lines_are_used(tmp_path, step, says):
    written = drafted(tmp_path, series(step=step, days=1200 if step == "h" else 200))
    [line] = [one for one in written.text.splitlines() if one.startswith("# label:")]
    assert f"forecast: {{ahead: {says}, entity: shop, at: at}}" in line
    assert any(one.startswith("series: to forecast sales 1") for one in written.summary)
    used = []
    for one in written.text.splitlines():
        is_other = one.startswith("label:") or one.lstrip().startswith("split:")
        is_meant = one.startswith("# label:") or "# split: {method: time" in one
        used += [] if is_other else [one.replace("# ", "", 1) if is_meant else one]
    (tmp_path / "q.yaml").write_text("\n".join(used))
    assert not [problem for problem in check(load(tmp_path / "q.yaml")) if problem.severity == "error"]


def test_two_columns_may_tell_the_entities_apart(tmp_path):
    columns = series(shops=6)
    number = np.array([int(one[-1]) for one in columns["shop"]])
    columns = {
        "town": np.array(["Oslo", "Rome"])[number % 2],
        "kind": np.array(["a", "b", "c"])[number // 2],
        **columns,
    }
    del columns["shop"]
    assert "entity: [town, kind], at: at}" in drafted(tmp_path, columns).text


def irregular():
    columns = series()
    columns["at"] = columns["at"] + np.random.default_rng(1).integers(0, 80_000, 800).astype("timedelta64[s]")
    return columns


def repeated():
    columns = series()
    columns["at"] = np.datetime64("2024-01-01") + np.random.default_rng(1).integers(0, 300, 800)
    return columns


@pytest.mark.parametrize("columns", [irregular(), repeated(), series(shops=200, days=4)])
def test_events_repeated_times_and_short_series_are_none(tmp_path, columns):
    assert "forecast:" not in drafted(tmp_path, columns).text
