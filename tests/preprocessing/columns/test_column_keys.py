"""Names of columns as names of inputs."""

import pytest

from fullpass.preprocessing.columns.column_keys import column_keys


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        (["fare", "trip_miles"], ["fare", "trip_miles"]),
        (["fare", "trip miles", "1st", "Fare"], ["fare", "trip_miles", "column_1st", "Fare_2"]),
        (["trip miles", "trip_miles"], ["trip_miles_2", "trip_miles"]),
        (["größe", "it's.a", "x/y"], ["gr__e", "it_s_a", "x_y"]),
        (["self", "class", "_id", "__"], ["column_self", "column_class", "column__id", "column___"]),
        (["a b", "a.b", "a-b"], ["a_b", "a_b_2", "a_b_3"]),
        (["日本"], ["column___"]),
    ],
)
def test_keys_of_columns(columns, keys):
    assert column_keys(columns) == dict(zip(columns, keys, strict=True))
