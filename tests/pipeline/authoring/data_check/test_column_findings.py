"""`check --data` of columns: cells, types and lists as the run reads them."""

import contextlib
import datetime
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.id_features import BooleanFeature
from fullpass.preprocessing.features.ids import Identity
from fullpass.preprocessing.values.convert import convert
from tests.pipeline.authoring.data_check.checked_table import ROWS, columns, of, of_table, problems, replaced
from tests.pipeline.authoring.tables import write_csv as write


def test_cells_are_judged_by_the_missing_tokens_of_the_source(tmp_path):
    ages = replaced(np.arange(ROWS).astype(str), "-5", 0.02)
    ages[-10:] = ["-5.0", "1e99", "old", "", "nan", "NA", "7.0", "8", "9", "10"]
    declared = "  source: {format: csv, path: data.csv, missing: [%s]}\n"
    for missing, share in (('""', "0.30%"), ('"", NA, "-5"', "0.20%"), ('"", NA', "0.20%"), ("NA", "0.30%")):
        write(tmp_path / "data.csv", {**columns(), "age": ages})
        found = of(tmp_path, declared % missing, "{age: number, city: category}")
        [message] = [message for _, path, message in found if path == "features.age" and "no number" in message]
        assert f"{share} of cells" in message


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


def test_empty_text_is_missing_as_in_the_transform_graph(tmp_path):
    table = columns()
    table["y"] = replaced(table["y"].astype(str), "", 0.2).tolist()
    table["city"] = replaced(table["city"], "", 0.2).tolist()
    found = of_table(tmp_path, table)
    assert [(s, p) for s, p, _ in found] == [("error", "label.max_missing")], found


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
