import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn import metrics as sk

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.measure.measure_rows import measure_rows
from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.pipeline.api.model import compare, evaluate
from fullpass.pipeline.registry.compare import (
    ComparedMetric,
    ComparedSlice,
    Comparison,
    compared_metrics,
    shown,
)
from fullpass.pipeline.registry.compare_several import Comparisons, compare_several
from fullpass.pipeline.registry.compare_several import shown as shown_several
from fullpass.pipeline.registry.compared_model import ComparedModel
from fullpass.pipeline.registry.score_models import paired
from tests import warm_process
from tests.pipeline.registry.column_models import YAML, export

pytestmark = pytest.mark.integration
ROWS = 3000
NAN = float("nan")


def made_rows() -> pd.DataFrame:
    """Returns rows of two scores: good is better than fair, most of all in Oslo; in Rome they are equal."""
    random = np.random.default_rng(3)
    y = random.integers(0, 2, ROWS)
    city = random.choice(["Oslo", "Rome", "Lima"], ROWS)
    noise = random.normal(size=(2, ROWS))

    def score(signal, noise):
        return 1 / (1 + np.exp(-(signal * (2 * y - 1) + noise)))

    fair, good = score(0.8, noise[0]), score(0.9, 0.8 * noise[0] + 0.6 * noise[1])
    good = np.where(city == "Rome", fair, np.where(city == "Oslo", score(2.0, noise[1]), good))
    return pd.DataFrame({"y": y, "city": city, "fair": fair.astype("f4"), "good": good.astype("f4")})


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return made_rows()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows) -> Path:
    """A folder with the exports fair and good, and labelled rows in rows.csv."""
    folder = tmp_path_factory.mktemp("compared")
    for name in ("fair", "good"):
        export(folder / name, name)
    rows.to_csv(folder / "rows.csv", index=False)
    return folder


def compared(folder: Path, a: str, b: str, data: str | None = "rows.csv"):
    found = compare_several(str(folder / a), [str(folder / b)], folder / "none.yaml", data and str(folder / data))
    return found.pairs[0]


@pytest.fixture(scope="module")
def comparison(folder):
    return compared(folder, "fair", "good")


def test_metrics_of_both_are_those_of_scikit_learn_on_the_same_rows(comparison, rows):
    assert (comparison.examples, comparison.reason) == (ROWS, "")
    for side, name in (("a", "fair"), ("b", "good")):
        found, scores = comparison.table[side], rows[name].astype(float)
        assert found["auc"] == pytest.approx(sk.roc_auc_score(rows.y, scores), abs=1e-4)
        assert found["log_loss"] == pytest.approx(sk.log_loss(rows.y, scores), rel=1e-5)
        assert found["accuracy"] == pytest.approx(((scores > 0.5) == rows.y).mean())
    assert list(comparison.table["verdict"]) == ["B is better"] * 3


def test_the_interval_of_the_difference_is_that_of_a_paired_bootstrap(comparison, rows):
    random, differences = np.random.default_rng(0), []
    for _ in range(400):
        drawn = rows.iloc[random.integers(0, ROWS, ROWS)]
        differences.append([sk.roc_auc_score(drawn.y, drawn[n]) for n in ("fair", "good")])
    paired = np.diff(differences)[:, 0]
    low, high = np.quantile(paired, [0.025, 0.975])
    auc = next(m for m in comparison.metrics if m.metric == "auc")
    # A jackknife over 40 groups has a relative uncertainty of 11 %, twice that covers it.
    assert auc.half_width == pytest.approx((high - low) / 2, rel=0.3)
    apart = 1.96 * np.sqrt(np.var(np.array(differences)[:, 0]) + np.var(np.array(differences)[:, 1]))
    assert auc.half_width < 0.9 * apart  # rows are paired


def test_slices_that_moved_come_first(comparison, rows):
    assert [one.name for one in comparison.slices if one.moved][0] == "city Oslo"
    rome = next(one for one in comparison.slices if one.name == "city Rome")
    assert not rome.moved and {m.words for m in rome.metrics} == {"equal"}
    assert rome.examples == (rows.city == "Rome").sum()


