"""`check --data`: one bad thing at a time, in data that is fine otherwise."""

import contextlib
import datetime
import json
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.data_check.data_check import check_data, findings_table
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.id_features import BooleanFeature
from fullpass.preprocessing.features.ids import Identity
from fullpass.preprocessing.values.convert import convert
from tests.pipeline.authoring.tables import write_csv as write

ROWS = 1000
FEATURES = "{age: number, city: category, member: boolean, joined: date}"


def columns():
    random = np.random.default_rng(2)
    return {
        "age": random.normal(40, 10, ROWS).round(3),
        "city": random.choice(["Oslo", "Rome", "Bern"], ROWS),
        "member": random.choice(["yes", "no"], ROWS),
        "joined": [f"2023-{m:02d}-{d:02d}" for m, d in random.integers(1, 13, (ROWS, 2)).tolist()],
        "y": random.integers(0, 2, ROWS),
    }


def problems(tmp_path, changes=None, *, features=FEATURES, label="{name: y, task: binary}", data="", extra=()):
    """Returns (severity, path, message) of what is found after some columns are replaced."""
    write(tmp_path / "data.csv", {**columns(), **(changes or {})}, extra)
    return of(tmp_path, f"  source: {{format: csv, path: data.csv}}\n{data}", features, label)


def of(tmp_path, data, features=FEATURES, label="{name: y, task: binary}"):
    text = f"name: test\ndata:\n{data}label: {label}\nfeatures: {features}\n"
    (tmp_path / "p.yaml").write_text(text)
    report = check_data(load(tmp_path / "p.yaml"))
    return [(p.severity, p.path, p.message) for p in report.problems]


GIVEN_SPLITS = "  source: {format: csv, path: {train: train.csv, eval: eval.csv}}\n"


def of_table(tmp_path, columns, features=FEATURES, label="{name: y, task: binary}"):
    """As `of`, for columns that are written as Parquet."""
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    return of(tmp_path, "  source: {format: parquet, path: a.parquet}\n", features, label)


def replaced(values, value, share):
    values = np.array(values, dtype=object)
    values[: int(share * len(values))] = value
    return values


def test_good_data_has_no_findings(tmp_path):
    assert problems(tmp_path) == []
    report = check_data(load(tmp_path / "p.yaml"))
    assert (report.rows, report.seen, report.has_errors) == (ROWS, ROWS, False)
    assert "nothing to report" in findings_table(report)


def test_cells_are_judged_by_the_missing_tokens_of_the_source(tmp_path):
    ages = replaced(np.arange(ROWS).astype(str), "-5", 0.02)
    ages[-10:] = ["-5.0", "1e99", "old", "", "nan", "NA", "7.0", "8", "9", "10"]
    declared = "  source: {format: csv, path: data.csv, missing: [%s]}\n"
    for missing, share in (('""', "0.30%"), ('"", NA, "-5"', "0.20%"), ('"", NA', "0.20%"), ("NA", "0.30%")):
        write(tmp_path / "data.csv", {**columns(), "age": ages})
        found = of(tmp_path, declared % missing, "{age: number, city: category}")
        [message] = [message for _, path, message in found if path == "features.age" and "no number" in message]
        assert f"{share} of cells" in message


def case(changes, severity, path, message, **options):
    """Returns columns to replace, other arguments of `problems`, and what is found."""
    return changes, options, (severity, path, message)


