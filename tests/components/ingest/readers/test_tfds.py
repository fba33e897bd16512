"""Reading a dataset written by TFDS's own builder."""

import io

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.read_source import columns_of
from fullpass.components.ingest.readers.read_source import read_rows as read_source
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import TfdsSource
from fullpass.components.ingest.sources.files import fingerprint
from tests.components.ingest.reading_tools import inputs, raw, read_input

ROWS = {"train": 10, "test": 4}


class Toy(tfds.core.GeneratorBasedBuilder):
    """Rows with every common kind of TFDS feature."""

    VERSION = tfds.core.Version("1.2.0")
    code_path = None  # nothing to download, so there is no file of checksums

    def _info(self):
        features = {
            "n": np.int64,
            "text": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["no", "yes"]),
            "image": tfds.features.Image(shape=(None, None, 3)),
            "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
            "tags": tfds.features.Sequence(tfds.features.Text()),
            "inner": {"flag": np.bool_, "size": tfds.features.ClassLabel(names=["small", "large"])},
            "items": tfds.features.Sequence({"price": np.float32}),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(rows) for split, rows in ROWS.items()}

    def _generate_examples(self, rows):
        for i in range(rows):
            yield (
                i,
                {
                    "n": i,
                    "text": f"text {i}",
                    "label": i % 2 if i else -1,
                    "image": np.full((4, 5, 3), i, np.uint8),
                    "vector": [i, 0, 0.5],
                    "tags": ["a"] * (i % 3),
                    "inner": {"flag": i == 2, "size": i % 2},
                    "items": [{"price": 1.5}, {"price": i}],
                },
            )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    Toy(data_dir=str(folder)).download_and_prepare()
    return folder


def source(data_dir, splits, **options):
    return TfdsSource(format="tfds", name="toy", data_dir=str(data_dir), splits=splits, **options)


def read(data_dir, splits, columns, **options):
    chosen = source(data_dir, splits, **options)
    (file,) = inputs(chosen, data_dir)
    return read_input(file, chosen, columns)


@pytest.mark.integration
def test_values(data_dir):
    columns = ["n", "text", "label", "vector", "tags", "inner.flag", "inner.size", "items.price"]
    rows, numbers, bad = read(data_dir, "train", columns)
    assert numbers == list(range(1, 11)) and not bad
    by_number = {row[0]: row[1:] for row in rows}
    assert by_number[0] == (b"text 0", None, [0, 0, 0.5], [], False, "small", [1.5, 0])
    assert by_number[2] == (b"text 2", "no", [2, 0, 0.5], [b"a", b"a"], True, "small", [1.5, 2])
    assert by_number[3] == (b"text 3", "yes", [3, 0, 0.5], [], False, "large", [1.5, 3])


def test_images_are_the_bytes_of_their_files(data_dir):
    rows, _, _ = read(data_dir, "test", ["n", "image"])
    for n, data in rows:
        with Image.open(io.BytesIO(data)) as image:
            assert image.format == "PNG" and np.array(image).tolist() == np.full((4, 5, 3), n).tolist()


@pytest.mark.integration
def test_slices_are_those_of_tfds(data_dir):
    parts = [read(data_dir, words, ["n"])[0] for words in ("train[:80%]", "train[80%:]", "train[-2:]+test")]
    assert [len(part) for part in parts] == [8, 2, 6]
    assert parts[0] + parts[1] == read(data_dir, "train", ["n"])[0]
    assert parts[2][:2] == parts[1]


def test_splits_per_split(data_dir):
    chosen = source(data_dir, {"train": "train[:50%]", "eval": "test"})
    assert chosen.given_splits == ("train", "eval")
    assert [(f.split, f.path) for f in inputs(chosen, data_dir)] == [("train", "train[:50%]"), ("eval", "test")]


def test_columns_are_known_without_a_row(data_dir):
    chosen = source(data_dir, "train")
    columns = columns_of(inputs(chosen, data_dir)[0], chosen)
    assert sorted(columns) == [
        "image", "inner.flag", "inner.size", "items.price", "label", "n", "tags", "text", "vector",
    ]  # fmt: skip


def test_what_is_not_there_says_so(data_dir):
    with pytest.raises(UserError, match=r"toy:9.9.9 is not prepared .* Existing versions: 1.2.0"):
        read(data_dir, "train", ["n"], version="9.9.9")
    with pytest.raises(UserError, match="is not prepared .* `tfds build`"):
        read(data_dir / "elsewhere", "train", ["n"])
    with pytest.raises(UserError, match=r"'validation' cannot be read .* Splits: .*train \(10 rows\)"):
        read(data_dir, "validation", ["n"])
    with pytest.raises(UserError, match="no column 'lable'. Did you mean"):
        read(data_dir, "train", ["lable"])


def test_a_changed_file_is_new_data(data_dir):
    chosen = source(data_dir, "train")
    before = fingerprint(inputs(chosen, data_dir))
    assert fingerprint(inputs(chosen, data_dir)) == before
    (data_dir / "toy" / "1.2.0" / "label.labels.txt").write_text("no\nyes")
    assert fingerprint(inputs(chosen, data_dir)) != before


def test_whole_rows_for_a_split_by_all_columns(data_dir):
    chosen = source(data_dir, "test")
    (file,) = inputs(chosen, data_dir)
    (rows,) = read_source(Reading(file, raw(n="number"), all_columns=True), chosen)
    assert rows.table.column_names == ["n"]
    assert sorted(rows.all_columns.column("text").to_pylist()) == [b"text 0", b"text 1", b"text 2", b"text 3"]
