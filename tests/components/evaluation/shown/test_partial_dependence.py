"""Curves of partial dependence on models whose outputs can be computed by hand."""

import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.shown.partial_dependence import (
    ColumnReaders,
    column_readers,
    measure_dependence,
    most_important,
)
from fullpass.components.evaluation.shown.shown_files import read_dependence
from fullpass.preprocessing.config import PreprocessingConfig

X = ColumnReaders("x", "number", ("x",))
KIND = ColumnReaders("kind", "value", ("kind",))
WHEN = ColumnReaders("when", "date", ("when",), ("%d.%m.%Y",))


def rows(count=500):
    random = np.random.default_rng(5)
    days = [f"{day:02}.{month:02}.2020".encode() for month in (1, 2, 3) for day in range(1, 29)]
    return {
        "x": np.float32(random.normal(size=count)),
        "y": np.float32(random.normal(size=count)),
        "kind": np.array([(b"a", b"b", b"b", b"")[i % 4] for i in range(count)], object),
        "when": np.array([days[i % len(days)] for i in range(count)], object),
    }


def linear(inputs):
    """The score 2 x + 5 y, plus 3 where kind is b."""
    return {"scores": 2 * inputs["x"] + 5 * inputs["y"] + 3 * (inputs["kind"] == b"b")}


def test_of_a_linear_model_it_is_the_line():
    found = measure_dependence(linear, rows(), [X, KIND])
    assert (found.rows, found.series, found.left_out) == (200, ("prediction",), {})
    x, kind = found.columns
    assert len(x.places) == 12 and np.isin(np.float32(x.places), rows()["x"]).all(), "values that rows have"
    assert np.diff(x.scores[0]) == pytest.approx(2 * np.diff(x.places), rel=1e-4)
    assert np.interp(0, x.places, x.scores[0]) == pytest.approx(found.means[0] - 2 * mean_x(), abs=1e-4)
    assert kind.values == ("b", "a") and kind.places == ()
    assert kind.scores[0][0] - kind.scores[0][1] == pytest.approx(3, abs=1e-5)


def test_words_of_an_order_are_shown_in_it():
    size = ColumnReaders("kind", "value", ("kind",), order=("s", "m", "l"))
    kinds = np.array([(b"l", b"l", b"l", b"s", b"?", b"m")[i % 6] for i in range(500)], object)
    (kind,) = measure_dependence(linear, {**rows(), "kind": kinds}, [size]).columns
    assert kind.values == ("s", "m", "l", "?")


def mean_x():
    """Returns the mean x of the sampled rows, from a model whose score is x."""
    found = measure_dependence(lambda inputs: {"scores": inputs["x"]}, rows(), [])
    return found.means[0]


@pytest.mark.parametrize("text, most_rows", [(b"short", 4 * 30), (b"long" * (1 << 20), 30)])
def test_rows_of_several_values_are_asked_together_unless_they_are_large(text, most_rows):
    known = {"x": np.float32([1, 2, 3, 4, 4] * 6), "note": np.full(30, text, object)}
    asked = []

    def answer(inputs):
        asked.append(len(inputs["x"]))
        assert len(inputs["note"]) == len(inputs["x"])
        return {"scores": inputs["x"]}

    (x,) = measure_dependence(answer, known, [X]).columns
    assert (x.places, x.scores[0]) == ((1, 2, 3, 4), (1, 2, 3, 4))
    assert max(asked) == most_rows


def test_columns_that_act_together_are_shown_as_on_average():
    """For the score x y with y of 1 and -3, the curve of x is x times their mean."""
    known = {"x": np.float32([1, 2, 3, 4]), "y": np.float32([1, -3, 1, -3])}
    (x,) = measure_dependence(lambda inputs: {"scores": inputs["x"] * inputs["y"]}, known, [X]).columns
    assert (x.places, x.scores[0]) == ((1, 2, 3, 4), (-1, -2, -3, -4))
    assert x.values == ("1", "2", "3", "4")


def test_dates_are_put_in_order_of_time_and_what_is_no_date_is_left_out():
    known = {"when": np.array([b"01.03.2020", b"15.02.2021", b"31.12.2019", b"", b"never"] * 3, object)}
    day = {b"01.03.2020": 0.2, b"15.02.2021": 0.4, b"31.12.2019": 0.1}

    def answer(inputs):
        return {"scores": np.array([day.get(value, 9.0) for value in inputs["when"]])}

    (when,) = measure_dependence(answer, known, [WHEN]).columns
    assert when.values == ("31.12.2019", "01.03.2020", "15.02.2021")
    assert np.diff(when.places).tolist() == [61, 351]
    assert when.scores[0] == pytest.approx((0.1, 0.2, 0.4))
    epochs = {"when": np.array([b"86400", b"0", b"5400"], object)}
    seconds = replace(WHEN, formats=("epoch_seconds",))
    (when,) = measure_dependence(lambda inputs: {"scores": np.zeros(len(inputs["when"]))}, epochs, [seconds]).columns
    assert when.values == ("1970-01-01T00:00:00", "1970-01-01T01:30:00", "1970-01-02T00:00:00")
    (many,) = measure_dependence(linear, rows(), [WHEN]).columns
    assert len(many.values) == 12 and list(many.places) == sorted(many.places)


