"""From TFRecord files to batches: every row once, in a reproducible order, in memory and streamed."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.epochs import BatchOrder, to_batch
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.records.blocks import join, layout_of, pack_weighted
from fullpass.trainer.records.record_files import list_files
from tests.record_files import write_records

pytestmark = pytest.mark.integration

NAMES = ["x_xf", "tags_xf", "note_xf", "note.weight_xf", "position_xf", "row_id"]


@pytest.fixture
def binary(planted):
    return planted("binary")


def decode(prepared, names=NAMES, kind="transformed", classes=0):
    place = {"transformed": "transform", "raw": "input"}[kind]
    return decoder(prepared.tft_output, prepared.placement(place), names, classes)


def all_rows(prepared, split="train", kind="transformed", **options):
    blocks = read_blocks(prepared.files(kind, split), decode(prepared, kind=kind, **options), readers=2)
    return join(list(blocks))


def row_ids(batches) -> list[int]:
    return np.concatenate([features["row_id"] for features, _, _ in batches]).tolist()


def epochs(dataset, count=1, steps=16) -> list[list[int]]:
    """Returns the rows of the first epochs of an infinite dataset, with `steps` batches each."""
    batches = list(dataset.take(count * steps))
    return [row_ids(batches[first : first + steps]) for first in range(0, count * steps, steps)]


def split_of(prepared, **options):
    files = tuple(prepared.files("transformed", "train"))
    rows = RowSpec(options.pop("decode", None) or decode(prepared), lambda block: block, "binary", 2)
    return load_split("train", files, rows, ReadingPlan(2, **options))


SHUFFLED = {"batch_size": 64, "shuffle": 1000, "seed": 5, "batches": 16}


class Way:
    """The planted train rows, loaded once. A call with the options of a BatchOrder returns batches."""

    def __init__(self, prepared, **plan):
        self._prepared, self._plan = prepared, plan
        self.split = split_of(prepared, **plan)

    def __call__(self, **order):
        return self.split.batches(BatchOrder(**order))

    @cached_property
    def four_epochs(self) -> list[int]:
        """Returns the rows of epochs 0 to 3 in the order of `SHUFFLED`."""
        return epochs(self(**SHUFFLED), 1, steps=64)[0]

    def loaded_again(self) -> "Way":
        return Way(self._prepared, **self._plan)


@pytest.fixture(scope="module")
def in_memory(planted):
    return Way(planted("binary"))


@pytest.fixture(scope="module")
def streamed(planted):
    return Way(planted("binary"), memory_limit=0)


@pytest.fixture(params=["in_memory", "streamed"])
def way(request):
    return request.getfixturevalue(request.param)


def test_no_files_is_an_error_that_names_the_pattern(tmp_path: Path):
    with pytest.raises(UserError, match="split 'train' has no files.*nowhere"):
        list_files([str(tmp_path / "nowhere*")], "train")


def test_plain_and_gzipped_files_are_read(binary):
    suffixes = {Path(file).suffix for file in binary.files("transformed", "train")}
    assert ".gz" in suffixes and len(suffixes) == 2
    rows = all_rows(binary)
    assert sorted(rows["row_id"].numpy()) == list(range(1000))


def test_values_are_those_of_the_rows(binary):
    rows = all_rows(binary)
    by_id = dict(zip(rows["row_id"].numpy().tolist(), range(1000), strict=True))
    for number in (0, 1, 501, 999):
        raw, place = binary.rows["train"][number], by_id[number]
        assert rows["x_xf"][place].numpy() == pytest.approx(raw["x"])
        tags = [("red", "green", "blue").index(tag) + 2 for tag in (raw["tags"] or "").split("|") if tag]
        assert rows["tags_xf"][place].numpy().tolist() == tags
        assert rows["position_xf"][place].numpy().tolist() == pytest.approx(raw["position"] or [0, 0])
        assert rows["label"][place].numpy() == (raw["likes"] == "yes")


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression"])
def test_raw_examples_through_the_graph_give_what_was_materialized(planted, task):
    classes = {"multilabel": 2}.get(task, 0)
    materialized = all_rows(planted(task), "eval", "transformed", classes=classes)
    applied = all_rows(planted(task), "eval", "raw", classes=classes)
    for name in (*NAMES, "label", "example_weight"):
        left, right = materialized[name], applied[name]
        if isinstance(left, tf.RaggedTensor):
            left, right = left.to_tensor(-1), right.to_tensor(-1)
        assert np.array_equal(left, right), name


def test_a_multilabel_label_of_ids_becomes_a_matrix(planted):
    rows = all_rows(planted("multilabel"), classes=2)
    by_id = dict(zip(rows["row_id"].numpy().tolist(), rows["label"].numpy().tolist(), strict=True))
    for number, raw in enumerate(planted("multilabel").rows["train"]):
        topics = raw["topics"].split("|")
        assert by_id[number] == [float("warm" in topics), float("far" in topics)]


def test_every_row_comes_once_per_epoch_and_the_last_batch_is_smaller(way):
    dataset = way(batch_size=300, shuffle=200, seed=1)
    assert [len(weight) for _, _, weight in dataset.take(8)] == [300, 300, 300, 100] * 2
    for rows in epochs(dataset, 2, steps=4):
        assert sorted(rows) == list(range(1000))


def test_the_order_is_new_in_every_epoch_and_the_same_for_the_same_seed(way):
    first, second = way.four_epochs[:1000], way.four_epochs[1000:2000]
    assert first != second
    assert epochs(way.loaded_again()(**SHUFFLED), 2) == [first, second]
    assert epochs(way(**SHUFFLED | {"seed": 6}), 1) != [first]


def test_without_a_shuffle_the_order_stays(way, binary):
    first, second = epochs(way(batch_size=64), 2)
    assert first == second == all_rows(binary)["row_id"].numpy().tolist()


@pytest.mark.parametrize(
    ("epoch", "start"),
    [(0, 9), (2, 15), (1, 16), *(pytest.param(*first, marks=pytest.mark.long) for first in ((0, 0), (2, 0)))],
)
def test_any_batch_of_any_epoch_may_be_the_first(way, epoch, start):
    rest = epochs(way(**SHUFFLED, epoch=epoch, start=start), 1, steps=64 - 16 * epoch - start)[0]
    assert rest == way.four_epochs[epoch * 1000 + min(start * 64, 1000) :]


def test_a_stream_with_rows_of_weight_0_may_begin_anywhere_too(binary):
    """The number of such rows before a batch is only known after parsing."""

    def some_of_weight_0(serialized):
        block = decode(binary)(serialized)
        return {**block, "example_weight": tf.cast(block["row_id"] % 3 > 0, tf.float32)}

    split = split_of(binary, decode=some_of_weight_0, memory_limit=0)
    steps = -(-split.counts.weighted_rows // 64)
    assert steps == 11  # 666 of 1,000 rows
    whole = list(split.batches(BatchOrder(batch_size=64, shuffle=200, seed=3)).take(steps))
    assert sorted(row_ids(whole)) == [number for number in range(1000) if number % 3]
    assert [len(weight) for _, _, weight in whole] == [64] * 10 + [26]
    rest = split.batches(BatchOrder(batch_size=64, shuffle=200, seed=3, start=7)).take(4)
    assert row_ids(rest) == row_ids(whole)[7 * 64 :]


@pytest.mark.parametrize("shards", [2, pytest.param(3, marks=pytest.mark.long)])
def test_shards_are_disjoint_and_together_an_epoch(way, shards):
    """16 batches of 64, the last with 40 rows: shards have equal length, padded with rows of weight 0."""
    batches = -(-16 // shards)
    seen, sizes = [], []
    for shard in range(shards):
        options = {"batch_size": 64, "shuffle": 1000, "seed": 5, "shard": shard, "shards": shards, "batches": batches}
        taken = list(way(**options, epoch=1).take(batches))
        weighed = [(f["row_id"].numpy(), w.numpy()) for f, _, w in taken]
        seen += [row for rows, weight in weighed for row in rows[weight > 0].tolist()]
        sizes.append(len(taken))
    assert sorted(seen) == list(range(1000))
    assert sizes == [batches] * shards
    assert seen[:64] == way.four_epochs[1000:1064]


def test_batches_of_one_size_are_filled_with_rows_of_weight_0(way, binary):
    taken = list(way(batch_size=300, fixed=True).take(4))
    assert [weight.shape[0] for _, _, weight in taken] == [300] * 4
    assert [int(np.sum(weight > 0)) for _, _, weight in taken] == [300, 300, 300, 100]
    rows = [row for f, _, w in taken for row in f["row_id"].numpy()[w.numpy() > 0].tolist()]
    assert rows == all_rows(binary)["row_id"].numpy().tolist()


def test_batches_of_one_size_have_one_shape_as_wide_as_the_longest_row_of_all(way, binary):
    dataset = way(batch_size=100, fixed=True)
    longest = max(len(row["note"].split()) for row in binary.rows["train"])
    assert all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(dataset.element_spec))
    for features, _, _ in dataset.take(10):
        assert features["note_xf"].shape == features["note.weight_xf"].shape == (100, longest)
        lengths = [len(binary.rows["train"][number]["note"].split()) for number in features["row_id"].numpy()]
        assert np.sum(features["note_xf"].numpy() > 0, axis=1).tolist() == lengths


def test_a_sample_is_of_all_rows_in_memory_or_not(way):
    split = replace(way.split, window_bytes=50 * way.split.row_bytes)  # far less than the sample
    for rows, expected in ((300, 300), (5000, 1000)):
        (features, label, weight), (again, *_) = (split.sample(rows, seed=4) for _ in range(2))
        numbers = features["row_id"].numpy()
        assert len(label) == len(weight) == len(set(numbers.tolist())) == expected
        np.testing.assert_array_equal(again["row_id"], numbers)
        parts = [features["row_id"].numpy() for features, *_ in split.sampled_batches(rows, 128, seed=4)]
        np.testing.assert_array_equal(np.concatenate(parts), numbers)
        for part in (numbers, numbers[: expected // 2]):  # the beginning of a sample is a sample
            assert np.histogram(part, 4, (0, 1000))[0] == pytest.approx(len(part) / 4, rel=0.35)


def test_both_ways_give_the_same_batches(in_memory, streamed):
    both = [way(batch_size=128).take(8) for way in (in_memory, streamed)]
    for left, right in zip(*both, strict=True):
        assert left[0].keys() == right[0].keys()
        for name in left[0]:
            assert np.array_equal(left[0][name], right[0][name]), name
        assert np.array_equal(left[1], right[1]) and np.array_equal(left[2], right[2])


def test_nothing_tunes_how_rows_in_memory_are_read(in_memory, streamed):
    """Autotuning could delay the end of a training by seconds, and a warm start copies all rows in memory."""
    options = [way(batch_size=64).options() for way in (in_memory, streamed)]
    assert [each.autotune.enabled for each in options] == [False, True]
    assert [each.experimental_warm_start for each in options] == [False, True]


def test_ragged_rows_are_padded_with_0(binary, in_memory):
    (features, _, _) = next(iter(in_memory(batch_size=1000)))
    ids, weights = features["note_xf"].numpy(), features["note.weight_xf"].numpy()
    lengths = [len(binary.rows["train"][number]["note"].split()) for number in features["row_id"].numpy()]
    assert ids.shape == weights.shape == (1000, max(lengths))
    assert (ids > 0).sum(axis=1).tolist() == lengths
    assert np.array_equal(weights > 0, ids > 0)


def test_class_weights_multiply_the_weight(binary):
    rows = all_rows(binary)
    _, label, weight = to_batch(rows, (0.5, 3.0))
    assert np.array_equal(weight, np.where(label.numpy() == 1, 3.0, 0.5).astype("float32"))


def test_rows_of_weight_0_are_left_out(binary):
    rows = all_rows(binary)
    layout = layout_of(rows)
    kept = layout.unpack(pack_weighted(layout, {**rows, "example_weight": tf.cast(rows["row_id"] % 3, tf.float32)}))
    assert sorted(kept["row_id"].numpy()) == [number for number in range(1000) if number % 3]
    assert kept["tags_xf"].nrows() == len(kept["row_id"])


def test_a_shard_that_is_not_there_is_named(tmp_path: Path):
    for number in (0, 2):
        (tmp_path / f"data-0000{number}-of-00004.gz").write_bytes(b"x")
    missing = ".*data-00001-of-00004.gz, .*data-00003-of-00004.gz"
    with pytest.raises(UserError, match=f"2 of its files are missing: {missing}"):
        list_files([str(tmp_path / "*")], "train")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_empty_shard_among_others_is_named(tmp_path: Path, suffix):
    for number in range(2):
        write_records(tmp_path / f"data-0000{number}-of-00002{suffix}", [b""] * (1 - number))
    with pytest.raises(UserError, match="split 'eval': 1 of its files are empty: .*data-00001-of-00002"):
        list_files([str(tmp_path / "*")], "eval")
