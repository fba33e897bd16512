"""Compares Fullpass's analysis with TF Transform's `AnalyzeDataset`, for everything in docs/transforms.md.

The compared features are the examples of the page, so a new transform is included by the example of its class. Both
engines analyze all features at once.
"""

import datetime
import re
from functools import cache
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam

from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml
from fullpass.pipeline.reference.reference import pages
from fullpass.preprocessing.analysis import analyze
from fullpass.preprocessing.analysis.analyze import analyze_on_beam, analyze_table
from fullpass.preprocessing.analysis.traced_preprocessing import PreprocessingFunction, adapter_of
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.features.transforms import NumberTransform, VectorTransform
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.preprocessing.spec import members_by_tag
from fullpass.preprocessing.values.raw_batches import raw_batches

# Both engines analyze the features of a group at once; TF Transform's time grows faster than their number.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ROWS = 300
ANALYZED = slice(0, 240)
"""The analyzed rows. The rows after these have values that the analysis has not seen."""
PAGE = pages()["transforms.md"]
# `target` needs a label whose classes are known, and is compared with numpy (tests/preprocessing/apply/test_target.py).
NAMES = [name for name in re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) if name != "target"]
DAILY = "bucketize"
"""The name that `make test` compares: its features need quantiles of raw and of scaled values. All others are long."""
_OTHERS = [name for name in NAMES if name != DAILY]
GROUPS = ([DAILY], *(_OTHERS[i::17] for i in range(17)))
CROSSES = (
    {"inputs": ["category.company", "date.started.hour"]},
    {"name": "learned", "inputs": ["bucketize.buckets", "category.zone"], "vocabulary": {"top_k": 20}},
)
CROSSED = ("category", "date", "bucketize")

MORE = {
    "vocabulary": {
        "frequent": {"type": "category", "column": "company", "vocabulary": {"top_k": 4}},
        "covering": {"type": "category", "column": "company", "vocabulary": {"coverage": 0.7}},
        "common": {"type": "category", "column": "company", "vocabulary": {"min_count": 12}},
        "none": {"type": "category", "column": "company", "vocabulary": {"min_count": 9999}},
        "stable": {"type": "category", "column": "company", "vocabulary": {"min_count": 2, "stable_ids": True}},
        "cells": {"type": "category", "column": "genres", "separator": "|", "vocabulary": {}},
    },
    "text": {
        "runs": {
            "type": "text",
            "column": "genres",
            "tokenize": "word_characters",
            "ngrams": [2, 4],
            "output": "tf_idf",
            "vocabulary": {"top_k": 30},
        },
    },
    "hash": {"keyed": {"type": "category", "column": "company", "hash": {"buckets": 9, "key": [1, 2]}}},
    "identity": {"digit": {"type": "category", "column": "zone", "identity": {"size": 5}}},
    "embedding": {"wide": {"type": "category", "column": "company", "encoding": {"embedding": 3}}},
    "date": {"numbers": {"type": "date", "column": "started", "parts": ["year", "epoch"]}},
    "bucketize": {
        "buckets": {"type": "number", "column": "tip", "transforms": [{"bucketize": {"buckets": 4}}]},
        "of_scaled": {"type": "number", "column": "fare", "transforms": ["z_score", {"bucketize": {"buckets": 6}}]},
    },
    "clip": {"of_clipped": {"type": "number", "column": "fare", "transforms": [{"clip": {"max_quantile": 0.9}}]}},
    "min_max": {"by_key": {"type": "number", "column": "fare", "transforms": [{"min_max": {"key": "company"}}]}},
    "z_score": {"of_least": {"type": "number", "column": "fare", "missing": "min", "transforms": ["log1p", "z_score"]}},
}
"""Name on the page -> features in addition to its example."""

USERS_MODULE = """
import tensorflow as tf
import tensorflow_transform as tft

def haversine(columns):
    x, y = (tf.where(tf.math.is_nan(columns[name]), 0.0, columns[name]) for name in sorted(columns) if name != "zone")
    return tf.stack([x - tft.mean(y), y / tft.max(x)], axis=1)
"""


