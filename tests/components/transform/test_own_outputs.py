"""Ids that a function in place of all transforms returns: Transform refuses those that no model can look up."""

import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.components.ingest.config import RecordsConfig
from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.components.transform.full_pass import FullPass, finish_full_pass, run_full_pass
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.record_files import write_records

pytestmark = pytest.mark.integration

SPLITS = {"train": ["a", "b", "b", "c"], "eval": ["a", "new", "b", "new"]}


def unknown_is_minus_one(columns):
    return {"word": tft.compute_and_apply_vocabulary(columns["s"])}


def unknown_is_minus_one_in_lists(columns):
    return {"words": tft.compute_and_apply_vocabulary(tf.strings.split(columns["s"], "-").to_sparse())}


def unknown_is_minus_two(columns):
    path = tft.vocabulary(columns["s"])
    return {"word": tft.apply_vocabulary(columns["s"], path, default_value=-2)}


def unbounded(columns):
    return {"word": tf.cast(tf.strings.length(columns["s"]), tf.int64)}


def oov_bucket(columns):
    return {"word": tft.compute_and_apply_vocabulary(columns["s"], num_oov_buckets=1)}


def own_default(columns):
    return {"word": tft.compute_and_apply_vocabulary(columns["s"], default_value=3)}


def keyed_buckets(columns):
    """Returns -1 for keys that the train split lacks, while TF Transform declares 0 to 1."""
    number = tf.cast(tf.strings.length(columns["s"]), tf.float32)
    return {"bucket": tft.bucketize_per_key(number, columns["s"], num_buckets=2)}


def beyond_the_table(columns):
    """Returns 3 and more for two rows of eval: a range of 0 to 2 is declared."""
    lengths = tf.cast(tf.strings.length(columns["s"]), tf.int64)
    ids = tft.apply_buckets(lengths, [[1, 2]])
    schema = tft.schema_inference
    shifted = ids + tf.cast(lengths > 1, tf.int64)
    schema.set_tensor_schema_override(shifted, tf.constant(0, tf.int64), tf.constant(2, tf.int64))
    return {"bucket": shifted}


def custom_minus_one(columns):
    return unknown_is_minus_one(columns)["word"]


def custom_oov_bucket(columns):
    return oov_bucket(columns)["word"]


def custom_buckets(columns):
    return tft.apply_buckets(tf.strings.length(columns["s"]), [[1, 2, 3]])


@pytest.fixture
def transform(tmp_path):
    """Returns `transform(function, materialize, ids)`, which runs a full pass over `SPLITS`: the rows of each split.

    With `ids`, the function computes a custom feature; otherwise it takes the place of all transforms.
    """

    def work(function, materialize=True, ids=None):
        path = f"{__name__}:{function.__name__}"
        own = {"type": "custom", "function": path, "columns": {"s": "string"}, "ids": ids}
        sections = {"features": {"own": own}} if ids else {"features": {"s": "category"}, "function": path}
        config = PreprocessingConfig.model_validate({"label": {"name": "y", "task": "regression"}, **sections})
        files = {}
        for split, words in SPLITS.items():
            columns = {
                "s": pa.array([word.encode() for word in words], pa.binary()),
                "y": pa.array([1.0] * len(words), pa.float32()),
                RAW_ROW_ID: pa.array(range(len(words)), pa.int64()),
            }
            files[split] = [write_records(tmp_path / f"{split}.tfrecord", encode_rows(columns).to_pylist())]
        full_pass = FullPass(
            preprocessing=config,
            schema=raw_schema(config),
            examples=files,
            rows={split: len(words) for split, words in SPLITS.items()},
            graph=str(tmp_path / "graph"),
            transformed=str(tmp_path / "transformed") if materialize else None,
            layout=RecordsConfig().layout(gzip=False),
            temporary=str(tmp_path / "temporary"),
        )
        with local_pipeline() as pipeline:
            run_full_pass(full_pass, pipeline)
        return finish_full_pass(full_pass)

    return work


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unknown_is_minus_one, r"'word'.* ids from -1 to 2.*0 to size - 1.*num_oov_buckets=1.*default_value"),
        (unknown_is_minus_one_in_lists, r"'words'.* ids from -1 to 2.*num_oov_buckets=1"),
        pytest.param(unknown_is_minus_two, r"'word'.* ids from -2 to 2.*num_oov_buckets=1", marks=pytest.mark.long),
        (unbounded, r"'word'.*int64 ids with a range that the graph contains"),
        (keyed_buckets, r"'bucket'.* id -1 .*2 of 4 rows .*0 to 1"),
        (beyond_the_table, r"'bucket'.* id 3 .*2 of 4 rows .*0 to 2"),
    ],
)
def test_ids_that_no_model_can_look_up(transform, function, message):
    with pytest.raises(Exception, match=message):
        transform(function)


def test_the_range_is_checked_even_if_no_rows_are_written(transform):
    with pytest.raises(Exception, match=r"'word'.* ids from -1 to 2"):
        transform(unknown_is_minus_one, materialize=False)


@pytest.mark.parametrize("function", [oov_bucket, pytest.param(own_default, marks=pytest.mark.long)])
def test_unknown_tokens_with_an_id_of_their_own(transform, function):
    assert transform(function) == {"train": 4, "eval": 4}


@pytest.mark.parametrize("materialize", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("function", "ids", "message"),
    [
        (custom_minus_one, 3, r"features.own: .*:custom_minus_one .* ids from -1 to 2.*`ids: 3`.*num_oov_buckets=1"),
        (custom_oov_bucket, 3, r"features.own: .*:custom_oov_bucket .* ids from 0 to 3.*`ids: 3`"),
    ],
)
def test_a_custom_feature_whose_unknown_tokens_would_become_id_0(transform, function, ids, message, materialize):
    with pytest.raises(Exception, match=message):
        transform(function, materialize, ids)


@pytest.mark.parametrize(
    ("function", "ids"),
    [
        (custom_oov_bucket, 4),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((custom_oov_bucket, 9), (custom_buckets, 4))),
    ],
)
def test_a_custom_feature_with_enough_ids(transform, function, ids):
    assert transform(function, ids=ids) == {"train": 4, "eval": 4}
