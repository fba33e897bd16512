"""Pictures of explained predictions: the way from the base to the score, as computed by hand, and hostile text."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import vl_convert
from typer.testing import CliRunner

from fullpass.components.pages import vega
from fullpass.components.predict.explain import explain
from fullpass.components.predict.explanation import MOST_ROWS, Explanation, explained_rows
from fullpass.pipeline.cli import app
from tests.components.pages.test_vega import Elements

HOSTILE = "</script><img src=x onerror=alert(1)>"


def logistic(z):
    return 1 / (1 + np.exp(-z))


def linear(x, y):
    return logistic(np.nan_to_num(x) - 0.5 * np.nan_to_num(y) - 1)


def tree(x, y):
    return 0.2 + 0.6 * ((np.nan_to_num(x) > 1) & (np.nan_to_num(y) > 2))


def of_logarithms(x, y):
    return np.exp(1 + np.nan_to_num(x) * 0.5 + np.nan_to_num(y) * 0.25)


def explained(score, classes, x=2.0, y=4.0):
    """Returns the row as the predictions of a model with this score hold it."""
    inputs = {"x": np.array([x]), "y": np.array([y])}
    why = explain(lambda known: {"scores": score(known["x"], known["y"])}, inputs)
    value = float(score(inputs["x"], inputs["y"])[0])
    made = {"prediction": [classes[int(value > 0.5)] if classes else value]}
    made |= dict(zip([f"probability_{one}" for one in classes], ([1 - value], [value]), strict=False))
    made |= {"base": why.base, **{f"effect_{name}": effects for name, effects in why.effects.items()}}
    [row] = explained_rows([pa.table({**inputs, **made})], ["x", "y"], classes)
    return row


@pytest.mark.parametrize(
    ("score", "classes"),
    [(linear, ["no", "yes"]), (tree, ["no", "yes"]), (of_logarithms, [])],
    ids=["linear", "tree", "logarithm"],
)
def test_the_bars_lead_from_the_base_to_the_score_by_the_effects_computed_by_hand(score, classes):
    row = explained(score, classes)
    base, x, y, both = score(*np.array([[np.nan, np.nan], [2, np.nan], [np.nan, 4], [2, 4]]).T)
    by_hand = {"x": ((x - base) + (both - y)) / 2, "y": ((y - base) + (both - x)) / 2}
    assert {name: effect for name, _, effect in row.effects} == pytest.approx(by_hand)
    assert {name: float(effect) for name, _, effect in row.table[1]} == pytest.approx(by_hand, rel=1e-3)
    assert row.adds_up and row.score == pytest.approx(both) and row.base == pytest.approx(base)
    first, *steps, last = row.spec["data"]["values"]
    assert [step["effect"] for step in steps] == pytest.approx(sorted(by_hand.values(), key=abs, reverse=True))
    ends = [first["to"], *(step["to"] for step in steps)]
    assert [step["from"] for step in steps] == ends[:-1] and ends[-1] == pytest.approx(last["to"])
    assert row.score_name == ("probability of yes" if classes else "prediction")


def test_many_columns_share_a_bar_and_what_does_not_add_up_is_said():
    columns = [f"c{i}" for i in range(30)]
    effects = {f"effect_{name}": [0.01 * i] for i, name in enumerate(columns)}
    table = pa.table({"c1": [None], "prediction": [4.35], "base": [0.0], **effects})
    [row] = explained_rows([table], columns, [])
    values = row.spec["data"]["values"]
    assert len(values) == 13 and values[1]["what"] == "c29 = missing" and values[-2]["what"] == "20 others"
    assert row.adds_up
    [wrong] = explained_rows([table.set_column(1, "prediction", pa.array([4.4]))], columns, [])
    assert not wrong.adds_up
    assert "do not add up" in Explanation(None, (wrong,), 1).page and "do not" not in Explanation(None, (row,), 1).page


def test_effects_that_are_only_rounding_have_no_bar_of_their_own():
    table = pa.table({"a": ["x"], "b": [""], "c": [""], "d": [""], "prediction": [0.5], "base": [0.3]})
    for name, effect in (("a", 0.201), ("b", -0.001), ("c", -1.1e-8), ("d", 0.0)):
        table = table.append_column(f"effect_{name}", pa.array([effect]))
    [row] = explained_rows([table], ["a", "b", "c", "d"], [])
    steps = [(step["what"], step["told"]) for step in row.spec["data"]["values"][1:-1]]
    assert steps == [("a = x", "+0.201"), ("b = empty", "-0.001"), ("2 others", "0")]


def test_of_many_rows_the_first_with_a_prediction_are_shown_and_hostile_text_stays_text():
    rows = MOST_ROWS + 5
    table = pa.table(
        {
            HOSTILE: [HOSTILE] * rows,
            "prediction": [None, *["a"] * (rows - 1)],
            "probability_a": [None, *[0.5] * (rows - 1)],
            "probability_b": [None, *[0.3] * (rows - 1)],
            f"probability_{HOSTILE}": [None, *[0.2] * (rows - 1)],
            "base": [None, *[0.4] * (rows - 1)],
            f"effect_{HOSTILE}": [None, *[0.1] * (rows - 1)],
        }
    )
    found = explained_rows([table], [HOSTILE], ["a", "b", HOSTILE])
    shown = Explanation(table, tuple(found), rows)
    assert [row.number for row in found] == list(range(2, MOST_ROWS + 1))
    assert shown.title == f"{MOST_ROWS - 1} of {rows} predictions explained"
    assert shown["prediction"] is table["prediction"] or shown["prediction"].equals(table["prediction"])
    elements = Elements(shown.page)
    assert "img" not in elements.tags and len(elements.scripts) > len(found)
    vl_convert.vegalite_to_vega({**found[0].spec, "config": vega.THEME}, vl_version=vega.VEGA_LITE)


def test_a_page_needs_explanations(tmp_path: Path):
    refused = CliRunner().invoke(app, ["predict", str(tmp_path), "rows.csv", "--page", "why.html"])
    assert "add --explain" in str(refused.exception)