FORMS = ((NumberTransform, {"type": "number", "column": "fare"}), (VectorTransform, {"type": "vector", "width": 4}))


def features_of(name: str) -> dict[str, dict]:
    """Returns the features that test a name on the page; their names begin with it."""
    found = dict(MORE.get(name, {}))
    if name in FEATURE_TYPES:
        found |= read_yaml(FEATURE_TYPES[name].example).data
    for union, form in FORMS:
        specs = members_by_tag(union)
        if name in specs:
            example = read_yaml(specs[name].example or f"transforms: [{name}]").data
            found["small" if form["type"] == "vector" else "of_number"] = {**form, **example}
    return {f"{name}.{feature}": _with_column(feature, declared) for feature, declared in found.items()}


def _with_column(name: str, feature) -> dict:
    feature = {"type": feature} if isinstance(feature, str) else dict(feature)
    if feature["type"] == "image":
        feature["size"] = [4, 6]  # every pixel is compared
    names_its_columns = {"column", "columns", "start", "function"} & feature.keys()
    return feature if names_its_columns else {**feature, "column": name}


def table():
    """Returns rows with a value for every kind of column that the features read; every eleventh value is missing."""
    random = np.random.default_rng(7)
    seen = np.arange(ROWS) < ANALYZED.stop
    words = np.array(["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "größe"])
    day = datetime.datetime(2013, 1, 31, 7, 5)
    hours = random.integers(0, 9000, (2, ROWS)).cumsum(axis=0).tolist()
    scores, _ = np.linalg.qr(random.normal(size=(ROWS, 40)))
    spread = 0.85 ** np.arange(40)
    columns = {
        "fare": random.lognormal(2, 1, ROWS),
        "trip_miles": random.lognormal(1, 1, ROWS),
        "tip": random.permutation(ROWS),
        "latitude": random.normal(41, 2, ROWS),
        "longitude": random.normal(-87, 2, ROWS),
        "pickup_latitude": random.normal(41, 2, ROWS),
        "pickup_longitude": random.normal(-87, 2, ROWS),
        "company": np.where(seen, random.geometric(0.2, ROWS), 99).astype(str),
        "payment": random.choice(["cash", "card", "coin"], ROWS),
        "zone": random.integers(0, 90, ROWS).astype(str),
        "hour": random.integers(0, 24, ROWS).astype(str),
        "genres": ["|".join(random.choice(words, n)) for n in random.integers(0, 4, ROWS)],
        "returning": random.choice(["true", "no", "?"], ROWS),
        "member": random.choice(["member", "guest", "?"], ROWS),
        "started": [(day + datetime.timedelta(hours=h)).isoformat() for h in hours[0]],
        "booked": [(day + datetime.timedelta(hours=h)).strftime("%d.%m.%Y") for h in hours[0]],
        "ordered_at": [(day + datetime.timedelta(hours=h)).isoformat() for h in hours[0]],
        "picked_up_at": [(day + datetime.timedelta(hours=h)).isoformat() for h in hours[1]],
        "message": [" ".join(random.choice(words, n)) for n in random.integers(1, 9, ROWS)],
        "review": [" ".join(random.choice(words, n)) for n in random.integers(1, 9, ROWS)],
        "query": [" ".join(random.choice(words, n)) for n in random.integers(1, 4, ROWS)],
        "title": [" ".join(random.choice(words, n)) for n in random.integers(1, 4, ROWS)],
        "kind": random.choice(["x", "y", "z"], ROWS, p=[0.2, 0.5, 0.3]),
        "priority": np.resize(["low", "high", "medium", "high", "?"], ROWS),
        "age": np.resize(["65+", "18-24", "25-34", "35-64", "18-24", "<18"], ROWS),
    }
    vectors = {
        "pixels": scores * spread @ random.normal(size=(40, 784)),
        "small": random.normal(size=(ROWS, 4)) @ np.diag([8.0, 4.0, 2.0, 1.0]),
    }
    lengths = random.integers(0, 5, ROWS)
    lists = {
        **{name: rows.tolist() for name, rows in vectors.items()},
        "prices": [random.lognormal(1, 1, n).tolist() for n in lengths],
        "tags": [random.choice(words, n).tolist() for n in lengths],
        "scores": [random.uniform(0, 1, n).tolist() for n in lengths],
        "image": [tf.io.encode_png(picture).numpy() for picture in random.integers(0, 256, (ROWS, 8, 9, 3), np.uint8)],
    }
    lists["jpeg"] = [tf.io.encode_jpeg(tf.io.decode_png(picture)).numpy() for picture in lists["image"]]
    some = {name: [None if i % 11 == 3 else row for i, row in enumerate(rows)] for name, rows in lists.items()}
    missing = np.arange(ROWS) % 11 == 5
    return pa.table({**{name: pa.array(values, mask=missing) for name, values in columns.items()}, **some})


def no_comparison(*_):
    raise AssertionError("TF Transform would compute both graphs")


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Returns `analyse(features, label, crosses)`: outputs of Fullpass's and TF Transform's graphs, and both graphs."""
    folder = tmp_path_factory.mktemp("engines")
    rows = table()

    def analyse(name, **sections):
        config = PreprocessingConfig.model_validate(sections)
        (whole,) = raw_batches(config, rows)
        halves = [whole.slice(0, 130), whole.slice(130, ANALYZED.stop - 130)]
        schema = raw_schema(config)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(analyze, "analyze_on_beam", no_comparison)
            ours = analyze_table(config, halves, str(folder / f"{name}-ours"))
        function = PreprocessingFunction(
            config.model_dump_json(), schema.SerializeToString(), str(folder / f"{name}-temporary")
        )
        with local_pipeline() as pipeline:
            analyze_on_beam(pipeline | beam.Create(halves), function, str(folder / f"{name}-theirs"))
        graphs = ours, tft.TFTransformOutput(str(folder / f"{name}-theirs"))
        applied = [BatchTransformer(graph, adapter_of(schema))(whole).to_pydict() for graph in graphs]
        return applied, graphs

    return analyse


@pytest.fixture(scope="module")
def analysed(request, engines, tmp_path_factory):
    """Returns `group(number)`: outputs and graphs of its features at once, with a learned label vocabulary.

    The second group has crosses. If `pytest -k` selects some transforms only, just these features are analyzed.
    """
    users = tmp_path_factory.mktemp("users")
    (users / "my_features.py").write_text(USERS_MODULE)
    own = [item for item in request.session.items if item.path == request.path and "analysed" in item.fixturenames]
    some = all(item.originalname == test_what_the_page_lists.__name__ for item in own)
    chosen = {item.callspec.params["name"] for item in own} if some else NAMES

    @cache
    def group(number):
        crosses = CROSSES if number == 1 and not some else ()
        names = [name for name in GROUPS[number] if name in chosen] + [*(CROSSED if crosses else ())]
        return engines(
            f"group{number}",
            features={feature: declared for name in names for feature, declared in features_of(name).items()},
            crosses=crosses,
            label={"name": "kind", "task": "multiclass"},
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(users))
        yield group


def _long(values, daily):
    return [pytest.param(value, marks=() if value == daily else pytest.mark.long) for value in values]


EVERY_GROUP = pytest.mark.parametrize("number", _long(range(len(GROUPS)), 0))


def assert_equal_outputs(applied, names):
    ours, theirs = applied
    for name in names:
        assert len(ours[name]) == ROWS
        for row, (one, other) in enumerate(zip(ours[name], theirs[name], strict=True)):
            where = f"{name}, row {row}"
            assert len(one) == len(other), where
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5, err_msg=where)


@pytest.mark.parametrize("name", _long(NAMES, DAILY))
def test_what_the_page_lists(name, analysed):
    (number,) = (i for i, names in enumerate(GROUPS) if name in names)
    applied, _ = analysed(number)
    features = features_of(name)
    assert features, f"Nothing compares {name!r}: give its class an example, or add a feature to MORE."
    for feature in features:
        outputs = [output for output in applied[0] if output.startswith((f"{feature}_", f"{feature}."))]
        assert outputs, feature
        assert_equal_outputs(applied, outputs)


@EVERY_GROUP
def test_all_other_outputs_and_the_transformed_schema(number, analysed):
    applied, graphs = analysed(number)
    assert applied[0].keys() == applied[1].keys()
    assert_equal_outputs(applied, applied[0])
    ours, theirs = (graph.transformed_metadata.schema for graph in graphs)
    assert ours == theirs and len(ours.feature) == len(applied[0])


@EVERY_GROUP
def test_vocabulary_files(number, analysed):
    _, graphs = analysed(number)
    folders = [Path(graph.transform_savedmodel_dir, "assets") for graph in graphs]
    ours, theirs = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
    assert ours == theirs
    stable = {vocabulary_name("vocabulary.stable")} if "vocabulary" in GROUPS[number] else set()
    assert {"label"} | stable <= ours.keys() and b"" not in ours.values()


@pytest.mark.long
def test_the_classes_of_a_multilabel_label(engines):
    label = {"name": "genres", "task": "multilabel", "separator": "|"}
    applied, graphs = engines("multilabel", features={"fare": "number"}, label=label)
    assert_equal_outputs(applied, applied[0])
    assert graphs[0].vocabulary_by_name("label") == graphs[1].vocabulary_by_name("label") != []


@pytest.mark.long
def test_tf_idf(tmp_path):
    """Compares the example of the page with a preprocessing_fn of TF Transform's own functions only."""
    review = read_yaml(FEATURE_TYPES["text"].example).data["review"]
    assert review == {
        "type": "text", "ngrams": [1, 2], "output": "tf_idf", "vocabulary": {"top_k": 5000, "min_count": 5},
    }  # fmt: skip

    def plain(columns):
        words = tft.ngrams(tf.strings.split(columns["review"]).to_sparse(), (1, 2), " ")
        ids = tft.compute_and_apply_vocabulary(
            words, top_k=5000, frequency_threshold=5, num_oov_buckets=1, vocab_filename="review"
        )
        distinct, weights = tft.tfidf(ids, 1000)
        return {"ids": distinct, "weights": weights}

    rows = table().select(["review", "fare"])
    texts = [{"review": text or ""} for text in rows["review"].to_pylist()]
    spec = {"review": tf.io.FixedLenFeature([], tf.string)}
    with local_pipeline() as pipeline, tft_beam.Context(temp_dir=str(tmp_path / "temporary")):
        analyzed = pipeline | beam.Create(texts[ANALYZED])
        dataset_analysis = (analyzed, tft.DatasetMetadata.from_feature_spec(spec)) | tft_beam.AnalyzeDataset(plain)
        _ = dataset_analysis | tft_beam.WriteTransformFn(str(tmp_path / "theirs"))
    output = tft.TFTransformOutput(str(tmp_path / "theirs"))
    theirs = output.transform_raw_features({"review": tf.constant([row["review"] for row in texts])})
    known = output.vocabulary_size_by_name("review")

    config = PreprocessingConfig.model_validate(
        {"features": {"review": review}, "label": {"name": "fare", "task": "regression"}}
    )
    (whole,) = raw_batches(config, rows)
    graph = analyze_table(config, [whole.slice(0, 130), whole.slice(130, ANALYZED.stop - 130)], str(tmp_path / "ours"))
    ours = BatchTransformer(graph, adapter_of(raw_schema(config)))(whole).to_pydict()

    # Fullpass's ids: 0 missing, 1 OOV, then the vocabulary. TF Transform's ids: the vocabulary, then OOV.
    expected = [{} for _ in range(ROWS)]
    for (row, _), token, weight in zip(
        theirs["ids"].indices.numpy(), theirs["ids"].values.numpy(), theirs["weights"].values.numpy(), strict=True
    ):
        expected[row][1 if token == known else token + 2] = pytest.approx(weight, rel=1e-5)
    found = [dict(zip(*row, strict=True)) for row in zip(ours["review_xf"], ours["review.weight_xf"], strict=True)]
    assert found == expected
    assert {1, known + 1} <= {token for row in found for token in row} and sum(not row for row in found) > 20
