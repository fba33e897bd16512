"""Files with damaged records: the error names the file and the cause."""

import gzip
import struct
from pathlib import Path

import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.damage import check_features
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.records.frames import masked_crc
from tests.record_files import example, read_records, record_offsets, write_records

pytestmark = pytest.mark.integration

RECORDS = 300


def framed(record: bytes) -> bytes:
    """Returns a record as a TFRecord file holds it."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked_crc(length)) + record + struct.pack("<I", masked_crc(record))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.fixture(params=["", ".gz"], ids=["plain", "gzip"])
def shard(request, tmp_path: Path):
    """Returns the path of a second shard, its uncompressed content, and the function that stores changed content."""
    suffix = request.param
    paths = [tmp_path / f"data-0000{i}-of-00002{suffix}" for i in range(2)]
    for part, path in enumerate(paths):
        numbers = range(part * RECORDS, (part + 1) * RECORDS)
        rows = ({"x": float(n), "label": float(n % 2), "example_weight": 1.0} for n in numbers)
        write_records(path, map(example, rows))
    stored = paths[1].read_bytes()
    content = gzip.decompress(stored) if suffix else stored

    def store(changed: bytes) -> None:
        paths[1].write_bytes(gzip.compress(changed) if suffix else changed)

    return paths[1], content, store


def load(shard: Path):
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "label", "example_weight")}
    decode = lambda serialized: tf.io.parse_example(serialized, spec)  # noqa: E731
    rows = RowSpec(decode, lambda block: block, "binary", 2)
    return load_split("train", tuple(sorted(map(str, shard.parent.iterdir()))), rows, ReadingPlan(2))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda content: flipped(content, record_offsets(content)[41] + 20), "corrupted record at"),
        (lambda content: flipped(content, record_offsets(content)[10]), "corrupted record at"),
        (lambda content: content + framed(b"no example"), "Could not parse example"),
        (lambda content: content[:-7], "truncated record at"),
    ],
    ids=["content", "length", "no example", "cut"],
)
def test_a_file_with_a_damaged_record_is_named(shard, spoil, why):
    path, content, store = shard
    store(spoil(content))
    with pytest.raises(UserError, match=rf"^{path} cannot be read: {why}.*run the pipeline again"):
        load(path)


def test_a_stored_file_that_is_cut_in_the_middle_is_named(shard):
    """In a gzip file, a cut also truncates the uncompressed content."""
    path, _, _ = shard
    stored = path.read_bytes()
    path.write_bytes(stored[: len(stored) // 2 - 3])
    with pytest.raises(UserError, match=rf"{path} cannot be read: "):
        load(path)


@pytest.mark.parametrize("shard", [".gz"], indirect=True)
def test_gzip_data_that_cannot_be_inflated_is_named(shard):
    path, _, _ = shard
    path.write_bytes(b"no gzip" * 100)
    with pytest.raises(UserError, match=f"{path} cannot be read: "):
        load(path)


def test_examples_of_another_graph_are_named_with_what_to_do(planted):
    prepared = planted("binary")
    placement = prepared.placement("transform")
    check_features(prepared.files("transformed", "train"), placement, prepared.tft_output)
    first = tf.train.Example.FromString(next(read_records(prepared.files("transformed", "train")[1])))
    first.features.feature["y_xf"].CopyFrom(first.features.feature["x_xf"])
    del first.features.feature["x_xf"]
    file = write_records(prepared.directory / "other", [first.SerializeToString()])
    with pytest.raises(
        UserError, match=f"{file}: these examples lack x_xf, .* and contain y_xf, .*Run Transform again"
    ):
        check_features([file], placement, prepared.tft_output)


@pytest.mark.parametrize("records", [[], [b"no example"], None], ids=["empty", "no example", "no frame"])
def test_a_first_record_that_cannot_be_read_is_left_to_those_who_read_on(planted, tmp_path: Path, records):
    prepared = planted("binary")
    file = tmp_path / "other"
    write_records(file, records or [])
    if records is None:
        file.write_bytes(b"no frame" * 100)
    check_features([str(file)], prepared.placement("transform"), prepared.tft_output)
