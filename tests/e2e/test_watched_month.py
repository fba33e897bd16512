"""The month of examples/watch, day by day: what the watch names, when, and on which day it retrains.

`pytest -s` prints the figures of each day.
"""

import csv
import json
import re
import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.components.watch.watched_month import EXAMPLE, load_month

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PLANTED = {
    "drift distance_km": ("2026-01-08T07", 9),
    "columns weight_kg": ("2026-01-12T13", 13),
    "new_tokens shop": ("2026-01-15T10", 16),
    "live auc": ("2026-01-20", 21),
}
"""What goes wrong -> the hour or day in which it begins, and the day of the first watch that can know it."""


class Month:
    """The folder of the example, and for each watch: its day of January, exit code, output and record."""

    def __init__(self, folder: Path, fullpass):
        self.folder, self.fullpass, self.module = folder, fullpass, load_month()
        self.watches: dict[int, tuple[int, str, dict]] = {}
        self.retrained: list[int] = []
        self.lineages: list[dict] = []
        self.pages: dict[int, str] = {}
        for name in ("pipeline.yaml", "month.py"):
            shutil.copy(EXAMPLE / name, folder / name)
        self("python", "month.py", "train")
        self("fullpass", "run", "pipeline.yaml")
        first = self("fullpass", "lineage", "serving/current", "--json")
        self.eval_auc = json.loads(first.stdout)["metrics"]["auc"]

    def __call__(self, *words, codes=(0,)):
        done = self.fullpass(*words, cwd=self.folder, timeout=550)
        assert done.returncode in codes, done.stdout + done.stderr
        return done

    def play(self) -> None:
        """Plays each day, watches at its end, and lets the schedule do what is due."""
        for day in range(1, self.module.DAYS + 1):
            self("python", "month.py", day)
            done = self(
                "fullpass", "watch", "pipeline.yaml", "--at", date(2026, 1, 1) + timedelta(days=day), codes=(0, 5)
            )
            self.watches[day + 1] = (done.returncode, done.stdout, json.loads(self.record.read_text()))
            self.pages[day + 1] = (self.root / "watch" / "watch.html").read_text()
            if "a run is requested" in done.stdout:
                self.retrained.append(day + 1)
                self("fullpass", "schedule", "run", "pipeline.yaml", "--once")
                served = self("fullpass", "lineage", "serving/current", "--json")
                self.lineages.append(json.loads(served.stdout))

    @property
    def root(self) -> Path:
        return self.folder / "runs" / "orders"

    @property
    def record(self) -> Path:
        return self.root / "watch" / "watch.json"

    def first_named(self) -> dict[str, tuple[str, int]]:
        """Returns each finding with the hour in which it began, and the day of the watch that named it first."""
        found = {}
        for day, (_, _, record) in self.watches.items():
            for one in record["findings"]:
                found.setdefault(f"{one['check']} {one['subject']} {one['version']}", (one["first"], day))
        return found


@pytest.fixture(scope="module")
def month(fullpass, tmp_path_factory):
    made = Month(tmp_path_factory.mktemp("month"), fullpass)
    made.play()
    print("\nwatch  code  findings")
    for day, (code, _, record) in made.watches.items():
        print(
            f"{day:5} {code:5}  {'; '.join(f['check'] + ' ' + f['subject'] for f in record['findings'] if f['open'])}"
        )
    return made


def test_what_was_planted_is_named_on_its_day_with_its_first_hour(month):
    named = month.first_named()
    first = min(int(name.split()[-1]) for name in named)
    for name, (began, day) in PLANTED.items():
        assert named[f"{name} {first}"][0] == began and named[f"{name} {first}"][1] <= day + 1, named


def labelled(month, until, days, shop=None):
    """Returns the day, label and score of the requests, or those of a shop, whose label is known at a time."""
    with (month.folder / "labels.csv").open() as file:
        labels = {row["order_id"]: int(row["late"]) for row in csv.DictReader(file) if row["known_at"] < until}
    found = []
    for day in days:
        text = (month.folder / "log" / f"2026-01-{day:02d}" / "000000.jsonl").read_text()
        lines = [line for line in map(json.loads, text.splitlines()) if line["log_id"] in labels]
        lines = [line for line in lines if shop in (None, line["shop"])]
        found += [(day, labels[line["log_id"]], line["log_scores"][0]) for line in lines]
    return np.array(found)


def test_the_metrics_of_a_watch_are_those_of_the_joined_rows(month):
    _, _, record = month.watches[20]
    live = record["versions"][0]["live"]
    rows = labelled(month, "2026-01-20", range(1, 20))
    for day in (3, 12, 18):
        (found,) = [one for one in live["days"] if one["name"] == f"2026-01-{day:02d}"]
        mine = rows[rows[:, 0] == day]
        assert found["labels"] == len(mine)
        assert found["metrics"]["auc"]["value"] == pytest.approx(roc_auc_score(mine[:, 1], mine[:, 2]), abs=1e-3)

    first, last = (int(day[-2:]) for day in live["over"])
    slices = {name: (rows, metrics["auc"]) for name, rows, metrics in live["slices"]}
    assert {*slices} == {f"shop {shop}" for shop in (*month.module.SHOPS, month.module.NEW_SHOP)}
    north = labelled(month, "2026-01-20", range(first, last + 1), "north")
    auc = roc_auc_score(north[:, 1], north[:, 2])
    assert slices["shop north"] == (len(north), pytest.approx(auc, abs=1e-3))


def test_it_retrains_on_the_first_day_whose_labels_show_it_and_the_model_names_the_reason(month):
    rows = labelled(month, "2026-01-21", (19, 20))
    assert (rows[:, 0] == 20).sum() < 1000 <= len(rows), "the two days are judged together"
    auc = roc_auc_score(rows[:, 1], rows[:, 2])
    draw = np.random.default_rng(1)
    drawn = [rows[draw.integers(0, len(rows), len(rows))] for _ in range(200)]
    error = np.std([roc_auc_score(of[:, 1], of[:, 2]) for of in drawn])
    assert auc + 3.1 * error < month.eval_auc - 0.02, "the bound not_worse_than: eval, tolerance: 0.02"
    assert month.retrained[0] == 21
    assert re.search(r"watch 1: live since 2026-01-20: auc", month.lineages[0]["occasion"]), month.lineages[0]


def test_the_page_has_a_chart_and_a_first_hour_for_each_change_and_the_index_links_it(month):
    page = month.pages[21]
    for began in ("2026-01-08T07", "2026-01-12T13", "2026-01-15T10", "2026-01-20"):
        assert f"<td>{began}</td>" in page
    assert page.count('<figure class="chart"') >= len(PLANTED)
    assert 'href="watch/watch.html"' in (month.root / "index.html").read_text()


def test_nothing_else_is_named(month):
    consequences = {"drift the score": 9, "drift the answer": 9}
    for name, (_, day) in month.first_named().items():
        kind = name.rpartition(" ")[0]
        assert kind in PLANTED or consequences.get(kind) == day, month.first_named()
