"""A window that moves by one span: the accumulators of known spans come from the cache, and the graph is the same."""

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.components.ingest.config import RecordsConfig
from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.components.transform.analysis_plan import Analysis, read_analysis
from fullpass.components.transform.analyze_spans import TrainSpan, analyze_spans
from fullpass.components.transform.analyzer_cache import AnalyzerCache
from fullpass.components.transform.full_pass import FullPass, finish_full_pass, run_full_pass
from fullpass.preprocessing.analysis import token_counts, token_files
from fullpass.preprocessing.analysis.traced_preprocessing import PreprocessingFunction, trace
from fullpass.preprocessing.apply.stable_ids import BaseModelRef
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.record_files import write_records

pytestmark = pytest.mark.integration

FEATURES = {
    "zone": {"type": "category", "vocabulary": {"min_count": 2}},
    "fare": {"type": "number", "missing": "mean", "transforms": ["z_score"]},
    "tip": {"type": "number", "transforms": [{"bucketize": {"buckets": 4}}]},
}
CONFIG = {"features": FEATURES, "label": {"name": "tip", "task": "regression"}}
ROWS = 200
NEW = "not analysed before"


def rows(span: int) -> dict[str, list]:
    """Returns the rows of a span, with a span-specific level and zones."""
    random = np.random.default_rng(span)
    fares = (random.normal(10 * span, 3, ROWS)).astype(np.float32).tolist()
    return {
        "fare": [None if i % 17 == 0 else fare for i, fare in enumerate(fares)],
        "tip": random.permutation(ROWS).astype(np.float32).tolist(),
        "zone": [f"z{z}" for z in random.integers(span, span + 5, ROWS)],
    }


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Returns `records(span)`, which writes the train split of a span."""
    folder = tmp_path_factory.mktemp("records")

    def write(span: int) -> TrainSpan:
        table = rows(span)
        columns = {name: pa.array(table[name], pa.float32()) for name in ("fare", "tip")}
        columns["zone"] = pa.array([zone.encode() for zone in table["zone"]], pa.binary())
        columns[RAW_ROW_ID] = pa.array(range(ROWS), pa.int64())
        path = write_records(folder / f"{span}.tfrecord", encode_rows(columns).to_pylist())
        return TrainSpan(f"day {span}", f"fingerprint{span}", (path,))

    return write


@pytest.fixture(scope="module")
def analyse(tmp_path_factory, records):
    """Returns `analyse(spans, cache, config)`: the TFTransformOutput, and the sources of its statistics."""

    def work(spans, cache=None, config=CONFIG, base=None):
        preprocessing = PreprocessingConfig.model_validate(config)
        folder = tmp_path_factory.mktemp("analysed") / "graph"
        files = [file for span in spans for file in span.files]
        full_pass = FullPass(
            preprocessing=preprocessing,
            schema=raw_schema(preprocessing),
            examples={"train": files, "eval": records(9).files},
            rows={"train": ROWS * len(spans), "eval": ROWS},
            graph=str(folder),
            transformed=None,
            layout=RecordsConfig().layout(gzip=False),
            temporary=f"{folder}-temporary",
            spans=tuple(spans),
            cache=cache,
            base_model=BaseModelRef(base=base, ledger=str(folder / "stable_ids")),
        )
        with local_pipeline() as pipeline:
            analysis = run_full_pass(full_pass, pipeline)
        finish_full_pass(full_pass)
        return tft.TFTransformOutput(str(folder)), analysis

    return work


@pytest.fixture(scope="module")
def first_two(analyse, records, tmp_path_factory):
    """The analysis of spans 1 and 2 into an empty cache, and this cache."""
    cache = tmp_path_factory.mktemp("first") / "cache"
    return *analyse([records(1), records(2)], str(cache)), cache


@pytest.fixture
def cache_of_two(first_two, tmp_path) -> str:
    """A copy of the cache of spans 1 and 2."""
    return str(shutil.copytree(first_two[2], tmp_path / "cache"))


def transformed(output, span: int) -> dict[str, np.ndarray]:
    table = rows(span)
    raw = {name: _sparse(table[name], tf.float32) for name in ("fare", "tip")}
    raw["zone"] = _sparse([zone.encode() for zone in table["zone"]], tf.string)
    raw[RAW_ROW_ID] = _sparse(list(range(ROWS)), tf.int64)
    layer = output.transform_features_layer()
    return {name: value.numpy() for name, value in layer(raw).items()}


def _sparse(values, dtype):
    present = [i for i, value in enumerate(values) if value is not None]
    indices = [[i, 0] for i in present]
    return tf.SparseTensor(indices, tf.constant([values[i] for i in present], dtype), [len(values), 1])


def test_a_moved_window_analyses_its_new_span_and_gives_the_graph_of_all(records, analyse, first_two, cache_of_two):
    second, third = (records(span) for span in (2, 3))
    assert first_two[1] == Analysis((), {"day 1": NEW, "day 2": NEW})

    # The records of a cached span do not even have to exist.
    moved, analysis = analyse([replace(second, files=()), third], cache_of_two)
    assert analysis.hit == ("day 2",) and list(analysis.missed) == ["day 3"]
    scratch, _ = analyse([second, third])

    counts = {}
    for zone in rows(2)["zone"] + rows(3)["zone"]:
        counts[zone] = counts.get(zone, 0) + 1
    expected = sorted(counts, key=lambda zone: (counts[zone], zone), reverse=True)
    vocabularies = [output.vocabulary_by_name("vocabulary_zone") for output in (moved, scratch)]
    assert vocabularies[0] == vocabularies[1] == [zone.encode() for zone in expected]
    fares = np.array([fare for span in (2, 3) for fare in rows(span)["fare"] if fare is not None])
    present = [i for i, fare in enumerate(rows(3)["fare"]) if fare is not None]
    of_third = np.array([rows(3)["fare"][i] for i in present])
    by_moved, by_scratch = transformed(moved, 3), transformed(scratch, 3)
    np.testing.assert_allclose(
        by_moved["fare_xf"][present], (of_third - fares.mean()) / fares.std(), rtol=2e-5, atol=1e-6
    )
    np.testing.assert_allclose(by_moved["fare_xf"], by_scratch["fare_xf"], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(by_moved["tip_xf"], by_scratch["tip_xf"])


def test_stable_ids_follow_a_model_while_counts_of_known_spans_come_from_the_cache(records, analyse, tmp_path):
    cache, config = str(tmp_path / "cache"), {**CONFIG, "stable_ids": True}
    first, second, third = (records(span) for span in (1, 2, 3))
    before, _ = analyse([first, second], cache, config)
    known = [token.decode() for token in before.vocabulary_by_name("vocabulary_zone")]
    base = tmp_path / "export"
    shutil.copytree(f"{before.transform_savedmodel_dir}/assets", base / "assets")

    made = [analyse([replace(second, files=()), third], cache, config, str(base)) for _ in range(2)]
    assert made[0][1].hit == ("day 2",) and list(made[0][1].missed) == ["day 3"]
    counts = Counter(rows(2)["zone"] + rows(3)["zone"])
    new = sorted((zone for zone in counts if zone not in known), key=lambda zone: (counts[zone], zone), reverse=True)
    assert len(new) == 1 and "z1" in known and "z1" not in counts, "z1 is retired"
    for output, _ in made:
        assert [token.decode() for token in output.vocabulary_by_name("vocabulary_zone")] == [*known, *new]
        assert output.num_buckets_for_transformed_feature("zone_xf") == 2 + len(known) + 1


def test_a_span_without_train_rows_needs_no_analysis(records, analyse, first_two, tmp_path):
    cache, empty = str(tmp_path / "cache"), TrainSpan("day 3", "fingerprint3", ())
    for origin in (Analysis((), {"day 1": NEW, "day 2": NEW}), Analysis(("day 1", "day 2"), {})):
        output, analysis = analyse([records(1), empty, records(2)], cache)
        assert analysis == origin
        np.testing.assert_equal(transformed(output, 1), transformed(first_two[0], 1))


def test_a_changed_feature_is_analysed_anew_and_the_others_are_not(records, analyse, cache_of_two):
    cache, spans = cache_of_two, [records(span) for span in (1, 2)]
    # Another number of buckets uses the same quantile sketch; a finer sketch, or other values, need a new one.
    same, analysis = analyse(spans, cache, _with_tip({"bucketize": {"buckets": 9}}))
    assert analysis.hit == ("day 1", "day 2") and analysis.missed == {}
    scratch, _ = analyse(spans, None, _with_tip({"bucketize": {"buckets": 9}}))
    np.testing.assert_array_equal(transformed(same, 2)["tip_xf"], transformed(scratch, 2)["tip_xf"])
    assert len(set(transformed(same, 2)["tip_xf"])) == 9
    for chain in ([{"bucketize": {"buckets": 200}}], [{"clip": {"max": 90}}, {"bucketize": {"buckets": 4}}]):
        _, analysis = analyse(spans, cache, _with_tip(*chain))
        assert analysis.hit == ()
        assert "analyzers are new or changed" in analysis.missed["day 1"] == analysis.missed["day 2"]
        new, of, *_ = analysis.missed["day 1"].split()[0::2]
        assert 0 < int(new) < int(of), "the others are taken from the cache"


EVERY_ANALYZER = {
    "zone": {"type": "category", "vocabulary": {"top_k": 4}},
    "covering": {"type": "category", "column": "zone", "vocabulary": {"coverage": 0.7}},
    "common": {"type": "category", "column": "zone", "vocabulary": {"min_count": 30}},
    "none": {"type": "category", "column": "zone", "vocabulary": {"min_count": 9999}},
    "stable": {"type": "category", "column": "zone", "vocabulary": {"min_count": 2, "stable_ids": True}},
    "often": {"type": "count", "column": "zone"},
    "fare": {"type": "number", "missing": "median", "transforms": ["z_score"]},
    "scaled": {"type": "number", "column": "fare", "transforms": ["min_max"]},
    "by_zone": {"type": "number", "column": "fare", "transforms": [{"z_score": {"key": "zone"}}]},
    "range_by_zone": {"type": "number", "column": "fare", "transforms": [{"min_max": {"key": "zone"}}]},
    "gaussian": {"type": "number", "column": "fare", "transforms": ["scale_to_gaussian"]},
    "ranked": {"type": "number", "column": "fare", "transforms": [{"quantile_scale": {"quantiles": 10}}]},
    "bounded": {"type": "number", "column": "fare", "transforms": [{"clip": {"max_quantile": 0.9}}]},
    "of_clipped": {"type": "number", "column": "fare", "transforms": [{"clip": {"max_quantile": 0.9}}, "z_score"]},
    "of_scaled": {"type": "number", "column": "fare", "transforms": ["z_score", {"bucketize": {"buckets": 6}}]},
    "tip": {"type": "number", "transforms": [{"bucketize": {"buckets": 4}}]},
}


def test_cached_spans_need_not_be_read_for_any_analyzer(records, analyse, tmp_path):
    chained = ("of_clipped", "of_scaled")
    features = {name: feature for name, feature in EVERY_ANALYZER.items() if name not in chained}
    features["of_logs"] = {"type": "number", "column": "fare", "missing": "median", "transforms": ["log1p", "z_score"]}
    config = {"features": features, "label": CONFIG["label"]}
    cache, spans = str(tmp_path / "cache"), [records(1), records(2)]
    first, analysis = analyse(spans, cache, config)
    assert analysis.hit == ()
    again, analysis = analyse([replace(span, files=()) for span in spans], cache, config)
    assert analysis.hit == ("day 1", "day 2") and analysis.missed == {}
    for name in ("zone", "covering", "common", "stable"):
        assert again.vocabulary_by_name(f"vocabulary_{name}") == first.vocabulary_by_name(f"vocabulary_{name}") != []
    found, expected = transformed(again, 2), transformed(first, 2)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.long
def test_sums_of_the_label_are_cached_and_equal_in_the_analysis_of_tf_transform(records, analyse, tmp_path):
    features = {"mean_tip": {"type": "target", "column": "zone"}}
    config = {"features": features, "label": CONFIG["label"]}
    cache, spans = str(tmp_path / "cache"), [records(1), records(2)]
    first, _ = analyse(spans, cache, config)
    again, analysis = analyse([replace(span, files=()) for span in spans], cache, config)
    assert analysis.missed == {}
    rank = "tests.preprocessing.apply.user_functions:rank_less_mean"  # no accumulators, so TF Transform analyzes
    ranked = {"type": "custom", "function": rank, "columns": {"zone": "string"}}
    beam, _ = analyse(spans, None, {**config, "features": {**features, "ranked": ranked}})
    written = [Path(one.vocabulary_file_by_name("target_mean_tip")).read_bytes() for one in (first, again, beam)]
    zones = {zone for span in (1, 2) for zone in rows(span)["zone"]}
    assert {line.split()[0].decode() for line in written[0].splitlines()} == {"*", *(f"={zone}" for zone in zones)}
    assert written[0] == written[1] == written[2]


def test_what_uses_the_statistics_of_others_is_computed_anew_and_the_others_are_not(records, analyse, tmp_path):
    cache = str(tmp_path / "cache")
    config = _with_tip({"clip": {"max_quantile": 0.5}}, "z_score")
    first, second, third = (records(span) for span in (1, 2, 3))
    analyse([first, second], cache, config)
    kept = AnalyzerCache(cache).read(second.fingerprint)
    moved, analysis = analyse([second, third], cache, config)
    assert AnalyzerCache(cache).read(second.fingerprint) == kept and len(kept) > 0
    assert analysis.hit == () and analysis.missed["day 3"] == "not analysed before"
    later, of, *_ = analysis.missed["day 2"].split()[0::2]
    assert int(of) - int(later) == len(kept) and analysis.missed["day 2"].endswith("depend on the statistics of others")

    tips = np.array([*rows(2)["tip"], *rows(3)["tip"]])
    clipped = np.minimum(tips, np.sort(tips)[len(tips) // 2 - 1])
    expected = (np.minimum(rows(3)["tip"], clipped.max()) - clipped.mean()) / clipped.std()
    np.testing.assert_allclose(transformed(moved, 3)["tip_xf"], expected, atol=0.03)  # the median comes from a sketch
    scratch, _ = analyse([second, third], None, config)
    np.testing.assert_array_equal(transformed(moved, 3)["tip_xf"], transformed(scratch, 3)["tip_xf"])


def _with_tip(*transforms):
    return {**CONFIG, "features": {**FEATURES, "tip": {"type": "number", "transforms": list(transforms)}}}


def test_every_worker_can_analyze_files(records, tmp_path):
    pipeline = local_pipeline()
    schema = raw_schema(PreprocessingConfig.model_validate(CONFIG)).SerializeToString()
    function = PreprocessingFunction(
        PreprocessingConfig.model_validate(CONFIG).model_dump_json(), schema, str(tmp_path)
    )
    analyze_spans(pipeline, function, [records(1), records(2)], None, str(tmp_path / "graph"), 2 * ROWS)
    names = [one.unique_name for one in pipeline.to_runner_api().components.transforms.values()]
    assert "Analyze0/Accumulate" in names
    # Without it a runner fuses the list of files with their analysis: one worker then analyzes all of them.
    assert any(name.startswith("Analyze0/Files/") and "ReshufflePerKey" in name for name in names)


def test_spans_that_left_are_dropped_after_as_many_others(tmp_path):
    cache = AnalyzerCache(str(tmp_path))
    for fingerprint in "abcd":
        cache.write(fingerprint, {b"key": [b"1", b"2"], b"other": [b""]})
        cache.keep([fingerprint], others=9)
    assert cache.read("a") == {b"key": [b"1", b"2"], b"other": [b""]} and cache.read("none") == {}
    assert cache.keep(["d"], others=1) == ["a.accumulators", "b.accumulators"]
    assert cache.read("a") == {} and cache.read("c") and cache.read("d")


def test_counts_in_files_are_kept_with_their_span(tmp_path):
    """The cache has its own copy of a file of counts, which is removed together with its span."""
    folder, cache = str(tmp_path / "temporary"), AnalyzerCache(str(tmp_path / "cache"))
    table = pa.table([[b"a", b"b"], [1, 2]], schema=token_files.TOKENS)
    for fingerprint in ("first", "second"):
        path = token_files.new_path(folder)
        token_files.write_buckets(path, token_files.by_bucket(table))
        cache.write(fingerprint, {b"counts": token_counts.encode_file_reference(path), b"other": [b"1"]})
    shutil.rmtree(folder)
    states = cache.read("first", whole=True)
    assert states[b"other"] == [b"1"]
    (found,) = token_counts.decode(states[b"counts"]).tables(folder)
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(b"a", 1), (b"b", 2)]
    cache.write("first", states)
    assert cache.read("first", whole=True) == states, "what the cache has already is not copied again"
    for damaged in tmp_path.rglob("second.*.tokens"):
        damaged.write_bytes(damaged.read_bytes()[:-3])
    assert cache.read("second", whole=True) == {b"other": [b"1"]}
    cache.keep(["second"], others=0)
    assert not list(tmp_path.rglob("first.*")) and list(tmp_path.rglob("second.*.tokens"))
    cache.write("second", {b"other": [b"1"]})
    assert not list(tmp_path.rglob("*.tokens"))


def test_the_analysis_survives_as_text():
    analysis = Analysis(("2013-01-05",), {"2013-01-06": "not analysed before"})
    assert read_analysis(analysis.to_json()) == analysis


def test_features_that_need_no_analysis(analyse, records, cache_of_two, tmp_path):
    plain = {
        "features": {"fare": {"type": "number", "missing": 0.0, "transforms": []}},
        "label": CONFIG["label"],
        "slices": ["zone"],
    }
    expected = [0.0 if fare is None else fare for fare in rows(1)["fare"]]
    for cache in (str(tmp_path / "empty"), cache_of_two):
        output, _ = analyse([records(1)], cache, plain)
        assert np.array_equal(transformed(output, 1)["fare_xf"], np.float32(expected))


def test_threads_of_one_worker_may_trace_and_write_at_once(tmp_path):
    """A Beam worker on a cluster runs bundles on several threads, but TF Transform's tracing is not thread-safe."""
    preprocessing = PreprocessingConfig.model_validate(CONFIG)
    schema = raw_schema(preprocessing).SerializeToString()
    function = PreprocessingFunction(preprocessing.model_dump_json(), schema, str(tmp_path / "threads"))
    begin = Barrier(4, timeout=60)

    def work(number: int):
        begin.wait()
        traced = trace(function)
        begin.wait()
        folder = str(tmp_path / f"graph{number}")
        traced.write({one.key: one.merge([one.start()]) for phase in traced.phases for one in phase}, folder)
        return traced, tf.saved_model.contains_saved_model(folder)

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(work, range(4)))
    assert all(written for _, written in done)
    assert len({id(traced) for traced, _ in done}) == 1, "traced once per process"
