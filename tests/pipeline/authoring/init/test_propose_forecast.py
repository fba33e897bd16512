"""A forecast is proposed for series alone, as a comment that a run accepts once it is used."""

import re

import numpy as np
import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.init.search.past import gain_of_past
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


def drafted(folder, columns, label="sales", seconds=0.0):
    write_csv(folder / "data.csv", columns)
    (folder / "p.yaml").unlink(missing_ok=True)
    return init(str(folder / "data.csv"), output=str(folder / "p.yaml"), label=label, search_seconds=seconds)


@pytest.mark.parametrize(("step", "says"), [("D", '"1d", season: "7d"'), ("h", '"1h", season: "24h"')])
def test_a_series_is_proposed_and_runs_as_a_forecast_once_its_lines_are_used(tmp_path, step, says):
    written = drafted(tmp_path, series(step=step, days=1200 if step == "h" else 200))
    [line] = [one for one in written.text.splitlines() if one.startswith("# label:")]
    assert f"forecast: {{ahead: {says}, entity: shop, at: at}}" in line
    assert any(one.startswith("series: to forecast sales 1") for one in written.summary)
    (tmp_path / "q.yaml").write_text(used_as_forecast(written.text))
    assert not [problem for problem in check(load(tmp_path / "q.yaml")) if problem.severity == "error"]


def used_as_forecast(text):
    """Returns the text with the lines of the forecast used, and those that they replace left out."""
    lines = []
    for one in text.splitlines():
        is_other = one.startswith("label:") or one.lstrip().startswith("split:")
        meant = ("# label:", "# split: {method: time", "# history:", "# derive:", "# sales")
        is_meant = one.lstrip().startswith(meant)
        lines += [] if is_other else [one.replace("# ", "", 1) if is_meant else one]
    return "\n".join(lines)


def test_means_of_the_past_are_proposed_where_they_tell_more_than_the_present_value(tmp_path):
    """The sales of an hour are a level that wanders slowly, plus noise: means of hours tell the level, one does not."""
    random = np.random.default_rng(8)
    columns = series(step="h", days=1200)
    order = np.lexsort((columns["at"], columns["shop"]))
    level = np.cumsum(random.normal(0, 1, (4, 1200)), axis=1).ravel()
    columns["sales"] = columns["sales"].astype(float)
    columns["sales"][order] = (100 + level + random.normal(0, 6, 4800)).round(2)
    written = drafted(tmp_path, columns, seconds=5.0)
    assert """# sales_3h: 'past_mean(past.sales, "3h")'""" in written.text
    assert re.search(r"one of 3 means of the past: \+0\.\d+ ± 0\.\d+ explained variance in five folds", written.text)
    (tmp_path / "q.yaml").write_text(used_as_forecast(written.text))
    loaded = load(tmp_path / "q.yaml")
    assert {"sales", "sales_3h", "sales_24h", "sales_7d"} <= set(loaded.config.features)
    assert loaded.config.data.history["past"].columns == ("sales",)
    assert not [problem for problem in check(loaded) if problem.severity == "error"]


@pytest.mark.parametrize(("name", "written"), [("net sales", True), ("sa`les", False)])
def test_the_past_of_a_label_that_no_expression_can_name_is_not_proposed(tmp_path, name, written):
    random = np.random.default_rng(8)
    columns = series(step="h", days=1200)
    order = np.lexsort((columns["at"], columns["shop"]))
    sales = np.empty(4800)
    sales[order] = np.cumsum(random.normal(0, 1, 4800)) + random.normal(0, 6, 4800)
    columns = {**{key: columns[key] for key in ("shop", "at")}, name: sales.round(2)}
    text = drafted(tmp_path, columns, label=name, seconds=5.0).text
    assert ("past_mean(`past.net sales`" in text) == written


def test_a_past_that_tells_nothing_is_not_proposed(tmp_path):
    text = drafted(tmp_path, series(step="h", days=1200), seconds=5.0).text
    assert "  # sales: number" in text and "past" not in text.replace("present", "")


def test_means_are_of_earlier_rows_alone():
    """Each value is the sum of the three before it: their mean tells it, a value of its own time would not be known."""
    random = np.random.default_rng(9)
    values = random.normal(size=3_000)
    for row in range(3, 3_000):
        values[row] = 0.55 * values[row - 3 : row].mean() * 3**0.5 + random.normal()
    moments = np.arange(3_000) * 3600.0
    shuffled = random.permutation(3_000)
    gain = gain_of_past(np.zeros(3_000, int), moments[shuffled], values[shuffled], 3600, ["3h"])
    assert gain is not None and 0.02 < gain.mean < 0.4
    noise = random.normal(size=3_000)
    assert gain_of_past(np.zeros(3_000, int), moments, noise, 3600, ["3h", "24h"]) is None
    assert gain_of_past(np.zeros(100, int), moments[:100], values[:100], 3600, ["3h"]) is None


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
