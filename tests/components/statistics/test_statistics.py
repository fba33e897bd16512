"""StatisticsGen's accumulators against NumPy, and against unmodified TFDV, on the same records."""

import json
import shutil
import weakref

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SummaryStore
from fullpass.components.data_gate.summarize import SPAN, SummarizeFiles
from fullpass.components.read_records import RecordReader
from fullpass.components.statistics.component import BATCH_ROWS, StatisticsExecutor, StatisticsOfFiles
from fullpass.components.statistics.tfdv_accumulator import COUNTED_TOKENS, StatisticsAccumulator
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.input.raw_examples import RawExamples, raw_dtypes
from tests.record_files import example, read_records, write_records

BEAM = ["--runner=DirectRunner", "--direct_running_mode=in_memory", "--sdk_container_image=none"]
ROWS = 3000
COLUMNS = {
    "x": RawColumn("x", "number"),
    "town": RawColumn("town", "string"),
    "many": RawColumn("many", "string"),
    "image": RawColumn("image", "vector", 3),
    "never": RawColumn("never", "number"),
}


@pytest.fixture(scope="module")
def rows():
    """Values per column, None if missing: a heavy tail, numbers far from 0, zeros, text that is not UTF-8."""
    random = np.random.default_rng(7)
    x = random.lognormal(3, 2, ROWS) + 1e4
    x[random.random(ROWS) < 0.1] = 0
    towns = np.array([b"Rome", "Zürich".encode(), b"\xff\xfe", b"Oslo"], dtype=object)
    drawn = random.choice(4, ROWS, p=[0.6, 0.25, 0.1, 0.05])

    def some(values):
        return [None if missing else value for value, missing in zip(values, random.random(ROWS) < 0.2, strict=True)]

    return {
        "x": some(x.astype(np.float32).tolist()),
        "town": some(towns[drawn].tolist()),
        "many": some([b"%d" % i for i in random.zipf(1.5, ROWS) % 1000]),
        "image": some(random.normal(size=(ROWS, 3)).astype(np.float32).tolist()),
    }


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """Two files, one compressed."""
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / "0.tfrecord"), str(folder / "1.tfrecord.gz")]
    for path, part in zip(paths, (range(1000), range(1000, ROWS)), strict=True):
        write_records(path, (example({name: values[row] for name, values in rows.items()}) for row in part))
    return paths


def _batches(path, rows_of_batch=BATCH_ROWS):
    return RecordReader("read", None, rows_of_batch).parsed(path, RawExamples(raw_dtypes(COLUMNS)).lists)


def _statistics(files, rows_of_batch):
    accumulator = StatisticsAccumulator()
    parts = []
    for path in files:
        states = accumulator.start()
        for batch in _batches(path, rows_of_batch):
            states = accumulator.add(states, batch)
        parts.append(states)
    return accumulator.finish(accumulator.merge(parts)).datasets[0]


def _features(dataset):
    return {feature.path.step[0]: feature for feature in dataset.features}


@pytest.mark.integration
def test_records_are_parsed_as_by_another_decoder(rows, files):
    mine = pa.Table.from_batches(_batches(files[1], 700))
    serialized = list(read_records(files[1]))
    theirs = ExamplesToRecordBatchDecoder().DecodeBatch(serialized)
    for name in rows:
        expected = theirs.column(theirs.schema.get_field_index(name)).to_pylist()
        assert mine[name].to_pylist() == expected, name
    assert mine["never"].to_pylist() == [None] * 2000


@pytest.mark.parametrize("rows_of_batch", [256, 16_384])
def test_numbers_are_those_of_numpy(rows, files, rows_of_batch):
    dataset = _statistics(files, rows_of_batch)
    assert dataset.num_examples == ROWS
    features = _features(dataset)
    for name in ("x", "image"):
        present = [value for value in rows[name] if value is not None]
        values, stats = np.array(present, dtype=np.float64).ravel(), features[name].num_stats
        width = 3 if name == "image" else 1
        common = stats.common_stats
        assert (common.num_non_missing, common.num_missing) == (len(present), ROWS - len(present))
        assert (common.min_num_values, common.max_num_values, common.tot_num_values) == (width, width, len(values))
        assert stats.mean == pytest.approx(values.mean(), rel=1e-12)
        assert stats.std_dev == pytest.approx(values.std(), rel=1e-9)
        assert (stats.min, stats.max) == (values.min(), values.max())
        assert stats.num_zeros == np.count_nonzero(values == 0)
        assert np.mean(values <= stats.median) == pytest.approx(0.5, abs=0.01)
        [quantiles] = [histogram for histogram in stats.histograms if histogram.type == histogram.QUANTILES]
        for share, bucket in zip(np.arange(1, 11) / 10, quantiles.buckets, strict=True):
            below, up_to = np.mean(values < bucket.high_value), np.mean(values <= bucket.high_value)
            assert below - 0.02 <= share <= up_to + 0.02
    assert features["never"].num_stats.common_stats.num_missing == ROWS


