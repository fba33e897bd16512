"""Every transform at every place: written by Transform, computed by the input function, or computed in the model."""

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.components.ingest.writing.shards import ShardLayout
from fullpass.components.transform import apply_graph
from fullpass.components.transform.full_pass import FullPass, finish_full_pass, run_full_pass, transform
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.compute_at import materializes
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.placement import InModel, placement_of
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.records.blocks import join, without_gaps
from tests.record_files import example, read_examples, write_records

pytestmark = pytest.mark.integration

NUMBERS: dict[str, Any] = {
    "plain": [],
    "z": ["z_score"],
    "z_key": [{"z_score": {"key": "kind"}}],
    "scaled": [{"min_max": {"min": -1.0, "max": 1.0}}],
    "scaled_key": [{"min_max": {"key": "kind"}}],
    "gaussian": ["scale_to_gaussian"],
    "logarithm": [{"clip": {"min": 0.0, "max_quantile": 0.9}}, "log1p", "z_score"],
    "root": ["sqrt"],
    "cube": [{"power": {"exponent": 3.0}}],
    "ranked": [{"quantile_scale": {"quantiles": 10}}],
    "buckets": [{"bucketize": {"buckets": 4}}],
    "bounded": [{"bucketize": {"boundaries": [0.0, 5.0]}}],
}
FEATURES: dict[str, Any] = {
    **{name: {"type": "number", "column": "x", "transforms": chain} for name, chain in NUMBERS.items()},
    "kept": {"type": "number", "column": "y", "missing": "median", "indicator": True},
    "ratio": "number",
    "letters": "number",
    "span": {"type": "duration", "start": "began", "end": "ended", "unit": "hours"},
    "rank": {"type": "ordinal", "column": "kind", "order": ["c", "a", "é"], "missing": "median", "indicator": True},
    "kind": "category",
    "upper": {"type": "category", "column": "kind", "lowercase": True, "vocabulary": {"tokens": ["a", "b"]}},
    "hashed": {"type": "category", "column": "kind", "hash": {"buckets": 7}},
    "counted_off": {"type": "category", "column": "y", "identity": {"size": 5}},
    "tags": {"type": "category", "separator": "|"},
    "often": {"type": "count", "column": "kind", "transforms": ["log1p"]},
    "yes": "boolean",
    "began": {"type": "date", "parts": ["month", "hour", "year"]},
    "round": {"type": "date", "column": "began", "parts": ["hour"], "cyclic": True},
    "words": {"type": "text", "column": "note", "vocabulary": {"min_count": 1}},
    "reading": {"type": "text", "column": "note", "output": "ids", "max_length": 3, "vocabulary": {"min_count": 1}},
    "position": {"type": "vector", "width": 2},
    "pair": {"type": "vector", "columns": ["x", "y"], "transforms": [{"pca": {"dimensions": 1}}]},
    "picture": {"type": "image", "size": [3, 4]},
    "own": {
        "type": "custom",
        "function": "tests.components.transform.test_transform_compute_at:above_mean",
        "columns": {"x": "number"},
    },
}
WEIGHED = {"weighed": {"type": "text", "column": "note", "output": "tf_idf", "vocabulary": {"min_count": 1}}}
"""A feature for which TF Transform also analyzes all other features, which is slow; it is therefore analyzed apart."""
CROSSES = [
    {"inputs": ["kind", "began.hour"], "hash_buckets": 50},
    {"inputs": ["buckets", "yes"], "vocabulary": {"min_count": 1}},
]
DERIVE = {"ratio": "x / (1 + y)", "letters": "length(note)"}
PLACES = ("transform", "input", "model")