def test_equal_models_are_called_equal_rather_than_counted(folder):
    found = compared(folder, "fair", "fair")
    console = Console(width=160, record=True)
    console.print(shown(found))
    for text in (found.page, console.export_text()):
        assert "A and B are equal on these rows, in every metric of every slice." in text
        assert "0 of 0" not in text


def test_what_differs_alike_in_all_rows_is_counted():
    slices = [ComparedSlice("city Oslo", 100, (ComparedMetric("accuracy", 1.0, -1.0, 0.0),))]
    assert "1 of 1 slices moved beyond chance: 1 of 1" in Comparison((), (), (), slices=tuple(slices)).moved_words
    unknown = replace(slices[0], metrics=(ComparedMetric("accuracy", 1.0, -1.0, NAN),))
    assert Comparison((), (), (), slices=(unknown,)).moved_words.startswith("No slice has enough rows")


def test_quantiles_of_other_levels_are_not_ranked():
    labels = np.arange(100.0)

    def scored(*levels):
        quantiles = labels[:, None] + 10 * np.array(levels) - 5
        return Scored(labels, np.ones(100), labels, quantiles, levels)

    def words(a, b):
        rows = ScoredRows(np.arange(100), np.zeros(100, np.int64), {}, (a, b))
        names = ["pinball", "interval_coverage", "interval_width", "coverage[0.9]", "mae"]
        found = compared_metrics(measure_rows(names, [], [rows]).whole, names)
        return {one.metric: one.words for one in found}

    wide, narrow = scored(0.05, 0.5, 0.9), scored(0.2, 0.5, 0.9)
    assert words(wide, narrow) == {
        **dict.fromkeys(["pinball", "interval_coverage", "interval_width"], "of other levels"),
        **dict.fromkeys(["coverage[0.9]", "mae"], "equal"),
    }
    assert set(words(wide, wide).values()) == {"equal"}


def test_more_models_stand_beside_the_first_one(comparison, folder):
    """The model good is better; one that reads other rows is named, with the reason."""
    gone = replace(comparison, models=(comparison.models[0],) * 2, metrics=(), reason="<b>no rows</b>", changes=())
    found = Comparisons((comparison, gone))
    headings, rows = found.table
    assert headings == ("model", "rows", "metric", "first", "value", "difference", "")
    assert [(row[2], row[-1]) for row in rows[:3]] == [(m.metric, "better") for m in comparison.metrics]
    assert rows[3] == (str(folder / "fair"), "not measured: <b>no rows</b>", *[""] * 5)
    assert [row[1:] for row in found.changes[1]] == [("features.good", "", "number"), ("features.fair", "number", "")]
    assert "&lt;b&gt;no rows" in found.page and len(found.record()["pairs"]) == 2
    console = Console(width=200, record=True)
    console.print(shown_several(found))
    assert "2 models beside the first one" in console.export_text()


def test_several_models_are_measured_on_the_rows_that_all_have(folder, rows):
    """The model third cannot read 40 rows, so no model is measured on these; one without rows changes nothing."""
    export(folder / "third", "third")
    wide = rows.assign(third=rows.fair.astype(object))
    wide.loc[10:49, "third"] = "much"
    wide.to_csv(folder / "wide.csv", index=False)
    names = [str(folder / name) for name in ("fair", "good", "third", "none")]
    export(folder / "none", "good", task="regression", metrics="mse")
    found = compare_several(names[0], names[1:], folder / "none.yaml", str(folder / "wide.csv"))
    good, third, none = found.pairs
    assert found.rows == "2,960 rows, the same for all models."
    assert good.examples == third.examples == 2960 and "the tasks differ" in none.reason
    kept = rows.drop(range(10, 50))
    auc = next(m for m in good.metrics if m.metric == "auc")
    assert (auc.a, auc.b) == pytest.approx(
        [sk.roc_auc_score(kept.y, kept[name]) for name in ("fair", "good")], abs=1e-4
    )
    assert next(m.words for m in third.metrics if m.metric == "auc") == "equal"
    assert found.rows in found.page


