"""Rows on disk: the same batches as in memory, gone with their process, and no error of a disk stops a training."""

import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.cache.growing_rows import GrowingRows
from fullpass.trainer.input.cache.row_file import RowFile
from fullpass.trainer.input.epochs import BatchOrder, Places, batches_of, to_batch, windows_in_memory, windows_on_disk
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.records.blocks import join, layout_of
from tests import REPOSITORY
from tests.record_files import example, write_records

pytestmark = pytest.mark.integration
ROWS, BLOCK = 10_000, 30


def block_of(numbers):
    """Rows of a dense number, a vector, an id, text and two ragged features, all derived from the row number."""
    numbers = np.asarray(numbers, np.int64)
    lengths = numbers % 4
    values = np.concatenate([np.arange(length) + 10 * number for number, length in zip(numbers, lengths, strict=True)])
    return {
        "x": tf.constant(numbers, tf.float32),
        "v": tf.constant(np.stack([numbers, numbers + 0.5], 1), tf.float32),
        "row_id": tf.constant(numbers),
        "name": tf.constant([f"row {number}" * (number % 3) for number in numbers]),
        "tags": tf.RaggedTensor.from_row_lengths(tf.constant(values, tf.int64), lengths),
        "tags.weight": tf.RaggedTensor.from_row_lengths(tf.constant(values / 2, tf.float32), lengths),
        "words": tf.RaggedTensor.from_row_lengths(tf.strings.as_string(tf.constant(values, tf.int64)), lengths),
        "label": tf.constant(numbers % 2, tf.float32),
        "example_weight": tf.ones(len(numbers)),
    }


@cache
def layout():
    return layout_of(block_of(range(4)))


@cache
def packed(first: int, rows: int = 1000):
    return layout().pack(block_of(range(first, first + rows)))


def arrays(first: int, rows: int = 1000):
    return {key: value.numpy() for key, value in packed(first, rows).items()}


def write(folder: Path, rows: int = ROWS, piece: int = 1000, block_rows: int = BLOCK) -> RowFile:
    file = RowFile(folder, layout(), block_rows)
    for first in range(0, rows, piece):
        file.add(arrays(first, piece))
    file.finish()
    return file


