"""Records come in batches that are bounded by rows and by bytes."""

import pytest

from fullpass.components.read_records import RecordReader
from tests.record_files import write_records


@pytest.mark.parametrize(
    ("rows", "size", "lengths"), [(3, 1000, [3, 2]), (9, 25, [2, 2, 1]), (9, 5, [1, 1, 1, 1, 1])], ids=str
)
def test_batches_are_as_long_as_both_limits_allow(tmp_path, rows, size, lengths):
    """Five records of ten bytes; one that is larger than the limit is a batch of its own."""
    path = write_records(tmp_path / "five.tfrecord", [bytes([number]) * 10 for number in range(5)])
    found = list(RecordReader("read", None, rows, size).batches(path))
    assert [len(batch) for batch in found] == lengths
    assert [record[0] for batch in found for record in batch] == [0, 1, 2, 3, 4]
    assert list(RecordReader("read", None).batches("")) == []