def test_the_verdict_says_who_is_better_by_a_positive_number():
    metrics = (
        ComparedMetric("auc", 0.9, 0.8, 0.05),
        ComparedMetric("log_loss", 0.5, 0.4, 0.05),
        ComparedMetric("accuracy", 0.9, 0.91, 0.05),
    )
    one = Comparison((), (), (), metrics=metrics)
    better = "A is better in auc by 0.1000 ± 0.0500; B is better in log_loss by 0.1000 ± 0.0500"
    assert (one.verdict, one.style) == (f"{better}; within chance: accuracy", "quiet")
    assert [replace(one, metrics=metrics[i : i + 1]).style for i in (0, 1)] == ["bad", "good"]
    assert replace(one, metrics=metrics[2:]).verdict == "Neither is better beyond chance; within chance: accuracy"


def test_yamls_features_and_curves_are_compared(comparison):
    assert (comparison.added, comparison.removed) == (("good",), ("fair",))
    assert [str(change) for change in comparison.changes] == ["+ features.good number", "- features.fair"]
    page = comparison.page
    assert page.count('<figure class="chart"') == 6 and "city Oslo" in page and 'aria-label="ROC curve"' in page
    assert "&lt;iframe" not in comparison._repr_html_() and "srcdoc" in comparison._repr_html_()
    assert len(comparison.slice_table) == 9


def test_bad_and_unlabelled_rows_are_counted_for_both(folder, rows):
    worse = rows.head(200).astype(object)
    worse.loc[3, "fair"] = "much"
    worse.loc[4, "y"] = None
    worse.loc[5, "y"] = 7
    worse.to_csv(folder / "worse.csv", index=False)
    found = compared(folder, "fair", "good", "worse.csv")
    assert found.examples == 197
    text = " ".join(found.notes)
    assert "1 of 200 rows cannot be read by" in text and "row 5: 'much'" in text


def test_what_cannot_be_compared_is_said_with_the_reason_and_the_yamls_are(folder, rows):
    export(folder / "numbers", "good", classes=None, task="regression", metrics="rmse")
    found = compared(folder, "fair", "numbers")
    assert "the tasks differ" in found.reason and found.metrics == () and found.changes
    export(folder / "figures", "fair", classes=None, task="regression", metrics="rmse")
    numbers = compared(folder, "figures", "numbers")
    errors = [np.sqrt(((rows[name] - rows.y) ** 2).mean()) for name in ("fair", "good")]
    assert [numbers.metrics[0].a, numbers.metrics[0].b] == pytest.approx(errors, rel=1e-5)
    assert numbers.page.count('aria-label="Prediction over label"') == 2
    other = export(folder / "other", "good", classes=("1", "0"))
    assert f"the labels differ in {ROWS:,} of {ROWS:,} rows" in compared(folder, "fair", Path(other).name).reason
    found = compared(folder, "fair", "good", None)
    assert "are not on this machine" in found.reason and "--data" in found.reason
    assert "Not measured on the same rows" in found.page


def test_how_to_read_rows_goes_with_rows(folder):
    with pytest.raises(UserError, match="format, separator: how to read the rows of --data; give it"):
        compare(str(folder / "fair"), [folder / "good"], None, {"format": "csv", "separator": ";"})
    (folder / "labelled.yaml").write_text("")
    with pytest.raises(UserError, match="labelled.yaml: its data.source tells how to read the rows; drop separator"):
        evaluate(str(folder / "good"), folder / "labelled.yaml", {"separator": ";"})


def test_few_rows_have_no_interval(folder, rows):
    rows.head(5).to_csv(folder / "few.csv", index=False)
    found = compared(folder, "fair", "good", "few.csv")
    assert {m.words for m in found.metrics} <= {"too few rows to tell", "undefined", "equal"}