CASES = {
    "numbers above the budget": case({"age": replaced(columns()["age"], "?", 0.05)},
        "error", "features.age", '5.00% of cells are no number, such as "?"'),
    "numbers within the budget": case({"age": replaced(columns()["age"], "forty", 0.001)},
        "warning", "features.age", '0.10% of cells are no number, such as "forty"'),
    "a word that means missing": case({"city": replaced(columns()["city"], "?", 0.05)},
        "warning", "features.city", 'holds "?" in 5.0% of its rows'),
    "constant": case({"city": ["Oslo"] * ROWS}, "warning", "features.city", 'is "Oslo" in every row'),
    "empty": case({"city": [""] * ROWS}, "warning", "features.city", "no value in any sampled row"),
    "nearly unique": case({"city": [f"id {i}" for i in range(ROWS)]},
        "warning", "features.city", "1,000 values in 1,000 rows: nearly all different"),
    "far above top_k": case({"city": [f"c{i % 100}" for i in range(ROWS)]},
        "warning", "features.city.vocabulary.top_k", "90% of rows get no id",
        features="{city: {type: category, vocabulary: {top_k: 10}}}"),
    "none of the tokens": case({},
        "error", "features.city.vocabulary.tokens", "100.0% of values of city are none of the tokens",
        features="{city: {type: category, vocabulary: {tokens: [Paris]}}}"),
    "outside of identity": case({"age": np.arange(ROWS) % 10},
        "warning", "features.age.identity", '20.0% of values of age are not whole numbers 0 .. 7, such as "8", "9"',
        features="{age: {type: category, identity: {size: 8}}}"),
    "a number that the graph does not read as an id": case({"age": ["1e0", *["1"] * 49] * (ROWS // 50)},
        "warning", "features.age.identity", '2.0% of values of age are not whole numbers 0 .. 7, such as "1e0"',
        features="{age: {type: category, identity: {size: 8}}}"),
    "neither true nor false": case({"member": replaced(columns()["member"], "perhaps", 0.05)},
        "warning", "features.member", 'neither true nor false, such as "perhaps"'),
    "never true nor false": case({"member": ["a", "b"] * (ROWS // 2)},
        "error", "features.member", "100.0% of values are neither"),
    "dates in another format": case({"joined": [f"{d}/12/2023" for d in range(1, 26)] * 40},
        "error", "features.joined", 'do not fit the format iso, such as "1/12/2023", "10/12/2023"'),
    "some numbers are written otherwise": case({"age": [f"{i % 90}.5-" if i % 20 else "soon" for i in range(ROWS)]},
        "warning", "features.age", '5.0% of values are not written like 1234.5-, such as "soon"',
        features='{age: {type: number, format: "1234.5-"}, city: category}'),
    "another form of numbers fits": case({"age": [f"{i % 90 + 1}h {i % 60}m" for i in range(ROWS)]},
        "error", "features.age", "They fit 2h 10m",
        features='{age: {type: number, format: "1234.5-"}, city: category}'),
    "some dates do not fit": case({"joined": replaced(columns()["joined"], "soon", 0.05)},
        "warning", "features.joined", '5.0% of values do not fit the format iso, such as "soon"'),
    "seconds read as milliseconds": case({"joined": np.arange(ROWS) % 90 * 86_400 + 1_700_000_000},
        "warning", "features.joined", "epoch_millis. In epoch_seconds they are 2023-11-14 to 2024-02-11.",
        features="{age: number, joined: {type: date, format: epoch_millis}}"),
    "events in seconds read as milliseconds": case({"joined": np.arange(ROWS) % 90 * 86_400 + 1_700_000_000},
        "warning", "data.history.h.at", "all dates are in the first weeks of 1970, in the format epoch_millis",
        features="{n: number}", data="  derive: {n: past_count(h.at)}\n"
        "  history: {h: {entity: city, at: joined, format: epoch_millis, columns: [age]}}\n"),
    "duration in another format": case({"city": ["1.2.2023"] * (ROWS - 1) + ["2.2.2023"]},
        "error", "features.wait", "column city: 100.0% of values do not fit the format iso",
        features="{wait: {type: duration, start: joined, end: city}}"),
    "a column that is not there": case({},
        "error", "features.agee", "no column 'agee' in the data. Did you mean \"age\"?",
        features="{agee: number, city: category}"),
    "too many labels missing": case({"y": replaced(columns()["y"], "", 0.2)},
        "error", "label.max_missing", "20.2% of train rows have no usable label; max_missing allows 5.0%"),
    "some labels of no meaning": case({"y": replaced(columns()["y"], "maybe", 0.02)},
        "warning", "label.name", 'values such as "maybe" are no labels of task binary'),
    "labels that the task cannot read": case({"y": columns()["city"]},
        "error", "label.name", "no row has a label that task binary can read. Its values are"),
    "one label only": case({"y": [1] * ROWS},
        "error", "label.name", "every row has the same label, the positive class"),
    "positive never seen": case({"y": ["ham", "eggs"] * (ROWS // 2)},
        "error", "label.name", "the negative class. positive is 'spam'.",
        label="{name: y, task: binary, positive: spam}"),
    "a rare label": case({"y": replaced([0] * ROWS, 1, 0.005)},
        "warning", "label.name", "the positive class occurs in 0.50% of rows"),
    "a rare class": case({"y": replaced(columns()["city"], "Mars", 0.003)},
        "warning", "label.name", '1 classes occur in fewer than 10 rows, such as "Mars"',
        label="{name: y, task: multiclass}"),
    "outliers of the label": case({"y": replaced(columns()["age"], 1e7, 0.0011)},
        "warning", "label.name", "y reaches 1e+07", label="{name: y, task: regression}"),
    "a leak": case({"age": columns()["y"] * 3.5 + 1}, "warning", "features.age", "alone predicts the label: AUC 1.00"),
    "weights": case({"age": replaced(columns()["age"], "-1", 0.5)},
        "warning", "label.weight", "50.0% of rows weigh 0", features="{city: category}",
        label="{name: y, task: binary, weight: age}"),
    "rows of another width": case({},
        "error", "data.bad_rows", "50 of 1,050 rows (4.76%) cannot be read: 2 cells, expected 5; for example '1,2'",
        extra=[["1", "2"]] * 50),
    "duplicates that stay together": case({},
        "warning", "data.split", "99 of 1,100 rows (9.0%) repeat an earlier row",
        extra=[["1", "Oslo", "yes", "2023-01-01", "1"]] * 100),
    "duplicates that chance parts": case({},
        "warning", "data.split", "They can fall into both train and eval",
        extra=[["1", "Oslo", "yes", "2023-01-01", "1"]] * 100, data="  split: {method: random}\n"),
    "a split that gets nothing": case({},
        "error", "data.split", "no row falls into split eval",
        data="  split: {method: time, column: joined, until: {train: '2030-01-01'}}\n"),
    "rows that fit no split": case({},
        "error", "data.split", "of rows fit no split by city; commonest values",
        data="  split: {method: column, column: city, values: {train: Oslo, eval: Rome}}\n"),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("changes", "options", "expected"), CASES.values(), ids=CASES.keys())
def test_each_kind_of_bad_data_is_found(tmp_path, changes, options, expected):
    severity, path, message = expected
    found = problems(tmp_path, changes, **options)
    assert [(s, p) for s, p, m in found if message in m] == [(severity, path)], found
    assert all(s == "warning" for s, _, m in found if message not in m), found


def test_derived_columns_are_looked_at(tmp_path):
    derive = "  derive: {z: 'y > 0.5', double: 'age * 0'}\n"
    label = "{name: z, task: binary}"
    found = problems(tmp_path, features="{double: number, age: number}", label=label, data=derive)
    assert [(s, p) for s, p, _ in found] == [("warning", "features.double")]
    found = problems(tmp_path, {"y": [0] * ROWS}, label=label, data=derive)
    assert [(s, p) for s, p, _ in found] == [("error", "label.name")]


@pytest.mark.parametrize(("unit", "format", "step"), [(1, "epoch_seconds", 128), (1000, "epoch_millis", 131)])
def test_differences_of_times_since_1970_are_named(tmp_path, unit, format, step):
    """NumPy: float32 numbers near 1.7e9 are 128 apart, and those near 1.7e12 131,072."""
    began = [unit * (1_700_000_000 + 60 * n) for n in range(ROWS)]
    times = {"start_time": began, "end_time": [one + 45 * unit for one in began]}
    derive = "  derive: {took: end_time - start_time, late: start_time > 5}\n"
    found = problems(tmp_path, times, features="{age: number, took: number, late: boolean}", data=derive)
    told = [(severity, path, message) for severity, path, message in found if "float32" in message]
    assert [(severity, path) for severity, path, _ in told] == [("warning", "data.derive.took")] * 2, found
    assert all(f"({format})" in message and f"to the nearest {step} s" in message for *_, message in told), told


def test_ids_that_are_read_as_numbers_are_named(tmp_path):
    ids = {"shop": [2**24 + n % 7 for n in range(ROWS)], "small": [n % 7 for n in range(ROWS)]}
    history = "{past: {entity: city, at: joined, columns: [shop, small]}}"
    data = f"  history: {history}\n  derive: {{n: past_distinct(past.LIST)}}\n"
    features = "{age: number, n: number, of_id: {type: category, column: shop}, LIST: number}"
    for name, paths in (("shop", {"features.of_id", "data.derive.n"}), ("small", set())):
        found = problems(tmp_path, ids, features=features.replace("LIST", name), data=data.replace("LIST", name))
        told = {path: message for _, path, message in found if "float32" in message}
        assert told.keys() == paths, found
        assert all('such as "16777217"' in message for message in told.values())


def test_numbers_that_differ_beyond_float32_are_named(tmp_path):
    """NumPy: float32 numbers near 2**63 are 2**40 apart, near 2**24 1 or 2, and near 1.7e9 128."""
    numbers = {
        "u": [2**63 + 3 * n for n in range(ROWS)],
        "opened": [1_700_000_000.5 + n for n in range(ROWS)],
        "price": [10 + n / 7 for n in range(ROWS)],
        "amount": [1e9 + 997 * n for n in range(ROWS)],
    }
    found = problems(tmp_path, numbers, features="{u: number, opened: number, price: number, amount: number}")
    told = {path: message for _, path, message in found if "float32" in message}
    assert told.keys() == {"features.u", "features.opened"}, found
    assert f"{ROWS:,} different numbers in the sampled rows, which are 1 as float32" in told["features.u"]
    ids = {"u": [2**63 + 3 * (n % 9) for n in range(ROWS)]}
    found = problems(tmp_path, ids, features="{u: number, of_id: {type: category, column: u}}")
    [message] = [message for _, _, message in found if "float32" in message]
    assert "of_id reads u as a category" in message and '"9223372036854775811"' in message


def test_numbers_that_are_codes_and_words_that_are_numbers_are_named(tmp_path):
    values = {
        "version": [("1.9", "1.10", "1.1", "2", "2.0")[n % 5] for n in range(ROWS)],
        "mass": [f"{n % 50} kg" if n % 3 else f"{n % 50} g" for n in range(ROWS)],
        "price": [f"{n % 50} kg" for n in range(ROWS)],
    }
    features = "{age: number, version: VERSION, mass: category, price: category}"
    for version, paths in (("number", ["features.mass", "features.version"]), ("category", ["features.mass"])):
        found = problems(tmp_path, values, features=features.replace("VERSION", version))
        assert [path for _, path, _ in found] == paths, found
        assert found[0][0] == "warning" and "holds numbers in several units (kg, g); write" in found[0][2]
        for severity, _, message in found[1:]:
            assert severity == "warning" and "40.0% of its values" in message and '"1.1", "1.10"' in message


def test_dates_of_events_are_judged_as_the_run_reads_them(tmp_path):
    data = "  history: {past: {entity: city, at: when}}\n  derive: {n: past_count(past.at)}\n"
    days = np.array(columns()["joined"], dtype=object)
    for value, severity, message in (
        ("soon", "error", 'column when: 10.00% of dates do not fit the format iso, such as "soon". The run allows'),
        ("2023-01-01T05:00+02:00", "warning", "column when: 10.0% of dates have an offset, such as"),
    ):
        whens = {"when": replaced(days, value, 0.1)}
        (found,) = [p for p in problems(tmp_path, whens, features="{n: number}", data=data) if "when" in p[2]]
        assert found[:2] == (severity, "data.history.past.at") and message in found[2]


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


def test_empty_text_is_missing_as_in_the_transform_graph(tmp_path):
    table = columns()
    table["y"] = replaced(table["y"].astype(str), "", 0.2).tolist()
    table["city"] = replaced(table["city"], "", 0.2).tolist()
    found = of_table(tmp_path, table)
    assert [(s, p) for s, p, _ in found] == [("error", "label.max_missing")], found


def test_a_column_that_one_file_lacks_is_found(tmp_path):
    whole = columns()
    write(tmp_path / "1.csv", whole)
    write(tmp_path / "2.csv", {"years" if name == "age" else name: values for name, values in whole.items()})
    found = [p for p in of(tmp_path, "  source: {format: csv, path: '*.csv'}\n") if p[1] != "data.split"]
    assert [(s, p) for s, p, _ in found] == [("error", "features.age")]
    assert "2.csv has no column 'age'" in found[0][2]


def test_vectors_of_another_width_are_found(tmp_path):
    lists = [[1.0, 2.0]] * 990 + [[1.0]] * 10
    columns = {"v": lists, "n": range(1000), "y": [0, 1] * 500}
    found = of_table(tmp_path, columns, "{v: {type: vector, width: 2}, n: {type: vector, width: 2}}")
    told = {(s, p, m.partition(". The")[0]) for s, p, m in found if p.startswith("features")}
    assert ("error", "features.v", "column v: not 2 numbers long, in 1.00% of rows") in told
    assert ("error", "features.n", "column n: not a list of numbers, in 100.00% of rows") in told


@pytest.mark.integration
def test_lists_that_do_not_fit_are_found(tmp_path):
    tags = [[f"tag {i % 7}", "a"] for i in range(990)] + [["x"]] * 10
    columns = {
        "tags": tags,
        "scores": [[1.0, 2.0]] * 1000,
        "texts": [["1", "x"]] * 20 + [["2"]] * 980,
        "y": [0, 1] * 500,
    }

    def told(features):
        return [found for found in of_table(tmp_path, columns, features) if found[1].startswith("features")]

    assert not told("{tags: {type: category, list: true}, scores: {type: number, list: true}}")
    for name, form, words in (
        (
            "tags",
            "category",
            "several values, expected one (a feature reads lists with `list: true`, a label text with `separator`), "
            "in 99.00%",
        ),
        (
            "tags",
            "{type: category, list: {weights: scores}}",
            "scores and tags: lists of different lengths in one row, in 1.00%",
        ),
        ("texts", "{type: number, list: true}", "in a list: not a number, in 2.00%"),
    ):
        [(severity, path, message)] = told(f"{{{name}: {form}}}")
        assert (severity, path) == ("error", f"features.{name}") and f"{words} of rows" in message


@pytest.mark.integration
def test_unequal_lists_of_a_sequence_are_found(tmp_path):
    visits = [[{"item": "a", "price": [1.0]}] * (i % 3) for i in range(1000)]
    visits[1] = [{"item": "a", "price": [1.0, 2.0]}]
    prices = [[1.0] * (2 - i % 2) for i in range(1000)]
    columns = {"visits": visits, "item": [["a"] * 2] * 1000, "price": prices, "y": [0, 1] * 500}

    def told(sequence):
        found = of_table(tmp_path, columns, f"{{}}\nsequences: {{h: {sequence}}}")
        return [(s, p, m) for s, p, m in found if p.startswith("sequences")]

    [(severity, path, message)] = told("{within: visits, columns: {item: category, price: number}}")
    assert severity == "warning" and "visits.price: a list of lists, in 0.10% of rows" in message
    [(severity, path, message)] = told("{columns: {item: category, price: number}}")
    assert (severity, path) == ("error", "sequences.h.columns.item")
    assert "item and price: lists of different lengths in one row, in 50.00% of rows" in message


def test_the_table_and_the_exit_code_show_errors(tmp_path):
    problems(tmp_path, {"age": ["?"] * ROWS})
    result = CliRunner().invoke(app, ["check", str(tmp_path / "p.yaml"), "--data"])
    assert result.exit_code == 2
    lines = result.output.splitlines()
    row = next(line for line in lines if line.startswith("error"))
    assert row.split()[:3] == ["error", "5", "features.age"]
    assert lines[-1].startswith("1,000 of 1,000 rows looked at: 1 error, ")
    assert all(len(line) <= 120 for line in lines)
    write(tmp_path / "data.csv", columns())
    assert CliRunner().invoke(app, ["check", str(tmp_path / "p.yaml"), "--data"]).exit_code == 0


@pytest.mark.parametrize("nothing", ["", "\n\n", "age,city,member,joined,y\n"])
def test_a_day_without_rows_is_no_problem_of_the_window(tmp_path, nothing):
    write(tmp_path / "2024-01-02.csv", columns())
    for day in ("01", "03"):
        (tmp_path / f"2024-01-{day}.csv").write_text(nothing)
    data = '  source: {format: csv, path: "{YYYY}-{MM}-{DD}.csv"}\n  window: {spans: %d}\n'
    assert of(tmp_path, data % 3) == []
    ((severity, path, message),) = of(tmp_path, data % 1)
    assert (severity, path) == ("error", "data.source.path") and message.startswith("no row ")


KINDS = {
    "bool": pa.array([True, False] * 20),
    "int8": pa.array([1, 2] * 20, pa.int8()),
    "uint64": pa.array([1, 2] * 20, pa.uint64()),
    "double": pa.array([1.5, 2.5] * 20),
    "decimal": pa.array([Decimal("1.50"), Decimal("2.25")] * 20),
    "time32": pa.array([datetime.time(1), datetime.time(2)] * 20, pa.time32("s")),
    "time64": pa.array([datetime.time(1), datetime.time(2, 3, 4, 5)] * 20, pa.time64("us")),
    "duration": pa.array([1, 2] * 20, pa.duration("ms")),
    "timestamp": pa.array([1, 2] * 20, pa.timestamp("us")),
    "no timestamp": pa.nulls(40, pa.timestamp("us")),
    "timestamp with a zone": pa.array([1, 2] * 20, pa.timestamp("us", "UTC")),
    "date32": pa.array([1, 2] * 20, pa.date32()),
    "numeric text": pa.array(["1", "2.5"] * 20),
    "text": pa.array(["a", "b"] * 20),
    "bytes": pa.array([b"1", b"2"] * 20),
    "dictionary": pa.array(["1", "2"] * 20).dictionary_encode(),
    "null": pa.nulls(40),
    "struct": pa.array([{"a": 1}, {"a": 2}] * 20),
    "list of numbers": pa.array([[1.0], [2.0]] * 20),
    "list of bools": pa.array([[True], [False]] * 20),
}
READ_AS = {
    "number": "number",
    "category": "category",
    "numbers": "{type: number, list: true}",
    "tokens": "{type: category, list: true}",
    "weight": None,
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_on_a_type_is_that_of_the_run(tmp_path, kind):
    """The run's conversion refuses the type or every row, or accepts all rows; the check says the same of each use."""
    columns = {**dict.fromkeys(READ_AS, KINDS[kind]), "z": list(range(40)), "y": [0, 1] * 20}
    features = ", ".join(f"{name}: {form}" for name, form in READ_AS.items() if form)
    label = "{name: y, task: binary, weight: weight}"
    found = of_table(tmp_path, columns, f"{{z: number, {features}}}", label)
    refused = {re.split("[ ':]+", message)[1] for severity, _, message in found if severity == "error"}
    runs = set()
    for name in READ_AS:
        kind_of_column = "string" if name in ("category", "tokens") else "number"
        raw = RawColumn(name, kind_of_column, many=name in ("numbers", "tokens"))
        stored = pq.read_table(tmp_path / "a.parquet").column(name).combine_chunks()
        with contextlib.suppress(UserError):
            if not convert(stored, raw, strip=False, missing=()).bad.any():
                runs.add(name)
    assert refused & {*READ_AS} == {*READ_AS} - runs, found


def test_booleans_and_identities_are_judged_as_the_graph_reads_them():
    import tensorflow as tf

    from fullpass.preprocessing.apply.category import _identity, boolean_ids
    from fullpass.preprocessing.expressions.tensor_ops import StringColumn

    feature = BooleanFeature(type="boolean", true=("Yes", "2.0"), false=("no", "0"))
    texts = ["YES", " yes ", "2", "2.00", "0.0", "02", "ja", "NO", "-0", "1e0", "7", "8", "-1", "+5", "007", "9" * 19]
    column = StringColumn(tf.constant(texts), tf.constant([True] * len(texts)))
    read = boolean_ids(column, feature.true, feature.false).numpy() > 0
    assert [feature.reads(text) for text in texts] == read.tolist()
    assert [Identity(size=8).has_id(text) for text in texts] == (_identity(tf.constant(texts), 8).numpy() > 1).tolist()


def test_joins_are_checked_with_the_sample(tmp_path):
    source = (
        "  source: {format: csv, path: data.csv}\n  joins: {towns: {source: {format: csv, path: t.csv}, on: city}}\n"
    )
    features = "{people: {type: number, column: towns.people}, age: number}"
    write(tmp_path / "data.csv", columns())
    (tmp_path / "t.csv").write_text("city,people\nOslo,5\nRome,many\n")
    bern = int((columns()["city"] == "Bern").sum())
    (join, number) = of(tmp_path, source, features)
    assert join[:2] == ("warning", "data.joins.towns")
    assert join[2].startswith(f"{bern} of 1,000 rows") and 'no match in towns, such as "Bern".' in join[2]
    assert number[:2] == ("error", "features.people") and '"many"' in number[2]
    (tmp_path / "t.csv").write_text("city,people\noslo,5\n")
    assert [found for found in of(tmp_path, source, features) if found[0] == "error"][0][1] == "data.joins.towns"


@pytest.mark.parametrize(("of_table", "delay", "told"), [("", "0s", 1), ("", "1d", 0), ("T06:00", "0s", 0)])
def test_a_table_of_days_that_is_known_at_midnight_is_named(tmp_path, of_table, delay, told):
    as_of = f"{{left: at, right: day, available_after: {delay}}}"
    data = f"  joins: {{rain: {{source: {{format: csv, path: t.csv}}, on: city, as_of: {as_of}}}}}\n"
    rows = [f"{city},2023-01-01{of_table},1" for city in ("Oslo", "Rome", "Bern")]
    (tmp_path / "t.csv").write_text("\n".join(["city,day,mm", *rows]) + "\n")
    at = {"at": [f"2023-01-02T{n % 24:02d}:00" for n in range(ROWS)]}
    found = problems(tmp_path, at, features="{mm: {type: number, column: rain.mm}, age: number}", data=data)
    assert sum("write available_after: 1d" in message for _, _, message in found) == told, found


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


def test_a_file_with_many_spans_is_looked_at_once_and_only_the_spans_of_the_window(tmp_path):
    days = [f"2023-01-{1 + n % 20:02d}" for n in range(ROWS)]
    span = "  span: {column: joined}\n  window: {spans: %s}\n"
    assert problems(tmp_path, {"joined": days}, features="{age: number}", data=span % 20) == []
    report = check_data(load(tmp_path / "p.yaml"))
    assert (report.rows, report.seen, report.of_rows) == (ROWS, ROWS, "1,000")
    # The first days have no age that is a number; the run reads the last five.
    ages = ["?" if day < "2023-01-16" else age for day, age in zip(days, columns()["age"], strict=True)]
    changes = {"joined": days, "age": ages}
    few = [p for _, p, _ in problems(tmp_path, changes, features="{age: number}", data=span % 5)]
    assert few == ["data.split"], "250 rows are few for a split"
    assert check_data(load(tmp_path / "p.yaml")).of_rows == "250"
    assert "features.age" in [p for _, p, _ in problems(tmp_path, changes, features="{age: number}", data=span % 9)]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_day_without_a_byte_is_no_error_as_in_the_run(tmp_path, ending):
    for day in (1, 2, 3):
        table = columns() if day != 2 else {}
        file = tmp_path / f"2024-01-0{day}.{ending}"
        if ending == "csv" and table:
            write(file, table)
        else:
            rows = zip(*(np.array(cells).tolist() for cells in table.values()), strict=True)
            file.write_text("".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows))
    data = f'  source: {{format: {ending}, path: "{{YYYY}}-{{MM}}-{{DD}}.{ending}"}}\n  window: {{spans: 3}}\n'
    found = of(tmp_path, data, "{age: number}")
    assert not [message for severity, _, message in found if severity == "error"], found
    report = check_data(load(tmp_path / "p.yaml"))
    assert report.rows == report.seen == 2 * ROWS
    [missing] = [m for s, _, m in of(tmp_path, data, "{age: number, agee: number}") if s == "error" and "agee" in m]
    assert "Did you mean" in missing and "age" in missing