def above_mean(columns):
    x = tf.where(tf.math.is_nan(columns["x"]), 0.0, columns["x"])
    return x - tft.mean(x)


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Returns rows whose cells are missing with a probability of 1/6 each."""
    draw = random.Random(seed)

    def some(value: Any) -> Any:
        return None if draw.random() < 1 / 6 else value

    return [
        {
            "x": some(draw.choice([draw.uniform(-3, 9), 0.0, 1e6])),
            "y": some(float(draw.randrange(8))),
            "kind": some(draw.choice(["a", "B", "c", "d", "é"])),
            "tags": some("|".join(draw.sample(["red", "green", "blue"], draw.randrange(4)))),
            "yes": some(draw.choice(["true", "no", "perhaps"])),
            "began": some(f"2024-{draw.randrange(1, 13):02d}-03T{draw.randrange(24):02d}:10:00"),
            "ended": some(f"2025-01-{draw.randrange(1, 28):02d}T00:00:00"),
            "note": some(" ".join(draw.choices(["so", "it", "goes", "on"], k=draw.randrange(6)))),
            "position": some([draw.random(), draw.random()]),
            "picture": some(tf.io.encode_png(tf.constant(draw.choices(range(256), k=60), tf.uint8, [4, 5, 3])).numpy()),
            "price": some(draw.uniform(1, 100)),
        }
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Analysed:
    """A transform graph and its inputs. values: feature -> values written by Transform."""

    full_pass: Any
    values: dict[str, np.ndarray]


def declared(place: str = "transform", **of_features: str) -> Any:
    return declared_of(FEATURES, place, of_features, crosses=CROSSES, derive=DERIVE)


def declared_of(features: dict[str, Any], place: str, of_features: dict[str, str], **sections: Any) -> Any:
    placed = {
        name: {**({"type": spec} if isinstance(spec, str) else spec), "compute_at": of_features.get(name, place)}
        for name, spec in features.items()
    }
    label = {"name": "price", "task": "regression"}
    return PreprocessingConfig.model_validate({"features": placed, "label": label, "compute_at": place, **sections})


def analyse(folder: Path, config: Any) -> Analysed:
    files = {split: str(folder / f"{split}.tfrecord") for split in ("train", "eval")}
    for seed, file in enumerate(files.values()):
        write_records(file, (example({"fullpass_row": n, **row}) for n, row in enumerate(rows(120, seed))))
    full_pass = FullPass(
        preprocessing=config,
        schema=raw_schema(config),
        examples={split: [file] for split, file in files.items()},
        rows={split: 120 for split in files},
        graph=str(folder / "graph"),
        transformed=str(folder / "transformed"),
        layout=ShardLayout(shard_bytes=1 << 20, readers=1, gzip=False),
        temporary=str(folder / "temporary"),
    )
    with local_pipeline() as pipeline:
        run_full_pass(full_pass, pipeline)
    assert finish_full_pass(full_pass) == {"train": 120, "eval": 120}
    return Analysed(full_pass, computed(full_pass))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    made: list[Any] = []

    def make(*args: Any, **options: Any) -> BatchTransformer:
        made.append(BatchTransformer(*args, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply_graph, "BatchTransformer", make)
        found = analyse(tmp_path_factory.mktemp("places"), declared())
    assert len(made) == 1, "both splits share the optimized graph"
    return found


def at_places(analysed: Analysed, config: Any, folder: Path) -> dict[str, np.ndarray]:
    """Returns all features of the eval split, each computed at its place; outputs of Transform go to `folder`."""
    of_eval = {"examples": {"eval": analysed.full_pass.examples["eval"]}, "rows": {"eval": 120}}
    full_pass = replace(analysed.full_pass, preprocessing=config, transformed=str(folder), **of_eval)
    if materializes(config):
        with local_pipeline() as pipeline:
            transform(full_pass, pipeline)
        finish_full_pass(full_pass)
    return computed(full_pass)


def computed(full_pass: Any) -> dict[str, np.ndarray]:
    """Returns all features of the eval split as used in training, in row order."""
    config = full_pass.preprocessing
    output = tft.TFTransformOutput(full_pass.graph)
    placement = placement_of(config, transformed_outputs(config, output))
    files = full_pass.examples["eval"]
    if materializes(config):
        files = [str(path) for path in sorted(Path(full_pass.transformed, "Split-eval").iterdir())]
    decode = decoder(output, placement, [*placement.read, ROW_ID])
    block = join(list(read_blocks(files, decode, readers=1)))
    if placement.in_model:
        in_model = InModel(placement, output)
        block = tf.function(in_model.add_model_features, autograph=False)(block)
    order = np.argsort(block[ROW_ID].numpy())
    values = {name: without_gaps(value) for name, value in block.items()}
    dense = {n: v.to_tensor() if isinstance(v, tf.RaggedTensor) else v for n, v in values.items()}
    return {name: value.numpy()[order] for name, value in dense.items()}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Asserts that ids are equal, and that numbers are equal within a few float32 steps."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        if value.dtype == np.float32:
            np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], value, name)


def test_every_kind_of_feature_is_there(analysed):
    only_at_transform = {"target"}  # rows of train are encoded out of fold, which no other place knows
    assert {feature.type for feature in declared().features.values()} == set(FEATURE_TYPES) - only_at_transform


@pytest.mark.long
@pytest.mark.parametrize("place", ["input", "model"])
def test_all_features_at_one_place(analysed, tmp_path, place):
    assert_same(at_places(analysed, declared(place), tmp_path / "transformed"), analysed.values)


@pytest.mark.long
def test_tf_idf_at_each_place(tmp_path):
    weighed = analyse(tmp_path, declared_of(WEIGHED, "transform", {}))
    for place in ("input", "model"):
        config = declared_of(WEIGHED, place, {})
        assert_same(at_places(weighed, config, tmp_path / place), weighed.values)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_any_mixture_of_places_and_what_is_stored(analysed, tmp_path, seed):
    draw = random.Random(seed)
    of_note = dict.fromkeys(("letters", "words", "reading"), "transform")
    known = {"plain": "transform", "z": "input", "kind": "model", **of_note}
    mixture = {name: draw.choice(PLACES) for name in FEATURES} | known
    assert_same(at_places(analysed, declared(**mixture), tmp_path / "transformed"), analysed.values)

    (file,) = sorted((tmp_path / "transformed" / "Split-eval").iterdir())
    keys = set(next(read_examples(file)))
    assert {"plain_xf", "label", "example_weight", "row_id", "fullpass_raw/x", "fullpass_raw/kind"} <= keys
    # The cross of kind and hour is computed where kind is, so it moves the date there too.
    assert "fullpass_raw/began" in keys and "fullpass_raw/note" not in keys
    assert not {"z_xf", "kind_xf", "kind_x_began.hour_xf"} & keys
