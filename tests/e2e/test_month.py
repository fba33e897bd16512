"""A month of daily spans: a late day, a bad file, a drifted day, a rollback and a collection of garbage.

What is served stays as good as it was on ordinary days, and no served model has seen the stopped day until a person
released it. `pytest -s` prints the figures.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.long]

YAML = """\
name: month
data: {source: {format: csv, path: "days/{YYYY}-{MM}-{DD}.csv"}, window: {spans: 7}}
label: {name: tipped, task: binary}
features: {fare: number, miles: number, zone: category}
model: linear
training: {epochs: 3, batch_size: 64}
gates: {drift: stop, rows: stop, missing: stop, stopped_spans: POLICY}
evaluation: {metrics: [auc], thresholds: {auc: {not_worse_than: blessed, tolerance: 0.01}}}
push: {to: serving, keep: 3}
"""
ROWS, HELD_OUT = 700, 20_000
LATE, BAD, DRIFTED, ROLLED_BACK, COLLECTED, RELEASED = 12, 16, 21, 24, 26, 27
MOST_LOST = 0.01
"""Largest loss of AUC on ordinary days of a served model; two draws of a window of the same days differ by less."""


def trips(seed: int, rows: int) -> list[tuple[float, float, str, int]]:
    """Draws ordinary trips; whether one is tipped depends on its fare, its miles and its zone."""
    random = np.random.default_rng(seed)
    fare, miles, noise = random.normal(size=(3, rows))
    zone = random.choice(list("uvw"), rows)
    tipped = fare - miles + 1.5 * (zone == "u") + 0.7 * noise > 0.5
    return [(float(f), float(m), str(z), int(t)) for f, m, z, t in zip(fare, miles, zone, tipped, strict=True)]


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The share of pairs of a tipped and another trip that the scores put in order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


class Month:
    """The pipeline, its days, and what is served. figures: what was done on a day, its exit code and the served AUC."""

    def __init__(self, folder: Path, fullpass):
        self.folder, self.fullpass = folder, fullpass
        self.figures: list[tuple[str, int, float]] = []
        self.held_out = trips(0, HELD_OUT)
        (folder / "days").mkdir()
        self.policy("gap")

    def policy(self, policy: str) -> None:
        (self.folder / "pipeline.yaml").write_text(YAML.replace("POLICY", policy))

    def write(self, day: int, *, rows: int = ROWS, times: float = 1.0) -> None:
        """Writes a day, whose fares and miles are multiplied after the tips were drawn."""
        with (self.folder / "days" / f"2026-10-{day:02d}.csv").open("w", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("fare", "miles", "zone", "tipped"))
            writer.writerows((times * f + (times > 1), times * m, z, t) for f, m, z, t in trips(day, rows))

    def run(self, day: int, *options: str) -> tuple[int, str]:
        """Runs the pipeline for the window that ends with a day; returns exit code and output."""
        done = self.fullpass("fullpass", "run", self.folder / "pipeline.yaml", "--span", f"2026-10-{day:02d}", *options)
        served = self.auc() if self.version() else float("nan")
        self.figures.append((f"{day}{' '.join(('', *options))}", done.returncode, served))
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def version(self) -> Path | None:
        versions = [path for path in (self.folder / "serving").glob("*") if path.name.isdigit()]
        return max(versions, key=lambda path: int(path.name), default=None)

    def auc(self) -> float:
        """The AUC of the served model on ordinary trips that no span holds."""
        import tensorflow as tf

        signature = tf.saved_model.load(str(self.version())).signatures["serving_raw"]
        fare, miles, zone, tipped = zip(*self.held_out, strict=True)
        columns = {"fare": tf.constant(fare, tf.float32), "miles": tf.constant(miles, tf.float32)}
        scores = signature(**columns, zone=tf.constant(zone))["scores"].numpy()
        return auc(np.ravel(scores[..., -1] if scores.ndim > 1 else scores), np.array(tipped))

    def lineage(self) -> dict:
        done = self.fullpass("fullpass", "lineage", self.version(), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def trained_on(self) -> list[int]:
        return [int(span["span"][-2:]) for span in self.lineage()["spans"]]


@pytest.fixture(scope="module")
def month(fullpass, tmp_path_factory):
    made = Month(tmp_path_factory.mktemp("month"), fullpass)
    yield made
    print("\nday, options     exit code  AUC of the served model on ordinary days")
    for name, code, value in made.figures:
        print(f"{name:16} {code:9}  {value:.4f}")


def ordinary(month, day, *options):
    """Runs a day that nothing stops; returns the output."""
    code, said = month.run(day, *options)
    assert code in (0, 3), said
    return said


def test_a_late_day_is_missing_first_and_is_judged_when_it_arrives(month):
    for day in (*range(1, LATE), LATE + 1, LATE + 2):
        month.write(day)
    ordinary(month, 8)
    said = ordinary(month, LATE + 1)
    assert f"1 of the window missing: 2026-10-{LATE}" in said and LATE not in month.trained_on()
    month.write(LATE)
    ordinary(month, LATE + 2)
    assert LATE in month.trained_on()


def test_a_bad_file_is_stopped_and_released_by_its_repair(month):
    month.write(BAD - 1)
    month.write(BAD, rows=ROWS // 8)
    code, said = month.run(BAD)
    assert code == 5 and "fewer than 50%" in said
    month.write(BAD)
    month.write(BAD + 1)
    said = ordinary(month, BAD + 1)
    assert f"2026-10-{BAD} was stopped by run" in said and "(its content has changed)" in said


def test_a_drifted_day_is_in_no_served_model_while_nobody_has_released_it(month):
    for day in range(BAD + 2, DRIFTED):
        month.write(day)
    ordinary(month, DRIFTED - 1)
    before = month.figures[-1][2]
    month.write(DRIFTED, times=3)
    code, said = month.run(DRIFTED)
    assert code == 5 and "fare: drifted" in said

    month.write(DRIFTED + 1)
    month.policy("stop")
    code, said = month.run(DRIFTED + 1)
    assert code == 5 and f"2026-10-{DRIFTED} has changed. Nothing was trained" in said
    month.policy("gap")
    for day in range(DRIFTED + 1, ROLLED_BACK + 1):
        month.write(day)
        said = ordinary(month, day)
        assert f"gap: without 2026-10-{DRIFTED}" in said and f"gap: 2026-10-{DRIFTED} was stopped by run" in said
        assert DRIFTED not in month.trained_on() and month.figures[-1][2] > before - MOST_LOST


def test_a_rollback_and_gc_leave_the_day_stopped(month):
    served = month.version()
    done = month.fullpass("fullpass", "rollback", month.folder / "serving")
    assert done.returncode == 0 and month.version() < served, done.stdout + done.stderr
    for day in range(ROLLED_BACK + 1, COLLECTED + 1):
        month.write(day)
        ordinary(month, day)
        assert DRIFTED not in month.trained_on()
    gc = ("fullpass", "gc", month.folder / "pipeline.yaml", "--keep-runs", "1")
    assert month.fullpass(*gc).returncode == 0
    month.write(RELEASED)
    assert f"gap: 2026-10-{DRIFTED} was stopped by run" in ordinary(month, RELEASED)
    assert DRIFTED not in month.trained_on()


def test_who_released_the_day_is_in_the_lineage_of_the_models_that_were_trained_on_it(month):
    before = month.figures[-1][2]
    code, said = month.run(RELEASED, "--gate", "warn")
    assert code in (0, 3) and f"2026-10-{DRIFTED} was stopped by run" in said and "(--gate warn)" in said
    if code == 0:
        [released] = month.lineage()["gates"]["DataGate"]["released"]
        assert released["label"] == f"2026-10-{DRIFTED}" and released["release"]["how"] == "--gate warn"
        assert released["release"]["by"] and released["release"]["run"] and DRIFTED in month.trained_on()
        assert month.figures[-1][2] < before, "which is why it was stopped"
    month.write(RELEASED + 1)
    ordinary(month, RELEASED + 1)
    assert DRIFTED not in month.trained_on()


def test_the_served_models_stay_as_good_as_they_were(month):
    for day in (29, 30):
        month.write(day)
    ordinary(month, 30)
    of_day = [value for name, code, value in month.figures if code in (0, 3) and "warn" not in name]
    assert len(of_day) >= 12 and min(of_day) > max(of_day) - 2 * MOST_LOST
