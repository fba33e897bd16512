"""Spoilt files: none crashes or hangs, and every row is written or kept aside. `make fuzz` tries a thousand."""

import pytest

from tests.components.ingest.corruptions import COLUMNS, ingested, rows_in, sample, try_one

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def trips():
    return sample()


def test_the_second_reading_counts_the_rows_of_the_sample(trips, tmp_path):
    assert rows_in(trips, ".csv") == 200
    outcome = ingested(trips, ".csv", tmp_path, 1)
    assert (outcome.read, outcome.written, outcome.quarantined) == (200, 200, 0)
    assert {column.name for column in COLUMNS} <= set(trips.split(b"\n")[0].decode().split(","))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_row_of_a_spoilt_file_is_accounted_for(trips, tmp_path_factory, first):
    outcomes = [try_one(trips, seed, tmp_path_factory.mktemp("spoilt")) for seed in range(first, first + 20)]
    assert sum(outcome.refused is None for outcome in outcomes) >= 10
    assert sum(outcome.quarantined for outcome in outcomes) > 0