def test_words_follow_the_direction_of_the_metric():
    def words(metric, a, b, width):
        return ComparedMetric(metric, a, b, width).words

    assert words("log_loss", 0.5, 0.4, 0.05) == "B is better" and words("auc", 0.9, 0.8, 0.05) == "A is better"
    assert words("auc", 0.9, 0.89, 0.05) == "within chance"
    assert words("calibration", 1.0, 2.0, 0.1) == "they differ"
    assert words("auc", NAN, 0.9, 0.1) == "undefined" and words("auc", 0.9, 0.8, NAN) == "too few rows to tell"


def say(*command) -> str:
    """Returns what `fullpass` prints."""
    arguments = [str(Path(sys.executable).parent / "fullpass"), *map(str, command)]
    done = warm_process.run(arguments, cwd=None, env=dict(os.environ), timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_and_python_say_the_same(folder, rows, comparison):
    data, page = folder / "rows.csv", folder / "page.html"
    out = say("compare", folder / "fair", folder / "good", "--data", data, "--page", page)
    assert "B is better" in out and "3,000 rows, the same for both" in out and "+ features" not in out
    assert page.read_text() == comparison.page
    by_frame = compare(str(folder / "fair"), [folder / "good"], rows, {})
    assert [(m.a, m.b) for m in by_frame.metrics] == [(m.a, m.b) for m in comparison.metrics]
    several = compare(str(folder / "fair"), [folder / "good", folder / "fair"], rows, {})
    assert [pair.models[1].name for pair in several.pairs] == [str(folder / name) for name in ("good", "fair")]
    assert several.pairs[0].metrics == by_frame.metrics and several.pairs[1].rows == "the table"
    with pytest.raises(UserError, match="no other model is given"):
        compare(str(folder / "fair"), [], rows, {})
    assert json.loads(to_json_text(comparison.record()))["metrics"][0]["a"] == comparison.metrics[0].a


def test_an_evaluation_has_the_metrics_and_counts_every_row(folder, rows):
    worse = rows.astype(object)
    worse.loc[3, "good"] = "much"
    worse.loc[[4, 9], "y"] = None
    worse.to_csv(folder / "labelled.csv", index=False)
    found = evaluate(str(folder / "good"), folder / "labelled.csv", {})
    left = rows.drop([3, 4, 9])
    assert (found.rows, found.bad, found.unlabelled, found.verdict.examples) == (ROWS, 1, 2, ROWS - 3)
    assert found.metrics["auc"] == pytest.approx(sk.roc_auc_score(left.y, left.good), abs=1e-4)
    low, high = found.table.loc["auc", ["low", "high"]]
    assert low < found.metrics["auc"] < high and found.table.loc["auc", "at_training"] == 0.5
    # Two independent samples: 1.96 of the root of both squares, and a little more for 40 groups.
    auc = next(m for m in found.verdict.metrics if m.metric == "auc")
    assert auc.difference_half_width == pytest.approx(2.02 * math.hypot((high - low) / 4.05, 0.02), rel=0.01)
    assert found.table.loc["auc", "difference"] == pytest.approx(found.metrics["auc"] - 0.5)
    assert found.table.loc["auc", "change"] == "better" and ">better<" in found.page
    assert "labelled.csv, row 5: 'much'" in found.notes[0] and "labelled.csv, rows 6, 11" in found.notes[1]
    oslo = left[left.city == "Oslo"]
    assert next(s for s in found.slices if s.name == "city Oslo").examples == len(oslo)
    assert "city Oslo" in found.page and found.page.count('aria-label="ROC curve"') == 1
    said = json.loads(say("evaluate", folder / "good", folder / "labelled.csv", "--json"))
    assert said["metrics"]["auc"]["value"] == found.metrics["auc"] and said["unlabelled"] == 2


def test_rows_of_another_format_are_read_and_a_missing_label_is_named(folder, rows):
    rows.to_json(folder / "rows.jsonl", orient="records", lines=True)
    as_json = evaluate(str(folder / "good"), folder / "rows.jsonl", {})
    assert as_json.metrics == pytest.approx(evaluate(str(folder / "good"), rows, {}).metrics, rel=1e-5)
    rows.drop(columns="y").to_csv(folder / "blind.csv", index=False)
    with pytest.raises(UserError, match=r"blind.csv: no column 'y', which the label 'y' needs"):
        evaluate(str(folder / "good"), folder / "blind.csv", {})
    rows.drop(columns="city").to_csv(folder / "short.csv", index=False)
    note = evaluate(str(folder / "good"), folder / "short.csv", {}).notes[0]
    assert "short.csv lacks, taken as missing: city" in note
    rows.assign(y=9).to_csv(folder / "unknown.csv", index=False)
    with pytest.raises(UserError, match="no row has a label that the model can use"):
        evaluate(str(folder / "good"), folder / "unknown.csv", {})


def side(name: str, classes: tuple[str, ...], scores: np.ndarray, labels: list[str], ids, weights=None):
    """Returns a model of several classes, and its scored rows."""
    known = [classes.index(label) if label in classes else 0 for label in labels]
    usable = np.array([label in classes for label in labels]) * 1.0
    scored = Scored(np.array(known, float), usable if weights is None else weights, scores, classes=classes)
    text = YAML.replace("TASK", "multiclass").replace("COLUMN", name).replace("METRICS", "macro_f1")
    rows = ScoredRows(np.array(ids), np.zeros(len(ids), int), {}, (scored,))
    return ComparedModel(name, name, text, None), rows


def test_classes_and_rows_that_differ_are_matched_by_name_and_by_id():
    random = np.random.default_rng(5)
    labels = random.choice(["x", "y", "z"], 400).tolist()
    first, second = random.dirichlet([1] * 3, 400), random.dirichlet([1] * 4, 400)
    a, rows_a = side("a", ("x", "y", "z"), first, labels, range(400))
    order = random.permutation(400)[:300]  # other rows, in another order
    b, rows_b = side("b", ("z", "w", "y", "x"), second[order], [labels[i] for i in order], order)
    both = paired(a, b, (rows_a, rows_b), "the rows", [])
    assert len(both.rows.row_ids) == 300
    assert "100 of 400 rows of a are not among the rows of the other" in both.notes[0]
    assert both.notes[1] == "the classes differ: b alone knows w"
    found = measure_rows(["macro_f1", "multiclass_accuracy"], [], [both.rows]).whole
    kept = np.sort(order)
    truth = np.array(labels)[kept]
    said = (
        np.array(["x", "y", "z"])[first[kept].argmax(axis=1)],
        np.array(["z", "w", "y", "x"])[second[kept].argmax(axis=1)],
    )
    for values, predicted in zip((found.values, found.baseline), said, strict=True):
        assert values["multiclass_accuracy"] == pytest.approx((predicted == truth).mean())
        assert values["macro_f1"] == pytest.approx(sk.f1_score(truth, predicted, average="macro"))


def test_rows_that_one_model_cannot_use_and_other_weights_are_said():
    scores = np.random.default_rng(6).dirichlet([1] * 2, 40)
    labels = ["x", "y"] * 19 + ["v", "v"]
    a, rows_a = side("a", ("x", "y"), scores, labels, range(40))
    b, rows_b = side("b", ("x", "y"), scores, labels, range(40), weights=np.full(40, 2.0))
    both = paired(a, b, (rows_a, rows_b), "the rows", [])
    assert len(both.rows.row_ids) == 38 and (both.rows.models[1].weights == 1).all()
    assert both.notes == (
        "2 rows are left out, because one model only has a usable label there",
        "the weights of rows differ; both models are measured with those of a",
    )


def test_a_metric_that_is_no_number_is_undefined():
    rows = ScoredRows(
        np.arange(50),
        np.zeros(50, int),
        {},
        tuple(Scored(np.ones(50), np.ones(50), s) for s in (np.ones(50), np.full(50, NAN))),
    )
    found = measure_rows(["rmse", "r2"], [], [rows]).whole
    assert found.values["rmse"] == 0 and np.isnan(found.baseline["rmse"]) and np.isnan(found.values["r2"])
