"""The page and the tables of a watch: what moved, since when, and in red."""

import re

import pytest
from rich.console import Console

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.watching.shown import page_of, shown
from tests.components.pages.specs import specs_of, values_of
from tests.components.report.test_report import loads_nothing, read
from tests.pipeline.watching.reports import live_finding, report_of
from tests.pipeline.watching.test_record import MORE


@pytest.fixture
def config(edited):
    return load(edited({18: MORE})).config


def test_a_column_that_moved_has_a_chart_with_its_red_days_and_the_day_it_began(config):
    page = page_of(report_of(11), config)
    loads_nothing(page, read(page)[0])
    [chart, *others] = specs_of(page)
    states = [state for (state,) in values_of(chart, "state")]
    within, beyond = "within its limit", "beyond its limit"
    assert states == [within, beyond, beyond, within, within], "8 and 9 of 7 to 11"
    _, first, limit = chart["layer"]
    assert first["data"]["values"][0]["day"] == "2026-01-08" and limit["encoding"]["y"] == {"datum": 1.0}
    assert "distance_km" in chart["description"]
    assert not any("weight_kg" in one["description"] for one in others), "it did not move"


def test_findings_are_in_a_table_with_their_first_hour(config):
    page = page_of(report_of(12, live_finding("2026-01-10", "2026-01-12")), config)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL)]
    assert ["retrain", "live", "1", "2026-01-10", "2026-01-12", "auc is 0.6"] in cells
    assert any(row[:5] == ["warn", "columns", "1", "2026-01-12T13", "2026-01-12"] for row in cells)
    assert "shop north" in page and "No change is beyond its limit." not in page


def test_a_quiet_watch_says_so(config):
    quiet = report_of(7)
    assert "No change is beyond its limit." in page_of(quiet, config)
    console = Console(width=200)
    with console.capture() as printed:
        console.print(shown(quiet))
    lines = printed.get().splitlines()
    assert lines[0] == "Version 1, served:" and "No change is beyond its limit." in lines
    assert any(re.search(r"2026-01-07 +\d+ +0.0% .*100 \(21%\) +0.8000 ± 0.0200", line) for line in lines), lines
