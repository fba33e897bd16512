"""StatisticsGen and Transform write the same bytes from the columns beside Ingest's examples as from the records."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tfx.types import artifact_utils, standard_artifacts

from fullpass.components import read_records
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.span_summary import SummaryStore
from fullpass.components.ingest.component import FINGERPRINT
from fullpass.components.ingest.config import RecordsConfig
from fullpass.components.ingest.writing import shards
from fullpass.components.statistics.component import StatisticsExecutor
from fullpass.components.transform.analyze_spans import TrainSpan
from fullpass.components.transform.full_pass import FullPass, finish_full_pass, run_full_pass
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.components.ingest import ingesting

pytestmark = pytest.mark.integration

BEAM = ["--runner=DirectRunner", "--direct_running_mode=in_memory", "--sdk_container_image=none"]
ROWS, SPANS = 3000, (1, 2)
CONFIG = PreprocessingConfig.model_validate(
    {
        "features": {
            "fare": {"type": "number", "missing": "mean", "transforms": ["z_score"]},
            "zone": {"type": "category", "vocabulary": {"min_count": 2}},
            "mean_tip": {"type": "target", "column": "zone"},
            "tags": {"type": "category", "list": {}, "vocabulary": {}},
            "place": {"type": "vector", "column": "place", "width": 2},
            "tip": {"type": "number", "transforms": [{"bucketize": {"buckets": 5}}]},
        },
        "label": {"name": "tip", "task": "regression"},
    }
)


def write_span(folder: Path, span: int) -> None:
    random = np.random.default_rng(span)
    drawn = random.normal(span, 9, ROWS)
    table = pa.table(
        {
            "fare": pa.array(drawn, mask=random.random(ROWS) < 0.1),
            "zone": pa.array([f"z{zone}".encode() + b"\xff" * (zone % 2) for zone in random.zipf(1.6, ROWS) % 40]),
            "tags": [[f"t{tag}" for tag in random.integers(0, 9, count)] for count in random.integers(0, 4, ROWS)],
            "place": [None if place[0] < 0.1 else place for place in random.random((ROWS, 2)).tolist()],
            "tip": pa.array(random.lognormal(2, 2, ROWS)),
        }
    )
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "a.parquet")
    source = {"format": "parquet", "path": "a.parquet"}
    ingesting.ingest(folder, source, tuple(raw_columns(CONFIG).values()), span=span, records={"shard_mb": 1})


def compute(window: Path, out: Path) -> dict[str, bytes]:
    """Runs both nodes over the spans in `window`, and returns the content of what they write, but for times."""
    examples = []
    for span in SPANS:
        artifact = standard_artifacts.Examples()
        artifact.uri, artifact.span = str(window / str(span) / "examples"), span
        artifact.split_names = artifact_utils.encode_split_names(["train", "eval"])
        artifact.set_string_custom_property(FINGERPRINT, f"print {span}")
        examples.append(artifact)
    statistics, source = standard_artifacts.ExampleStatistics(), SeriesSource.of(CONFIG, "day")
    statistics.uri = str(out / "statistics")
    options = {"series": source.to_json(), "options": json.dumps({"unit": "day", "folder": str(out / "summaries")})}
    context = StatisticsExecutor.Context(beam_pipeline_args=BEAM, tmp_dir=str(out / "temporary"), unique_id="1")
    StatisticsExecutor(context).Do({"examples": examples}, {"statistics": [statistics]}, options)
    files = {
        split: [str(file) for span in SPANS for file in sorted((window / str(span)).glob(f"examples/Split-{split}/*"))]
        for split in ("train", "eval")
    }
    rows = {split: sum(_rows(window / str(span), split) for span in SPANS) for split in files}
    full_pass = FullPass(
        preprocessing=CONFIG,
        schema=raw_schema(CONFIG),
        examples=files,
        rows=rows,
        graph=str(out / "graph"),
        transformed=str(out / "transformed"),
        layout=RecordsConfig().layout(gzip=False),
        temporary=str(out / "temporary2"),
        spans=tuple(
            TrainSpan(str(n), f"print {n}", tuple(f for f in files["train"] if f"/{n}/examples/" in f)) for n in SPANS
        ),
        cache=str(out / "cache"),
    )
    with local_pipeline() as pipeline:
        run_full_pass(full_pass, pipeline)
    finish_full_pass(full_pass)
    found = {}
    for folder in ("statistics", "transformed", "cache", "graph/transform_fn/assets"):
        paths = [path for path in (out / folder).rglob("*") if path.is_file() and path.name != "uses.json"]
        assert paths, folder
        found |= {f"{folder}/{path.relative_to(out / folder)}": path.read_bytes() for path in paths}
    store = SummaryStore(str(out / "summaries"), source)
    summaries = [store.read(span, f"print {span}") for span in SPANS]
    return {**found, "summaries": json.dumps([s and s.to_json() | {"time": 0} for s in summaries]).encode()}


def _rows(folder: Path, split: str) -> int:
    return json.loads((folder / "examples" / "ingest.json").read_text())["written"][split]


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    folder = tmp_path_factory.mktemp("window")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "LEAST_BYTES", 40_000)
        for span in SPANS:
            write_span(folder / str(span), span)
    assert len(list(folder.glob("*/examples/Split-train/*"))) > 4
    return folder


def test_both_nodes_write_what_they_write_from_records(window, tmp_path, monkeypatch):
    bare = shutil.copytree(window, tmp_path / "bare", ignore=shutil.ignore_patterns("columns"))
    expected = compute(bare, tmp_path / "from_records")

    def refuse(*_, **__):
        raise AssertionError("records are read")

    monkeypatch.setattr(read_records, "record_batches", refuse)
    found = compute(window, tmp_path / "from_columns")
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    with pytest.raises(Exception, match="records are read"):
        compute(bare, tmp_path / "again")
