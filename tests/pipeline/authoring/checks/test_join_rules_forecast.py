"""Rules of `label.forecast`: one wrong thing at a time."""

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError

FORECAST = "{ahead: 7d, entity: shop, at: day}"
TIME = '{method: time, column: day, until: {train: "2024-03-01"}}'
ROWS = "day,shop,sales\n2024-01-01,a,5\n"
YAML = """\
name: a
data:
  source: {{format: csv, path: rows.csv}}
  derive: {derive}
  split: {split}
  {more}
label: {{name: sales, task: regression, forecast: {forecast}}}
features: {{{features}}}
"""


def loaded(folder, forecast=FORECAST, split=TIME, derive="{}", features="sales: number", more="", rows=ROWS):
    (folder / "rows.csv").write_text(rows)
    text = YAML.format(forecast=forecast, split=split, derive=derive, features=features, more=more)
    (folder / "p.yaml").write_text(text)
    return load(folder / "p.yaml")


def problems(folder, **changes):
    try:
        found = check(loaded(folder, **changes))
    except ConfigError as error:
        found = error.problems
    return [(p.severity, p.path, p.message) for p in found]


def test_the_present_value_may_be_a_feature_and_the_gap_is_the_horizon(tmp_path):
    assert problems(tmp_path) == []
    config = loaded(tmp_path).config
    assert config.ingest_config.split.gap == "7d" and config.label.column == "sales in 7d"


def test_entity_and_date_are_those_of_the_histories_if_these_agree(tmp_path):
    history = "past: {entity: [shop], at: day, format: '%Y-%m-%d', columns: [sales]}"
    other = "other: {entity: shop, at: day, columns: [sales]}"
    changes = {"forecast": "{ahead: 7d}", "derive": "{usual: past_mean(past.sales)}", "features": "usual: number"}
    found = loaded(tmp_path, more=f"history: {{{history}}}", **changes).config.label.forecast
    assert (found.entity, found.at, found.format) == (("shop",), "day", "%Y-%m-%d")
    ((severity, path, message),) = problems(tmp_path, more=f"history: {{{history}, {other}}}", **changes)
    assert (severity, path) == ("error", "label.forecast") and "entity and at missing" in message


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"forecast": "{ahead: 7d, at: day}"}, "label.forecast", "entity missing: name the column of the entity"),
        ({"forecast": "{ahead: 7d}"}, "label.forecast", "entity and at missing"),
        ({"forecast": "{entity: shop, at: day}"}, "label.forecast.ahead", "missing. Accepted: a duration"),
        ({"forecast": FORECAST.replace("7d", "0d")}, "label.forecast.ahead", "a duration above 0"),
        ({"forecast": FORECAST.replace("7d", "a week")}, "label.forecast.ahead", "Accepted: a duration such as"),
        ({"forecast": FORECAST.replace("shop", "store")}, "label.forecast.entity", 'no column "store" in the data'),
        ({"forecast": FORECAST.replace("day", "date")}, "label.forecast.at", 'no column "date" in the data'),
        ({"forecast": FORECAST.replace("shop", "big"), "derive": "{big: sales > 9}"}, "label.forecast.entity",
         "big is derived"),
        ({"features": "x: {type: number, column: sales in 7d}"}, "features.x", "sales in 7d is not known when"),
        ({"features": "x: number", "derive": "{x: '`sales in 7d` + 1'}"}, "data.derive.x", "sales in 7d is not known"),
        ({"split": "{method: hash}"}, "data.split", "labels of train are known values of eval"),
        ({"split": "{method: random}"}, "data.split", "labels of train are known values of eval"),
        ({"split": TIME[:-1] + ", gap: 6d}"}, "data.split.gap", "6d is shorter than label.forecast.ahead, 7d"),
    ],
)  # fmt: skip
def test_a_wrong_forecast_is_named(tmp_path, changes, path, message):
    found = problems(tmp_path, **changes)
    assert ("error", path) in [(s, p) for s, p, text in found if message in text], found


def test_a_split_by_entity_is_allowed_with_a_warning(tmp_path):
    ((severity, path, message),) = problems(tmp_path, split="{method: hash, column: shop}")
    assert (severity, path) == ("warning", "data.split") and "do not show the future" in message


def test_a_split_by_another_date_than_that_of_the_forecast_has_a_warning(tmp_path):
    changes = {"forecast": FORECAST.replace("day", "sold"), "split": TIME}
    rows = "day,sold,shop,sales\n2024-01-01,2024-01-02,a,5\n"
    ((severity, path, message),) = problems(tmp_path, rows=rows, **changes)
    assert (severity, path) == ("warning", "data.split.column")
    assert "rows are split by day, but their labels lie 7d after sold" in message
    parts = TIME.replace("column: day", 'column: [day], format: "%Y-%m-%d"')
    assert problems(tmp_path, split=parts) == []
