"""`check --data` of rows: their splits and labels."""

import numpy as np
import pytest

from tests.pipeline.authoring.data_check.checked_table import GIVEN_SPLITS, columns, of
from tests.pipeline.authoring.tables import write_csv as write


def test_rows_in_two_given_splits_are_found(tmp_path):
    whole = columns()
    write(tmp_path / "train.csv", whole)
    write(tmp_path / "eval.csv", whole)
    [(severity, path, message)] = [p for p in of(tmp_path, GIVEN_SPLITS) if "are also in train" in p[2]]
    assert (severity, path) == ("error", "data.source.path.eval")
    assert "1,000 of 1,000 rows of eval (100.0%)" in message
    other = {name: list(values[:10]) + [v for v in values][::-1][:500] for name, values in whole.items()}
    other["age"] = [*whole["age"][:10], *(whole["age"][::-1][:500] + 0.5)]
    write(tmp_path / "eval.csv", other)
    [(severity, path, message)] = of(tmp_path, GIVEN_SPLITS)
    assert (severity, path) == ("warning", "data.source.path.eval")
    assert "10 of 510 rows of eval (2.0%)" in message


def test_labels_that_train_lacks_are_found(tmp_path):
    whole = columns()
    write(tmp_path / "train.csv", {**whole, "y": np.where(whole["y"], ">50K", "<=50K")})
    write(tmp_path / "eval.csv", {**whole, "y": np.where(whole["y"], ">50K.", "<=50K."), "age": whole["age"] + 1})
    found = of(tmp_path, GIVEN_SPLITS, label="{name: y, task: binary, positive: '>50K'}")
    assert [(s, p) for s, p, _ in found] == [("error", "data.source.path.eval")]
    assert "one class only. Its labels are" in found[0][2] and '">50K."' in found[0][2]
    found = of(tmp_path, GIVEN_SPLITS, label="{name: y, task: multiclass}")
    assert [(s, p) for s, p, _ in found] == [("error", "data.source.path.eval")]
    assert "100.0% of labels of split eval never occur in train" in found[0][2]


@pytest.mark.parametrize(
    ("split", "label", "says"),
    [
        ("{method: column, column: part, values: {train: early, eval: late}}", "", "no metric counts them"),
        ("{method: time, column: at, until: {train: 2024-02-01}}", ", classes: [yes, no, maybe]",
         "metrics count them as wrong"),
    ],
)  # fmt: skip
def test_classes_that_train_never_has_are_named(tmp_path, split, label, says):
    """Of 90 rows of eval, nine are maybe."""
    parts = ["early"] * 310 + ["late"] * 90
    days = [f"2024-0{2 if part == 'late' else 1}-{1 + i % 28:02}" for i, part in enumerate(parts)]
    y = ["maybe" if part == "late" and i % 10 == 0 else ("yes", "no")[i % 2] for i, part in enumerate(parts)]
    write(tmp_path / "rows.csv", {"x": np.arange(400), "part": parts, "at": days, "y": y})
    data = f"  source: {{format: csv, path: rows.csv}}\n  split: {split}\n"
    told = of(tmp_path, data, "{x: number}", f"{{name: y, task: multiclass{label}}}")
    expected = f'10.0% of labels of split eval never occur in train, such as "maybe": {says}.'
    assert ("warning", "data.split", expected) in told


@pytest.mark.parametrize(
    ("train", "evaluated", "label", "found"),
    [
        (["1", "0"] * 50, ["maybe", "0", "1", "1"] * 25, "task: binary", [("warning", "label.name", '"maybe"')]),
        (["1", "0", "", "0"] * 25, ["0", "1"] * 450, "task: binary", [("error", "label.max_missing", "25.0% of")]),
        (["1", "0", "", "0"] * 25, ["0", "1"] * 450, "task: binary, weight: w", []),
        (["", ""] * 50, ["0", "1"] * 50, "task: binary", [("error", "label.name", "no train row has a label")]),
        (["1", "1"] * 50, ["0", "1"] * 50, "task: binary", [("error", "data.source.path", "every row of train has")]),
        (["a|b", "|"] * 50, ["a|z", "b"] * 50, 'task: multilabel, separator: "|", classes: [a, b]', []),
        (["a|b", "z"] * 50, ["a"] * 100, 'task: multilabel, separator: "|", classes: [a, b]',
         [("error", "label.max_missing", "50.0% of train")]),
        (["a\nb", "c", "d", "c"] * 25, ["c", "d"] * 50, "task: multiclass",
         [("error", "label.max_missing", "A class with a line break is known only if label.classes lists it")]),
        (["a\nb", "c", "d", "c"] * 25, ["c", "d"] * 50, 'task: multiclass, classes: ["a\\nb", c, d]', []),
    ],
)  # fmt: skip
def test_labels_are_judged_by_the_rows_of_train_as_the_run_judges_them(tmp_path, train, evaluated, label, found):
    for name, values, first in (("train", train, 0), ("eval", evaluated, 5000)):
        table = {"age": np.arange(first, first + len(values)), "y": values, "w": np.ones(len(values))}
        write(tmp_path / f"{name}.csv", table)
    told = of(tmp_path, GIVEN_SPLITS, "{age: number}", f"{{name: y, {label}}}")
    told = [one for one in told if "never occur in train" not in one[2]]
    assert [(s, p) for s, p, _ in told] == [(s, p) for s, p, _ in found], told
    assert all(words in message for (_, _, words), (_, _, message) in zip(found, told, strict=True)), told


def test_two_rows_of_a_time_are_an_error_of_a_forecast_as_in_the_run(tmp_path):
    hours = [f"2024-10-{26 + h // 24} {h % 24:02d}:00" for h in range(72)]
    table = {"shop": ["a"] * 72 + ["b"] * 72, "at": hours * 2, "sales": [10 + n % 24 for n in range(144)]}
    forecast = '{ahead: 1h, entity: shop, at: at, format: "%Y-%m-%d %H:%M"}'
    label = f"{{name: sales, task: regression, forecast: {forecast}}}"
    data = "  source: {format: csv, path: data.csv}\n"
    for repeated, summer_time in (("2024-10-27 02:00", True), ("2024-10-26 14:00", False)):
        more = {"shop": "a", "at": repeated, "sales": 5}
        write(tmp_path / "data.csv", {name: [*cells, more[name]] for name, cells in table.items()})
        found = [(s, p, m) for s, p, m in of(tmp_path, data, "{sales: number}", label) if p == "label.forecast"]
        [(severity, _, message)] = found
        assert severity == "error" and f"two rows of entity 'a' have the time {repeated}:00 UTC." in message
        assert ("daylight saving time" in message) == summer_time
    write(tmp_path / "data.csv", table)
    assert not [p for _, p, _ in of(tmp_path, data, "{sales: number}", label) if p == "label.forecast"]
