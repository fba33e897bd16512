"""The table of representations: which columns suggest them, and what is written."""

import numpy as np

from fullpass.pipeline.authoring.init.search.representations import KINDS, SampledColumns, known_encodings
from tests.pipeline.authoring.tables import column_of

ROWS = 400


def proposed(**cells):
    """Returns kind -> name -> what each of its candidates writes."""
    columns = [column_of(name, values) for name, values in cells.items()]
    table = SampledColumns(columns, np.arange(ROWS), list(cells))
    return {kind.names[0]: {one.line.name: one.line.value for one in kind.propose(table)} for kind in KINDS}


def test_ids_and_whole_numbers_that_repeat_are_encoded(random):
    ids, noise = random.integers(1, 40, ROWS), random.normal(size=ROWS)
    found = proposed(plane=[f"N{i}" for i in ids], giver=random.integers(1, 60, ROWS), size=noise, serial=range(ROWS))
    category = {"type": "category", "vocabulary": {"min_count": 2, "oov_buckets": 4}, "column": "giver"}
    assert found["whole number as a category"] == {"giver_value": category}
    assert found["target mean"] == {
        "plane_mean": {"type": "target", "column": "plane", "smoothing": 5.0},
        "giver_mean": {"type": "target", "column": "giver", "smoothing": 5.0},
    }
    assert found["count"]["plane_count"] == {"type": "count", "column": "plane", "transforms": ["log1p"]}
    assert found["target mean of a pair"] == {}  # most pairs occur once or twice


def test_pairs_that_one_id_tells_are_no_pairs(random):
    ids, other = random.integers(0, 8, ROWS), random.integers(0, 6, ROWS)
    found = proposed(plane=[f"N{i}" for i in ids], code=[f"c{i * 7 % 8}" for i in ids], hour=[f"h{i}" for i in other])
    assert set(found["target mean"]) == {"plane_mean", "hour_mean"}  # plane and code are one to one
    assert set(found["target mean of a pair"]) == {"plane_hour_mean"}


def test_names_are_given_once(random):
    ids = random.integers(0, 5, (3, ROWS))
    cells = {name: [f"{name}{i}" for i in own] for name, own in zip(("a", "b", "a_b"), ids, strict=True)}
    found = proposed(**cells, a_mean=random.normal(size=ROWS), b_a_b=[f"x{i}" for i in ids[0] ^ ids[1]])
    names = [name for of_kind in found.values() for name in of_kind]
    assert len(names) == len(set(names)) and "a_mean_2" in names


def test_dates_without_a_trend_may_have_the_time_itself(random):
    days = np.datetime64("2024-01-01") + random.integers(0, 90, ROWS).astype("timedelta64[D]")
    found = proposed(sold_on=days.astype(str), x=random.normal(size=ROWS))
    assert found["time itself"] == {"sold_on_time": {"type": "date", "column": "sold_on", "parts": ["epoch"]}}


def test_rare_values_of_a_category_share_a_code():
    column = column_of("zone", ["a"] * 6 + ["b"] * 5 + ["c", "d", None])
    (encoding,) = known_encodings(column, np.arange(14))
    assert encoding.kind == "category"
    assert encoding.values.tolist() == [2.0] * 6 + [3.0] * 5 + [0.0, 0.0, 1.0]
