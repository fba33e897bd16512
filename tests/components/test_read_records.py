"""Records come in batches that are bounded by rows and by bytes."""

import pickle

import pytest

from fullpass.base import progress
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


def test_the_copies_of_the_workers_report_their_sum(tmp_path, monkeypatch):
    """Otherwise the counts of two workers alternate, and the time that is left is that of one of them.

    The second pass over the rows counts from 0.
    """
    monkeypatch.setenv(progress.PROGRESS_FILE_VARIABLE, str(tmp_path / "node.progress"))
    monkeypatch.setattr(progress, "MIN_INTERVAL_SECONDS", 0.0)
    path = write_records(tmp_path / "five.tfrecord", [b"row"] * 5)
    reader, second = RecordReader("train analysed", 20), RecordReader("train analysed", 20)
    copies = [pickle.loads(pickle.dumps(reader)) for _ in range(2)]
    for copy, done in zip([*copies, copies[0], second], (5, 10, 15, 5), strict=True):
        assert len(list(copy.batches(path))) == 1
        assert progress.read(tmp_path / "node.progress").done == done


def test_a_worker_notes_its_count_no_more_often_than_it_is_shown_and_at_the_end(tmp_path, monkeypatch):
    """On a network file system, a file per batch takes longer than the batch."""
    monkeypatch.setenv(progress.PROGRESS_FILE_VARIABLE, str(tmp_path / "node.progress"))
    noted = []
    monkeypatch.setattr(progress, "write_atomically", lambda path, content: noted.append(content))
    path = write_records(tmp_path / "many.tfrecord", [b"row"] * 500)
    assert len(list(RecordReader("read", 500, batch_rows=1).batches(path))) == 500
    assert len(noted) < 50 and (noted[0], noted[-1]) == ("[1]", "[500]")