def test_written_numbers_and_hours_are_in_order():
    price = ColumnReaders("price", "number", ("price",), ("$1,234.5",))
    known = {"price": np.array([b"$1,000.50", b"$9", b"$20", b"", b"free"] * 4, object)}
    (shown,) = measure_dependence(lambda inputs: {"scores": np.zeros(len(inputs["price"]))}, known, [price]).columns
    assert (shown.values, shown.places) == (("$9", "$20", "$1,000.50"), (9.0, 20.0, 1000.5))
    hours = np.array([str(hour).encode() for hour in range(24) for _ in range(24 - hour)], object)
    (shown,) = measure_dependence(
        lambda inputs: {"scores": np.zeros(len(inputs["kind"]))}, {"kind": hours}, [KIND]
    ).columns
    assert shown.values == tuple(map(str, range(24))) and shown.places == ()


def test_of_many_classes_the_five_with_the_highest_means_are_shown():
    names = np.array([[f"c{i}".encode() for i in range(7)]])
    shares = np.array([0.3, 0.02, 0.2, 0.01, 0.2, 0.17, 0.1])

    def answer(inputs):
        count = len(inputs["x"])
        return {"scores": np.tile(shares, (count, 1)), "classes": np.repeat(names, count, axis=0)}

    found = measure_dependence(answer, rows(), [X])
    assert found.series == ("c0", "c2", "c4", "c5", "c6")
    assert found.means == pytest.approx((0.3, 0.2, 0.2, 0.17, 0.1))
    assert np.array(found.columns[0].scores).shape == (5, 12)


def test_a_binary_model_is_shown_by_its_positive_class():
    def answer(inputs):
        count = len(inputs["x"])
        return {"scores": np.full(count, 0.5), "classes": np.array([[b"no", b"yes"]] * count)}

    found = measure_dependence(answer, {"x": np.float32([1, 2, 3, 4])}, [X])
    assert found.series == ("yes",)


def test_a_slow_model_is_asked_less_and_columns_without_time_are_named(monkeypatch):
    now = [0.0]

    def slow(inputs):
        now[0] += 0.002 * len(inputs["x"])
        return linear(inputs)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    found = measure_dependence(slow, rows(), [X, KIND], seconds=0.3)
    assert now[0] < 2
    assert (found.rows, [one.column for one in found.columns]) == (20, ["x"])
    assert found.left_out == {"kind": "the model is too slow to show more columns"}


def test_what_has_nothing_to_show_says_why():
    text = ColumnReaders("note", "value", ("note",), left_out="text")
    known = {
        "x": np.full(30, np.nan, np.float32),
        "kind": np.array([f"id {i}".encode() for i in range(30)], object),
        "note": np.array([b"words"] * 30, object),
    }
    found = measure_dependence(lambda inputs: {"scores": np.zeros(len(inputs["x"]))}, known, [X, KIND, text])
    assert found.columns == ()
    assert found.left_out == {"x": "it has one value or none", "kind": "its values do not repeat", "note": "text"}


CONFIG = PreprocessingConfig.model_validate(
    {
        "label": {"name": "y", "task": "regression"},
        "derive": {"ratio": "a / b"},
        "features": {
            "ratio": "number",
            "a": "number",
            "kind": "category",
            "note": "text",
            "price": {"type": "number", "format": "$1,234.5"},
            "risk": {"type": "ordinal", "order": ["low", "high"]},
            "risk_name": {"type": "category", "column": "risk"},
            "started": {"type": "date", "format": "epoch_days"},
            "tags": {"type": "category", "list": True},
        },
    }
)


def test_features_are_traced_to_the_raw_columns_that_they_are_made_from():
    readers = {one.name: one for one in column_readers(CONFIG)}
    assert readers["b"] == ColumnReaders("b", "number", ("ratio",))
    assert sorted(readers["a"].features) == ["a", "ratio"]
    assert readers["kind"].kind == "value"
    assert (readers["started"].kind, readers["started"].formats) == ("date", ("epoch_days",))
    assert (readers["price"].kind, readers["price"].formats) == ("number", ("$1,234.5",))
    assert (readers["risk"].kind, readers["risk"].order) == ("value", ("low", "high"))
    assert (readers["note"].left_out, readers["tags"].left_out) == ("text", "a list")
    importance = [
        {"feature": name, "importance": worth}
        for name, worth in (("ratio", 0.5), ("note", 0.4), ("a", 0.1), ("kind", -0.1))
    ]
    order = [one.name for one in most_important(list(readers.values()), importance, 10)]
    assert order == ["a", "b", "note", "kind"], "what was not measured is not shown"
    assert [one.name for one in most_important(list(readers.values()), importance, 1)] == ["a"]


def test_what_is_written_is_read(tmp_path):
    found = measure_dependence(linear, rows(), [X, KIND, WHEN])
    (tmp_path / "partial_dependence.json").write_text(to_json_text(asdict(found)))
    assert read_dependence(str(tmp_path)) == found
    assert read_dependence(str(tmp_path / "earlier")) is None
