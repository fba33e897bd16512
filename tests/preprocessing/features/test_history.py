"""The section data.history: what it accepts, and which columns its lists are."""

import pytest
from pydantic import ValidationError

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import raw_columns, serving_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.history import History

TRIPS = {"entity": "who", "at": "when", "columns": ["fare", "shop"]}


def config(features, derive=None, history=TRIPS, **more):
    return PreprocessingConfig.model_validate({
        "features": features, "derive": derive or {}, "history": {"trips": history},
        "label": {"name": "y", "task": "binary"}, **more,
    })  # fmt: skip


def test_lists_have_the_type_of_the_column_of_their_events():
    derive = {"last": "past_last(trips.shop)", "dear": "past_mean(trips.fare)"}
    raw = raw_columns(config({"shop": "category", "last": "category", "dear": "number"}, derive))
    lists = {name: (c.type, c.token, c.many, c.group) for name, c in raw.items() if c.many}
    group = "data.history.trips"
    assert lists == {
        "trips.at": ("number", False, True, group),
        "trips.fare": ("number", False, True, group),
        "trips.shop": ("string", True, True, group),
    }


def test_a_column_that_nothing_else_reads_has_its_declared_type():
    derive = {"shops": "past_distinct(trips.shop)"}
    assert raw_columns(config({"shops": "number"}, derive))["trips.shop"].type == "number"
    assert raw_columns(config({"shops": "number"}, derive, types={"shop": "string"}))["trips.shop"].type == "string"


def test_a_list_whose_elements_are_counted_and_the_column_of_its_events_hold_tokens():
    features, types = {"shops": "number", "same": "number"}, {"shop": "string", "fare": "string"}
    derive = {"shops": "past_distinct(trips.shop)", "same": "past_last(trips.fare) == fare"}
    raw = raw_columns(config(features, {**derive, "word": "upper(shop)"}, types=types))
    assert {name for name, column in raw.items() if column.token} == {"trips.shop", "shop", "y"}
    fares = {"type": "category", "column": "trips.fare", "list": True}
    raw = raw_columns(config({**features, "fares": fares}, derive, types=types))
    assert {name for name, column in raw.items() if column.token} == {"trips.shop", "trips.fare", "fare", "y"}


def test_a_request_contains_the_ages_of_every_list():
    derive = {"dear": "past_mean(trips.fare)", "count": "past_count(trips.at)"}
    assert set(serving_columns(config({"dear": "number"}, derive))) == {"trips.at", "trips.fare"}
    sequences = {"recent": {"within": "trips", "columns": {"shop": "category"}}}
    assert set(serving_columns(config({}, sequences=sequences))) == {"trips.at", "trips.shop"}


def test_a_list_that_is_read_as_numbers_and_as_categories_is_named():
    derive = {"dear": "past_mean(trips.fare)"}
    sequences = {"recent": {"within": "trips", "columns": {"fare": {"type": "date"}}}}
    with pytest.raises(UserError, match=r"column 'trips\.fare' cannot be a number and a string at once"):
        raw_columns(config({"dear": "number"}, derive, sequences=sequences))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": ["at"]}, "at is the age of an event, which every history has"),
        ({"columns": ["fare", "fare"]}, "every column must be listed only once"),
        ({"within": "1d", "available_after": "24h"}, "within: 1d is not longer than available_after: 24h"),
        ({"within": "a week"}, "String should match pattern"),
        ({"max_length": 70_000}, "less than or equal to 65536"),
    ],
)
def test_errors_say_what_is_wrong(changes, message):
    with pytest.raises(ValidationError) as caught:
        History.model_validate({**TRIPS, **changes})
    assert message in str(caught.value)


@pytest.mark.integration
def test_lists_become_features_and_a_request_may_send_more_events(assert_transform):
    hour = 3600.0
    rows = {
        "trips.at": [[3 * hour, 2 * hour, hour], None, [hour]],
        "trips.fare": [[1.0, 2.0, 6.0], None, [4.0]],
        "trips.shop": [["a", "b", "a"], None, ["b"]],
        "shop": ["a", "b", "a"],
    }
    # One event too old, one from the future, and one more than max_length: none of them counts.
    sent = {
        "trips.at": [[50 * hour, 4 * hour, 3 * hour, 2 * hour, hour, 0.0, -hour], None, [hour]],
        "trips.fare": [[90.0, 90.0, 1.0, 2.0, 6.0, 90.0, 90.0], None, [4.0]],
        "trips.shop": [["z", "z", "a", "b", "a", "z", "z"], None, ["b"]],
        "shop": ["a", "b", "a"],
    }
    derive = {
        "bought": "past_count(trips.at)",
        "dear": 'past_mean(trips.fare, "2h")',
        "last": "past_last(trips.shop)",
    }
    raw = {"transforms": [], "missing": -1}
    assert_transform(
        {"shop": "category", "bought": {"type": "number", **raw}, "dear": {"type": "number", **raw},
         "last": {"type": "category", "vocabulary": {"shared_with": "shop"}}},
        derive=derive,
        history={"trips": {**TRIPS, "within": "5h", "max_length": 3}},
        sequences={"recent": {"within": "trips", "columns": {"shop": {"type": "category",
                   "vocabulary": {"tokens": ["a", "b", "z"]}}}, "max_length": 5}},
        analyze=rows,
        apply=sent,
        expected={"bought_xf": [3, 0, 1], "dear_xf": [4, -1, 4], "last_xf": [2, 0, 3],
                  "recent.shop_xf": [[2, 3, 2], [], [3]]},
    )  # fmt: skip
