"""The month of examples/watch, day by day: what the watch names, when, and on which day it retrains.

`pytest -s` prints the figures of each day.
"""

import importlib.util
import json
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests import REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXAMPLE = REPOSITORY / "examples" / "watch"
PLANTED = {
    "drift distance_km": ("2026-01-08T07", 9),
    "columns weight_kg": ("2026-01-12T13", 13),
    "new_tokens shop": ("2026-01-15T10", 16),
    "live auc": ("2026-01-20", 21),
}
"""What goes wrong -> the hour or day in which it begins, and the day of the first watch that can know it."""


def load_month():
    spec = importlib.util.spec_from_file_location("month", EXAMPLE / "month.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Month:
    """The folder of the example, and for each watch: its day of January, exit code, output and record."""

    def __init__(self, folder: Path, fullpass):
        self.folder, self.fullpass, self.module = folder, fullpass, load_month()
        self.watches: dict[int, tuple[int, str, dict]] = {}
        self.retrained: list[int] = []
        for name in ("pipeline.yaml", "month.py"):
            shutil.copy(EXAMPLE / name, folder / name)
        self("python", "month.py", "train")
        self("fullpass", "run", "pipeline.yaml")

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
            if "a run is requested" in done.stdout:
                self.retrained.append(day + 1)
                self("fullpass", "schedule", "run", "pipeline.yaml", "--once")

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


def test_nothing_else_is_named(month):
    consequences = {"drift the score": 9, "drift the answer": 9}
    for name, (_, day) in month.first_named().items():
        kind = name.rpartition(" ")[0]
        assert kind in PLANTED or consequences.get(kind) == day, month.first_named()
