"""The sample of rows by row id."""

import numpy as np
import pytest

from fullpass.preprocessing.values import row_sample
from fullpass.preprocessing.values.row_sample import RowSample


def sample_of(ids, batch):
    found = RowSample()
    for part in np.array_split(ids, range(batch, len(ids), batch)):
        found = found.with_rows(part, [str(number).encode() for number in part])
    return found


def test_a_sample_does_not_depend_on_order_batches_or_parts():
    ids = np.arange(30_000) + 5 * 2**36
    whole = sample_of(ids, 8192)
    assert len(whole.records) == 2000 == len(set(whole.records))
    assert sample_of(ids[::-1], 700).records == whole.records
    parts = [sample_of(ids[first::3], 999) for first in range(3)]
    assert RowSample.merged(reversed(parts)).records == whole.records


@pytest.mark.parametrize("first", [2000, 400])
def test_every_part_of_the_rows_has_its_share_in_the_sample_and_in_its_beginning(first):
    numbers = np.array([int(record) for record in sample_of(np.arange(50_000), 8192).records[:first]])
    late = (numbers >= 39_000).mean()  # a class that a file sorted by date holds at its end: 22 % of the rows
    assert late == pytest.approx(0.22, abs=4 * np.sqrt(0.22 * 0.78 / first))
    even = np.arange(50_000) % 2 == 0  # a pattern that repeats
    assert even[numbers].mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / first))


def test_a_sample_is_bounded_by_bytes_in_any_order(monkeypatch):
    monkeypatch.setattr(row_sample, "_BYTES", 1000)
    ids = np.arange(500)
    one, other = (sample_of(order, 7) for order in (ids, ids[::-1]))
    assert one.records == other.records and 900 < sum(map(len, one.records)) <= 1000
    large = RowSample().with_rows(np.array([1]), [b"x" * 5000])
    assert len(large.records) == 1
