"""Rules of `data.history`: one wrong thing at a time."""

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load

TRIPS = "trips: {entity: who, at: when, columns: [fare]}"
DERIVE = "{usual: past_mean(trips.fare), big: fare > 9}"
YAML = """\
name: a
data:
  source: {{format: csv, path: rows.csv}}
  history: {{{history}}}
  derive: {derive}
  split: {split}
label: {{name: {label}, task: binary}}
features: {{{features}}}
"""


def problems(folder, history=TRIPS, derive=DERIVE, features="usual: number, big: boolean", label="y", split="hash"):
    (folder / "rows.csv").write_text("who,when,fare,shop,y\nann,2024-01-01,5,x,0\n")
    written = {"hash": "{method: hash}"}.get(split, split)
    text = YAML.format(history=history, derive=derive, features=features, label=label, split=written)
    (folder / "p.yaml").write_text(text)
    return [(p.severity, p.path, p.message) for p in check(load(folder / "p.yaml"))]


def test_lists_are_reduced_and_read_in_order(tmp_path):
    assert problems(tmp_path) == []
    events = "usual: number, big: boolean}\nsequences: {recent: {within: trips, columns: {at: number, fare: number}}"
    assert problems(tmp_path, features=events) == []


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"history": TRIPS.replace("who", "whom")}, "data.history.trips.entity", 'no column "whom" in the data'),
        ({"history": TRIPS.replace("when", "then")}, "data.history.trips.at", 'no column "then" in the data'),
        ({"history": TRIPS.replace("who", "big")}, "data.history.trips.entity", "big is derived"),
        ({"history": TRIPS.replace("[fare]", "[fare, tip]")}, "data.history.trips.columns", 'no column "tip"'),
        ({"derive": "{usual: past_mean(trips.tip)}"}, "data.derive.usual", 'no column "trips.tip" in the data'),
        ({"derive": "{usual: past_mean(fare)}"}, "data.derive.usual", "x must be a list of numbers"),
        ({"derive": "{usual: trips.fare + 1}"}, "data.derive.usual", "only functions past_... read it"),
        ({"history": TRIPS[:-1] + ", within: 90d}", "derive": "{usual: 'past_mean(trips.fare, \"91d\")'}"},
         "data.derive.usual",
         'reduces trips.fare within "91d", but data.history.trips keeps events of 90d only. Raise its `within`'),
        ({"history": TRIPS[:-1] + ", available_after: 1d}", "derive": "{usual: 'past_mean(trips.fare, \"23h\")'}"},
         "data.derive.usual", "knows events from 1d on (available_after), so none is in it"),
        ({"history": TRIPS[:-1] + ", max_length: 3}", "derive": "{usual: 'past_last(trips.fare, 4) / 2'}"},
         "data.derive.usual", "reads event 4 of trips.fare from the end, but data.history.trips keeps the last 3"),
        ({"history": TRIPS.replace("who", "y")}, "features.usual", "usual is found by y, which tells the label"),
        ({"derive": "{usual: fare + 1}"}, "data.history.trips", "nothing reads a list of it"),
        ({"history": TRIPS.replace("[fare]", "[fare, usual]"), "features": "usual: number"},
         "data.history.trips.columns", "Events hold no lists"),
        ({"derive": "{usual: past_mean(trips.fare), big: usual > 9}", "label": "big", "features": "usual: number"},
         "label.name", "big is computed from trips.at, a list of data.history"),
        ({"features": "usual: number, fare: {type: number, column: trips.fare}"}, "features", "is a list for"),
    ],
)  # fmt: skip
def test_a_wrong_history_is_named(tmp_path, changes, path, message):
    found = problems(tmp_path, **changes)
    assert [(p, severity) for severity, p, text in found if message in text] == [(path, "error")], found


def test_a_list_that_nothing_reads_is_a_warning(tmp_path):
    found = problems(tmp_path, history=TRIPS.replace("[fare]", "[fare, shop]"))
    assert found == [("warning", "data.history.trips.columns", "nothing reads trips.shop.")]
