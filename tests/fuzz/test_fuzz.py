"""Damaged files cause no crash or hang, and every row is written or quarantined. `make fuzz` tries more files."""

import pytest

from tests.fuzz.attempts import attempts, target_names, try_seed
from tests.fuzz.targets import csv_rows

pytestmark = pytest.mark.integration

_OUTCOMES = {
    **dict.fromkeys(("padded_tables", "token_spellings", "weights", "written_numbers"), {"read"}),
    "portable_steps": {"equal"},
}
"""Targets that damage nothing -> an outcome that some of their attempts have."""


def test_the_second_reading_counts_the_rows_of_the_sample(tmp_path):
    trips = csv_rows.sample()
    assert csv_rows.rows_in(trips, ".csv") == 200
    outcome = csv_rows.read_csv(trips, ".csv", tmp_path, 1)
    assert (outcome.read, outcome.written, outcome.quarantined) == (200, 200, 0)
    assert {column.name for column in csv_rows.COLUMNS} <= set(trips.split(b"\n")[0].decode().split(","))


# Arrow tells `_read_as` of malformed rows as text, and drops the error of those that are not UTF-8 (csv_rows).
@pytest.mark.filterwarnings("ignore:.*function _Parser._read_as:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("target", target_names())
def test_damaged_files_of_fixed_seeds(target):
    kinds = [try_seed(target, seed) for seed in range(12)]
    assert _OUTCOMES.get(target, {"rows quarantined", "refused"}) & set(kinds), kinds


@pytest.mark.long
@pytest.mark.parametrize("target", target_names())
def test_a_thousand_damaged_files(target):
    assert [a for a in attempts(target, 1000, float("inf"), 1000) if a[2]] == []
