"""The disk cache: used only if it is complete and of the same data, and its errors never stop training."""

import gc
import os
import re
import resource
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base import state_file
from fullpass.trainer.input.cache.block_cache import CachePlan, find_cache
from fullpass.trainer.input.cache.row_store import CacheWriter
from fullpass.trainer.input.epochs import BatchOrder, batches_of, to_batch, windows_from_cache
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.records.blocks import layout_of
from tests import REPOSITORY, warm_process
from tests.record_files import example, write_records

pytestmark = pytest.mark.integration
ROWS = 10_000
KEY = {"files": [["a", 1, 2]], "transform graph": "g"}


def plan_in(folder: Path, **changes):
    return replace(CachePlan(folder, "train", KEY, pool_bytes=64 << 10), **changes)


def block_of(numbers):
    """Rows of a dense number, a vector, an id and two ragged features, all derived from the row number."""
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
        "label": tf.constant(numbers % 2, tf.float32),
        "example_weight": tf.ones(len(numbers)),
    }


@cache
def packed(first: int, rows: int = 1000):
    return layout_of(block_of(range(4))).pack(block_of(range(first, first + rows)))


def write(plan, rows=ROWS, piece=1000):
    with CacheWriter(plan, layout_of(block_of(range(4)))) as writer:
        for first in range(0, rows, piece):
            writer.add(dict(packed(first, piece)))
        return writer.finish({"rows": rows})


