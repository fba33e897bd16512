"""Runs one side of bench_ingest in its own process: one ExampleGen, one Beam worker, one input file.

    python -m benchmarks.ingest_side SIDE FILE OUTPUT --result RESULT.json

SIDE is stock or ours. The suffix of FILE, .csv or .parquet, sets the format. RESULT receives the wall and CPU seconds
of the executor, without imports, and the peak resident MiB of the process. `--check` then reads the records back.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import tensorflow as tf
from tfx import types
from tfx.components.example_gen.csv_example_gen.executor import Executor as CsvExecutor
from tfx.components.example_gen.custom_executors.parquet_executor import Executor as ParquetExecutor
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts, standard_component_specs
from tfx.utils import proto_utils

from benchmarks.common import peak_mib
from fullpass.components.ingest.component import Ingest, IngestExecutor
from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import CsvSource, ParquetSource
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.spans import Window
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.prism import without_prism

ONE_WORKER = (
    "--runner=DirectRunner",
    "--direct_running_mode=in_memory",
    "--direct_num_workers=1",
    "--sdk_container_image=none",  # otherwise TFX first builds its own source package, 2.7 s on either side
)
RATIOS: Mapping[str, int] = MappingProxyType({"train": 2, "eval": 1})


def stock(file: Path, output: Path) -> dict[str, float]:
    """Returns the seconds of TFX's own ExampleGen on the file."""
    executor = {".csv": CsvExecutor, ".parquet": ParquetExecutor}[file.suffix]
    pattern = example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=file.name)])
    buckets = [example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=buckets) for name, buckets in RATIOS.items()]
    splits = example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=buckets))
    properties = {
        standard_component_specs.INPUT_BASE_KEY: str(file.parent),
        standard_component_specs.INPUT_CONFIG_KEY: proto_utils.proto_to_json(pattern),
        standard_component_specs.OUTPUT_CONFIG_KEY: proto_utils.proto_to_json(splits),
        standard_component_specs.OUTPUT_DATA_FORMAT_KEY: example_gen_pb2.FORMAT_TF_EXAMPLE,
        standard_component_specs.OUTPUT_FILE_FORMAT_KEY: example_gen_pb2.FORMAT_TFRECORDS_GZIP,
    }
    return _do(executor, output, properties)


def ours(file: Path, output: Path, *, compression: str) -> dict[str, float]:
    """Returns the seconds of Ingest on the file, with the column types of the Parquet file."""
    path = str(file)
    source: Any = (
        CsvSource(format="csv", path=path) if file.suffix == ".csv" else ParquetSource(format="parquet", path=path)
    )
    config = IngestConfig(
        source=source,
        split=RandomSplit(method="random", ratios={name: float(share) for name, share in RATIOS.items()}),
        records=RecordsConfig(),
        bad_rows=BadRows(max_fraction=0.0),
    )
    files = find_inputs(source, lambda path: path)
    schema = pa.parquet.read_schema(file.with_suffix(".parquet"))
    columns = {f.name: RawColumn(f.name, "string" if pa.types.is_string(f.type) else "number") for f in schema}
    request = Request(config, tuple(RATIOS), tuple(columns.values()), compression == "gzip")
    component = Ingest(request.with_window(Window(None, (Span(0, files),)), ()))
    return _do(IngestExecutor, output, dict(component.exec_properties))


def _do(executor: type[BaseBeamExecutor], output: Path, properties: Mapping[str, Any]) -> dict[str, float]:
    examples = standard_artifacts.Examples()
    examples.uri = str(output)
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=[*ONE_WORKER, *without_prism()], tmp_dir=str(output / ".temp"), unique_id="1"
    )
    artifacts: dict[str, list[types.Artifact]] = {"examples": [examples]}
    start, cpu = time.perf_counter(), time.process_time()
    executor(context).Do({}, artifacts, dict(properties))
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


def written(output: Path, column: str) -> dict[str, int]:
    """Returns the number of records, the number in which `column` has a value, and the bytes on disk."""
    files = [str(path) for path in output.glob("Split-*/*") if path.is_file()]
    compression = "GZIP" if files[0].endswith(".gz") else ""
    rows = present = 0
    kind = None
    for batch in tf.data.TFRecordDataset(files, compression_type=compression).batch(8192):
        kind = kind or _kind(batch, column)
        values = tf.io.parse_example(batch, {column: tf.io.RaggedFeature(kind)})[column]
        rows += int(batch.shape[0])
        present += int(tf.size(values.flat_values))
    return {"rows": rows, "present": present, "bytes": sum(Path(file).stat().st_size for file in files)}


def _kind(records: tf.Tensor, column: str) -> tf.DType:
    """Returns the dtype of a numeric column: stock TFX keeps integers as int64, Ingest writes float32 only."""
    features = (tf.train.Example.FromString(record).features.feature for record in records.numpy())
    return next(
        tf.int64 if feature[column].int64_list.value else tf.float32
        for feature in features
        if feature[column].WhichOneof("kind")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=["stock", "ours"])
    parser.add_argument("file", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--compression", choices=["none", "gzip"], default="none", help="for ours; stock has gzip only")
    parser.add_argument("--check", metavar="COLUMN", help="read the records back; count where COLUMN has a value")
    arguments = parser.parse_args()
    if arguments.side == "stock":
        result: dict[str, Any] = stock(arguments.file, arguments.output)
    else:
        result = ours(arguments.file, arguments.output, compression=arguments.compression)
    result["peak_mib"] = peak_mib()
    if arguments.check:
        result |= written(arguments.output, arguments.check)
    arguments.result.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