def test_tokens_are_counted_exactly(rows, files):
    features = _features(_statistics(files, 16_384))
    for name in ("town", "many"):
        present = [value for value in rows[name] if value is not None]
        tokens, counts = np.unique(np.array(present, dtype=object), return_counts=True)
        stats = features[name].string_stats
        assert stats.unique == len(tokens) < COUNTED_TOKENS
        top = sorted(counts.tolist(), reverse=True)[:20]
        assert [value.frequency for value in stats.top_values] == top[: len(stats.top_values)]
        assert len(stats.top_values) == min(20, len(tokens))
        assert stats.avg_length == pytest.approx(np.mean([len(value) for value in present]), rel=1e-6)


@pytest.mark.integration
def test_everything_but_quantiles_is_what_tfdv_writes(files):
    import tensorflow_data_validation as tfdv

    theirs = _features(tfdv.generate_statistics_from_tfrecord(files[0]).datasets[0])
    mine = _features(_statistics(files[:1], 16_384))
    assert mine.keys() - theirs.keys() == {"never"}
    for name, expected in theirs.items():
        found = mine[name]
        for feature in (expected, found):
            if feature.WhichOneof("stats") == "num_stats":
                feature.num_stats.ClearField("median")
                feature.num_stats.ClearField("histograms")
                feature.num_stats.std_dev = round(feature.num_stats.std_dev, 6)
                feature.num_stats.mean = round(feature.num_stats.mean, 6)
        assert found == expected, name


CONFIG = PreprocessingConfig.model_validate(
    {
        "features": {"town": {"type": "category"}, "many": {"type": "category"}, "x": {"type": "number"}},
        "label": {"name": "x", "task": "regression"},
    }
)


def test_parts_are_merged_one_at_a_time(files):
    """Neither the merge nor its input keeps a reference to a merged part."""
    accumulator, alive = StatisticsAccumulator(), []

    def parts():
        for _ in range(4):
            states = accumulator.start()
            for batch in _batches(files[0]):
                states = accumulator.add(states, batch)
            alive.append(weakref.ref(states[0]))
            yield states
            del states
            assert sum(ref() is not None for ref in alive) <= 1

    assert accumulator.finish(accumulator.merge(parts())).datasets[0].num_examples == 4000


def test_one_read_makes_the_statistics_and_the_summary_of_a_new_span(files, tmp_path):
    source = SeriesSource.of(CONFIG, None)
    store = SummaryStore(str(tmp_path), source)
    accumulator = StatisticsOfFiles(source, ROWS, {}, SummarizeFiles(source, store, []))
    accumulator.start(None)
    of_split, of_span = ("split", "train"), (SPAN, 1)
    assert [group for group, _ in accumulator.accumulate(files[0], (of_split,))] == [of_split]
    (split, _), (span, sketched) = accumulator.accumulate(files[1], (of_split, of_span))
    expected = Sketches(source)
    for batch in _batches(files[1]):
        expected.add_batch(batch)
    assert (split, span) == (of_split, of_span)
    assert sketched == (2000, expected.distributions()) and expected.rows == 2000


@pytest.mark.integration
def test_the_executor_writes_the_statistics_of_each_split_and_nothing_else(files, tmp_path):
    examples, statistics = standard_artifacts.Examples(), standard_artifacts.ExampleStatistics()
    examples.uri, statistics.uri = str(tmp_path / "examples"), str(tmp_path / "statistics")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    for split, parts in {"train": files, "eval": files[1:]}.items():
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        for path in parts:
            shutil.copy(path, folder)
    properties = {
        "series": SeriesSource.of(CONFIG, None).to_json(),
        "options": json.dumps({"unit": None, "folder": str(tmp_path / "summaries")}),
    }
    context = StatisticsExecutor.Context(beam_pipeline_args=BEAM, tmp_dir=str(tmp_path / "temporary"), unique_id="1")
    StatisticsExecutor(context).Do({"examples": [examples]}, {"statistics": [statistics]}, properties)

    written = {path.relative_to(tmp_path / "statistics").as_posix() for path in (tmp_path / "statistics").rglob("*.*")}
    assert written == {"Split-train/FeatureStats.pb", "Split-eval/FeatureStats.pb"}
    assert sorted(path.name for path in (tmp_path / "statistics").iterdir()) == ["Split-eval", "Split-train"]
    for split, parts in {"train": files, "eval": files[1:]}.items():
        content = (tmp_path / "statistics" / f"Split-{split}" / "FeatureStats.pb").read_bytes()
        found = _features(statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets[0])
        expected = _features(_statistics(parts, BATCH_ROWS))
        assert found == {name: expected[name] for name in ("town", "many", "x")}