def epoch_of(cache, window_rows, **options):
    order = BatchOrder(**{"batch_size": 256, "seed": 3} | options)
    dataset = batches_of(windows_from_cache(cache, window_rows, order), cache.layout, to_batch, order)
    return list(dataset.take(-(-cache.about["rows"] // order.batch_size) - order.start))


def ids(batches) -> np.ndarray:
    return np.concatenate([features["row_id"] for features, _, _ in batches])


def test_rows_come_back_as_they_were(tmp_path):
    write(plan_in(tmp_path, scatter=False))
    cache, message = find_cache(plan_in(tmp_path, scatter=False))
    assert "10,000 rows found" in message and cache.about == {"rows": ROWS}
    read, wanted = cache.layout.unpack(cache.read()), block_of(range(ROWS))
    assert list(read) == list(wanted)
    for name in ("x", "v", "row_id", "name", "label"):
        np.testing.assert_array_equal(read[name], wanted[name])
    for name in ("tags", "tags.weight"):
        np.testing.assert_array_equal(read[name].to_tensor(-1), wanted[name].to_tensor(-1))


def test_unshuffled_batches_keep_the_order_of_the_rows(tmp_path):
    batches = epoch_of(write(plan_in(tmp_path, scatter=False)), 2500)
    assert ids(batches).tolist() == list(range(ROWS))
    features, _, _ = batches[3]
    for number, tags in zip(features["row_id"].numpy(), features["tags"].numpy(), strict=True):
        assert tags[: number % 4].tolist() == [10 * number + place for place in range(number % 4)]


def test_a_shuffled_epoch_has_every_row_once_and_may_begin_anywhere(tmp_path):
    cache = write(plan_in(tmp_path))
    whole = ids(epoch_of(cache, 2500, shuffle=2500, epoch=1))
    assert sorted(whole) == list(range(ROWS))
    assert ids(epoch_of(cache, 2500, shuffle=2500, epoch=2)).tolist() != whole.tolist()
    for start in (1, 20, 39):
        assert ids(epoch_of(cache, 2500, shuffle=2500, epoch=1, start=start)).tolist() == whole[start * 256 :].tolist()


def test_shards_are_disjoint_and_together_an_epoch(tmp_path):
    cache = write(plan_in(tmp_path))
    own = []
    for shard in range(3):
        batches = epoch_of(cache, 2500, shuffle=2500, shard=shard, shards=3)  # 40 batches in all
        own.append(ids(batches[: (40 + 2 - shard) // 3]))
    assert sorted(np.concatenate(own)) == list(range(ROWS))


def test_the_shuffle_is_near_a_full_one(tmp_path):
    """Adjacent rows end up a third of all rows apart on average, as in a full shuffle and unlike a window."""
    rows = 20_000
    cache = write(plan_in(tmp_path, pool_bytes=256 << 10), rows)
    place = np.argsort(ids(epoch_of(cache, 2000, shuffle=2000)))
    apart = np.abs(np.diff(place))
    full = np.abs(np.diff(np.random.default_rng(0).permutation(rows)))
    assert apart.mean() == pytest.approx(full.mean(), rel=0.05)
    assert np.percentile(apart, 10) == pytest.approx(np.percentile(full, 10), rel=0.25)
    # A shuffle window without scattered blocks would keep them within 2,000 rows of each other.
    assert (apart > 2000).mean() > 0.75


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda data: data[:-9], r"block-000001.bin is damaged: it has .* bytes"),
        (
            lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
            "block-000001.bin is damaged: its content is not what was written",
        ),
    ],
    ids=["truncated", "flipped"],
)
def test_a_damaged_block_is_found_and_the_cache_removed(tmp_path, damage, expected):
    folder = write(plan_in(tmp_path)).folder
    block = folder / "block-000001.bin"
    block.write_bytes(damage(block.read_bytes()))
    gc.collect()  # the writer's lock is released with its cache object
    cache, message = find_cache(plan_in(tmp_path))
    assert cache is None
    assert re.search(expected, message), message
    assert not folder.exists()


def test_a_foreign_folder_in_its_place_is_no_cache(tmp_path):
    plan = plan_in(tmp_path)
    plan.folder.mkdir(parents=True)
    state_file.write(plan.folder / "index.json", {"format": 1, "key": {"files": "others"}})
    cache, message = find_cache(plan)
    assert cache is None and "index.json belongs to another cache" in message


def test_a_miss_says_what_changed_and_the_stale_cache_goes_once_it_is_replaced(tmp_path):
    stale = write(plan_in(tmp_path)).folder
    changed = plan_in(tmp_path, key={**KEY, "transform graph": "h"})
    assert find_cache(changed) == (None, "the existing cache differs in transform graph")
    assert stale.exists()
    replaced = write(changed)
    assert not stale.exists() and replaced.folder.exists()


def test_a_cache_in_use_is_not_removed(tmp_path):
    used = write(plan_in(tmp_path))
    write(plan_in(tmp_path, key={**KEY, "transform graph": "h"}))
    assert sorted(ids(epoch_of(used, 2000))) == list(range(ROWS))


def test_an_interrupted_write_is_never_read_and_is_cleared_away(tmp_path):
    """A writer that is killed leaves a hidden folder, which the next writer removes."""
    script = (
        "import os, sys; sys.path.insert(0, os.getcwd())\n"
        "from pathlib import Path\n"
        "from tests.trainer.input.cache.test_block_cache import plan_in, block_of\n"
        "from fullpass.trainer.input.cache.row_store import CacheWriter\n"
        "from fullpass.trainer.records.blocks import layout_of\n"
        "layout = layout_of(block_of(range(4)))\n"
        f"writer = CacheWriter(plan_in(Path({str(tmp_path)!r})), layout)\n"
        "for _ in range(20): writer.add(layout.pack(block_of(range(1000))))\n"
        "os._exit(9)\n"
    )
    done = warm_process.run([sys.executable, "-c", script], timeout=600, cwd=REPOSITORY)
    assert done.returncode == 9
    (left,) = tmp_path.glob(".*.part")
    assert list(left.glob("block-*.bin"))
    cache, message = find_cache(plan_in(tmp_path))
    assert cache is None and message.startswith("no cache of split 'train'")
    write(plan_in(tmp_path))
    assert not left.exists()


def test_two_writers_do_not_clash(tmp_path):
    """The second writer finds the cache of the first, uses it, and leaves no files."""
    layout = layout_of(block_of(range(4)))
    with CacheWriter(plan_in(tmp_path), layout) as slow:
        slow.add(layout.pack(block_of(range(1000))))
        first = write(plan_in(tmp_path))
        second = slow.finish({})
    assert second.folder == first.folder and second.about == {"rows": ROWS}
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def split_in(folder: Path, plan, memory_limit=0, rows=3000):
    """Loads a split of 3,000 rows of TFRecords beside `folder`."""
    file = folder / "rows"
    if not file.exists():
        numbers = ({"x": float(n), "label": float(n % 2), "example_weight": 1.0} for n in range(rows))
        write_records(file, map(example, numbers))
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "label", "example_weight")}
    decode = lambda serialized: tf.io.parse_example(serialized, spec)  # noqa: E731
    parsing = RowSpec(decode, lambda block: block, "binary", 2)
    return load_split("train", (str(file),), parsing, ReadingPlan(memory_limit=memory_limit, cache=plan))


def rows_of(split) -> list[float]:
    batches = split.batches(BatchOrder(batch_size=128, shuffle=500, seed=1)).take(-(-split.counts.weighted_rows // 128))
    return sorted(np.concatenate([features["x"] for features, _, _ in batches]).tolist())


def test_what_does_not_fit_in_memory_goes_to_disk_and_is_found_again(tmp_path):
    plan = plan_in(tmp_path / "cache")
    first = split_in(tmp_path, plan, memory_limit=10_000)
    assert first.in_memory is None and first.storage_note.startswith("on disk: written to")
    second = split_in(tmp_path, plan, memory_limit=10_000)
    assert second.storage_note.startswith("on disk: 3,000 rows found")
    third = split_in(tmp_path, plan, memory_limit=10**9)
    assert third.in_memory is not None and third.storage_note.startswith("in memory, read from disk")
    for split in (first, second, third):
        assert rows_of(split) == list(range(3000))
        assert split.counts.class_rows.tolist() == [1500, 1500] and split.counts.rows == 3000


def test_a_folder_that_cannot_be_written_leaves_training_without_a_cache(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    split = split_in(tmp_path, plan_in(tmp_path / "cache"))
    assert (
        split.storage_note.startswith("streamed from the files, without a cache:")
        and "cannot be written" in split.storage_note
    )
    assert rows_of(split) == list(range(3000))


def test_a_disk_that_fills_up_leaves_training_without_a_cache(tmp_path):
    """A limit of 1,000 bytes per file for this process makes the write of a block fail as on a full disk."""
    plan = plan_in(tmp_path / "cache", pool_bytes=1 << 20)
    split_in(tmp_path, None)  # writes the TFRecords
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        split = split_in(tmp_path, plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written: File too large" in split.storage_note
    assert rows_of(split) == list(range(3000))
    assert not os.listdir(tmp_path / "cache")
