"""`check --data`: one bad thing at a time, in data that is fine otherwise."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fullpass.pipeline.authoring.data_check.data_check import check_data, findings_table
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from tests.pipeline.authoring.data_check.checked_table import ROWS, columns, of, problems, replaced
from tests.pipeline.authoring.tables import write_csv as write


def test_good_data_has_no_findings(tmp_path):
    assert problems(tmp_path) == []
    report = check_data(load(tmp_path / "p.yaml"))
    assert (report.rows, report.sampled.sample.seen, report.has_errors) == (ROWS, ROWS, False)
    assert "nothing to report" in findings_table(report)


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
    "words outside of an order": case(
        {"city": replaced(replaced(["low", "high"] * (ROWS // 2), "Unknown", 0.2), "Low", 0.05)},
        "warning", "features.city.order", '5.0% of values of city are no words of the order, such as "Low"; they',
        features="{city: {type: ordinal, order: [low, high]}}"),
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
    "equals with several labels": case({}, "warning", "data.split",
        "37.5% have equals that differ in the label alone. A split by content parts them by label: split by",
        extra=[["1", "Oslo", "yes", "2023-01-01", str(i % 2)] for i in range(600)]),
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


def test_a_column_that_one_file_lacks_is_found(tmp_path):
    whole = columns()
    write(tmp_path / "1.csv", whole)
    write(tmp_path / "2.csv", {"years" if name == "age" else name: values for name, values in whole.items()})
    found = [p for p in of(tmp_path, "  source: {format: csv, path: '*.csv'}\n") if p[1] != "data.split"]
    assert [(s, p) for s, p, _ in found] == [("error", "features.age")]
    assert "2.csv has no column 'age'" in found[0][2]


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


def test_a_file_with_many_spans_is_looked_at_once_and_only_the_spans_of_the_window(tmp_path):
    days = [f"2023-01-{1 + n % 20:02d}" for n in range(ROWS)]
    span = "  span: {column: joined}\n  window: {spans: %s}\n"
    assert problems(tmp_path, {"joined": days}, features="{age: number}", data=span % 20) == []
    report = check_data(load(tmp_path / "p.yaml"))
    assert (report.rows, report.sampled.sample.seen, report.of_rows) == (ROWS, ROWS, "1,000")
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
    assert report.rows == report.sampled.sample.seen == 2 * ROWS
    [missing] = [m for s, _, m in of(tmp_path, data, "{age: number, agee: number}") if s == "error" and "agee" in m]
    assert "Did you mean" in missing and "age" in missing