def batches(kept, window_rows, rows=ROWS, block_rows=BLOCK, **options) -> list:
    """Returns the batches of an epoch of rows on disk, or of packed rows in memory."""
    order = BatchOrder(**{"batch_size": 256, "seed": 3} | options)
    windows = windows_on_disk if isinstance(kept, RowFile) else windows_in_memory
    places = Places(rows, block_rows, window_rows)
    dataset = batches_of(windows(kept, places, order), layout(), to_batch, order)
    steps = -(-rows // order.batch_size)
    return list(dataset.take(len(range(order.shard, steps, order.shards)) - order.start))


def ids(found) -> np.ndarray:
    return np.concatenate([features["row_id"] for features, _, _ in found])


@pytest.mark.parametrize(("piece", "block_rows"), [(1000, 30), (1000, 1), (100, 999), (1000, 1000), (500, 20_000)])
def test_rows_come_back_as_they_were(tmp_path, piece, block_rows):
    """Whatever the blocks, and the pieces in which rows come."""
    file = write(tmp_path, 2000, piece, block_rows)
    chosen = np.random.default_rng(0).permutation(-(-2000 // block_rows))
    numbers = np.concatenate([np.arange(2000)[b * block_rows : (b + 1) * block_rows] for b in chosen])
    places = np.random.default_rng(1).permutation(2000)[:1500]
    read, wanted = layout().unpack(file.read(chosen, places)), block_of(numbers[places])
    assert list(read) == list(wanted)
    for name in ("x", "v", "row_id", "name", "label"):
        np.testing.assert_array_equal(read[name], wanted[name])
    for name in ("tags", "tags.weight", "words"):
        assert read[name].to_list() == wanted[name].to_list()


@pytest.mark.parametrize(
    ("window_rows", "options"),
    [
        (2500, {}),
        (2500, {"shuffle": 2500}),
        (2500, {"shuffle": 2500, "epoch": 4, "start": 11}),
        (100, {"shuffle": 100}),
        (2500, {"shuffle": 2500, "shard": 2, "shards": 3, "start": 2}),
        (20_000, {"shuffle": 20_000, "epoch": 1}),
        (20_000, {"shuffle": 20_000, "shard": 1, "shards": 2}),
    ],
    ids=["in order", "shuffled", "from a step on", "less than a batch", "a shard", "all together", "shard of all"],
)
def test_the_batches_are_those_of_rows_in_memory(tmp_path, window_rows, options):
    memory = join([packed(first) for first in range(0, ROWS, 1000)])
    both = [batches(kept, window_rows, **options) for kept in (write(tmp_path), memory)]
    assert len(both[0]) == len(both[1])
    for left, right in zip(*both, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, left, right)


@pytest.mark.parametrize("piece", [1, 300, 100_000], ids=["row by row", "piece by piece", "at once"])
def test_rows_that_grow_in_memory_are_those_that_were_added(piece):
    """100,000 rows of 16 bytes and of 0 to 3 ids, text, and a feature without any values."""
    rows = GrowingRows()
    rows.add({"a": np.zeros((0, 2)), "none": np.zeros(0, np.int64), "text": np.array([], object)})
    numbers = np.arange(100_000 if piece > 1 else 200)
    for first in range(0, len(numbers), piece):
        part = numbers[first : first + piece]
        text = np.array([b"%d" % number for number in part], object)
        rows.add({"a": np.stack([part, part / 2], 1), "none": np.zeros(0, np.int64), "text": text})
    pieces = list(rows.pieces())
    assert [len(one["a"]) for one in pieces[:2]] == [0, len(numbers[:piece])]
    found = rows.tensors()
    del rows, pieces
    np.testing.assert_array_equal(found["a"], np.stack([numbers, numbers / 2], 1))
    assert found["none"].shape == (0,) and found["text"].numpy().tolist() == [b"%d" % number for number in numbers]


def test_unshuffled_batches_keep_the_order_of_the_rows(tmp_path):
    found = batches(write(tmp_path), 2500)
    assert ids(found).tolist() == list(range(ROWS))
    features, _, _ = found[3]
    for number, tags in zip(features["row_id"].numpy(), features["tags"].numpy(), strict=True):
        assert tags[: number % 4].tolist() == [10 * number + place for place in range(number % 4)]


def test_a_shuffled_epoch_has_every_row_once_and_may_begin_anywhere(tmp_path):
    file = write(tmp_path)
    whole = ids(batches(file, 2500, shuffle=2500, epoch=1))
    assert sorted(whole) == list(range(ROWS))
    assert ids(batches(file, 2500, shuffle=2500, epoch=2)).tolist() != whole.tolist()
    for start in (1, 9, 10, 20, 39):
        assert ids(batches(file, 2500, shuffle=2500, epoch=1, start=start)).tolist() == whole[start * 256 :].tolist()


def test_shards_are_disjoint_and_together_an_epoch(tmp_path):
    file = write(tmp_path)
    whole = ids(batches(file, 2500, shuffle=2500))
    cut = [whole[at : at + 256].tolist() for at in range(0, ROWS, 256)]
    for shard in range(3):
        own = batches(file, 2500, shuffle=2500, shard=shard, shards=3)
        assert [features["row_id"].numpy().tolist() for features, _, _ in own] == cut[shard::3]


def test_the_shuffle_is_near_a_full_one(tmp_path):
    """Every batch has rows from all parts of the data, and neighbors do not stay beside each other."""
    rows = 20_000
    numbers = ids(batches(write(tmp_path, rows), 2000, rows, shuffle=2000, batch_size=50))
    for batch in np.array_split(numbers, 80):
        # Of a full shuffle, the largest deviation among 4 * 80 shares is about 3 standard errors, 0.33 of the share.
        assert np.histogram(batch, 4, (0, rows))[0] == pytest.approx(len(batch) / 4, rel=0.4)
    beside = np.abs(np.diff(numbers))
    full = np.abs(np.diff(np.random.default_rng(0).permutation(rows)))
    assert beside.mean() == pytest.approx(full.mean(), rel=0.05)
    assert np.percentile(beside, 10) == pytest.approx(np.percentile(full, 10), rel=0.25)


def test_a_window_has_as_many_rows_of_each_part_of_sorted_data(tmp_path):
    """Of half the rows of one class before the other half, windows have half of each."""
    numbers = ids(batches(write(tmp_path), 2500, shuffle=2500))
    for window in np.split(numbers, [2304, 4864, 7424]):  # about a quarter each, of whole batches of 256
        # Neighboring windows share up to a batch of the last blocks.
        assert (window < ROWS / 2).mean() == pytest.approx(0.5, abs=0.06)


def split_in(folder: Path, cache, memory_limit=0, rows=3000):
    """Loads a split of 3,000 rows of TFRecords beside `folder`."""
    file = folder / "rows"
    if not file.exists():
        numbers = ({"x": float(n), "label": float(n % 2), "example_weight": 1.0} for n in range(rows))
        write_records(file, map(example, numbers))
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "label", "example_weight")}
    decode = lambda serialized: tf.io.parse_example(serialized, spec)  # noqa: E731
    parsing = RowSpec(decode, lambda block: block, "binary", 2)
    return load_split("train", (str(file),), parsing, ReadingPlan(memory_limit=memory_limit, cache=cache))


def rows_of(split) -> list[float]:
    order = BatchOrder(batch_size=128, shuffle=500, seed=1)
    found = split.batches(order).take(-(-split.counts.weighted_rows // 128))
    return np.concatenate([features["x"] for features, _, _ in found]).tolist()


def test_a_split_beyond_the_limit_is_on_disk_with_the_same_batches_and_sample(tmp_path):
    on_disk, in_memory = (split_in(tmp_path, tmp_path / "cache", limit) for limit in (10_000, 10**9))
    assert on_disk.in_memory is None and on_disk.storage_note == "on disk: 36,000 bytes, 10,000 allowed in memory"
    assert in_memory.on_disk is None and in_memory.storage_note.startswith("in memory: 36,000 bytes")
    assert sorted(rows_of(on_disk)) == list(range(3000))
    assert rows_of(on_disk) == rows_of(in_memory)
    samples = [split.sample(100, seed=2)[0]["x"] for split in (on_disk, in_memory)]
    np.testing.assert_array_equal(*samples)
    assert on_disk.counts.to_json() == in_memory.counts.to_json()


def test_files_of_two_trainings_at_the_same_time_are_apart_and_have_no_name(tmp_path):
    splits = [split_in(tmp_path, tmp_path / "cache") for _ in range(2)]
    assert os.listdir(tmp_path / "cache") == []
    for split in splits:
        assert sorted(rows_of(split)) == list(range(3000))


@pytest.mark.parametrize("moment", ["while it is written", "while it is read"])
def test_a_killed_training_leaves_nothing(tmp_path, moment):
    script = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "from tests.trainer.input.cache import test_row_file as rows\n"
        "file = rows.RowFile(Path(sys.argv[1]), rows.layout(), 30)\n"
        "for _ in range(20): file.add(rows.arrays(0))\n"
        "print('written', flush=True)\n"
        "for _ in itertools.count(): file.add(rows.arrays(0)) if 'written' in sys.argv[2] else file.read([1], [2])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), moment]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "written" in itertools.chain.from_iterable(line.split() for line in child.stdout.readline().splitlines())
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_leaves_training_without_a_cache(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    split = split_in(tmp_path, tmp_path / "cache")
    assert split.storage_note.startswith("streamed from the files, without a cache:")
    assert "cannot be written" in split.storage_note
    assert sorted(rows_of(split)) == list(range(3000))


@pytest.mark.parametrize("limit", [0, 100, 30_000], ids=["at once", "in the first block", "in the last"])
def test_a_disk_that_fills_up_leaves_training_without_a_cache(tmp_path, limit):
    """A limit of bytes per file for this process makes a write fail as on a full disk."""
    split_in(tmp_path, None)  # writes the TFRecords
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        split = split_in(tmp_path, tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written: File too large" in split.storage_note
    assert sorted(rows_of(split)) == list(range(3000))


def test_a_disk_is_not_filled_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    split = split_in(tmp_path, tmp_path / "cache")
    assert split.storage_note.endswith("has less than 1 GiB left")
    assert sorted(rows_of(split)) == list(range(3000))


def test_a_disk_that_fails_later_ends_the_training_with_its_name(tmp_path):
    file = write(tmp_path)
    os.truncate(file._file.fileno(), 1000)
    with pytest.raises(UserError, match=f"{tmp_path} is shorter than what was written"):
        file.read(np.array([0, 333]), np.array([0]))
