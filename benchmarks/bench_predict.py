"""Compares `fullpass predict` with TFX's BulkInferrer on the same rows and the same model.

    python -m benchmarks.bench_predict [--rows 300000] [--model serving/]

The rows are the taxi trips in TFX, repeated. The model is that of examples/taxi, which is trained first unless --model
names its folder. BulkInferrer fails at a signature that returns text, so it gets a copy of the export that returns
scores only; Fullpass writes all columns, the class and its probabilities. Each side runs in a fresh process, on one
worker of Beam; the seconds are without imports. BulkInferrer reads TFRecords, Fullpass the CSV. Afterwards the scores
of each row are compared.
"""

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, islice, repeat
from pathlib import Path

from benchmarks.common import Ratio, package_file, peak_mib, print_ratios, taxi_model, time_command, write_results

ROW = "row"
"""Column with the number of a row: BulkInferrer keeps no order."""


def write_rows(path: Path, rows: int) -> None:
    """Writes `rows` taxi trips as CSV, with their numbers."""
    with package_file("tfx", "examples/chicago_taxi_pipeline/data/simple/data.csv").open(newline="") as file:
        header, *trips = csv.reader(file)
    with path.open("w", encoding="utf-8", newline="") as file:
        numbered = enumerate(islice(chain.from_iterable(repeat(trips)), rows))
        csv.writer(file).writerows([[ROW, *header], *([number, *trip] for number, trip in numbered)])


def prepare_stock(model: Path, work: Path) -> None:
    """Writes the rows as tf.Examples, and a copy of the export that returns scores only."""
    import pyarrow as pa
    import tensorflow as tf

    from fullpass.components.ingest.readers.convert_rows import convert_rows
    from fullpass.components.ingest.readers.read_source import read_rows
    from fullpass.components.ingest.readers.rows import Reading
    from fullpass.components.ingest.writing.encode import encode_rows, examples_as_bytes
    from fullpass.components.predict.exported import load_export
    from fullpass.components.predict.input_source import input_files, input_source
    from fullpass.preprocessing.columns.raw_columns import RawColumn

    exported = load_export(model)
    how = input_source(exported.training.source, str(work / "rows.csv"), {})
    [file] = input_files(how.source, str(work / "rows.csv"))
    columns = {**exported.columns, ROW: RawColumn(ROW, "string")}
    reading = Reading(file, columns)
    (work / "examples" / "Split-all").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(work / "examples" / "Split-all" / "examples-00000-of-00001")) as writer:
        for rows in read_rows(reading, how.source):
            arrays, good = convert_rows(columns.values(), how.text, reading, rows)
            for record in examples_as_bytes(encode_rows(arrays).filter(pa.array(good))):
                writer.write(record)
    loaded = tf.saved_model.load(str(exported.directory))
    module = tf.Module()
    module.loaded = loaded

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def scores(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": loaded.signatures["serving_default"](examples=examples)["scores"]}

    tf.saved_model.save(module, str(work / "scores" / "Format-Serving"), signatures={"serving_default": scores})


def stock(model: Path, work: Path) -> None:
    """Runs BulkInferrer."""
    from tfx import v1 as tfx
    from tfx.components.bulk_inferrer.executor import Executor
    from tfx.types import standard_artifacts
    from tfx.utils.proto_utils import proto_to_json

    from benchmarks.ingest_side import ONE_WORKER
    from fullpass.preprocessing.internals.prism import without_prism

    examples, scores, result = (
        standard_artifacts.Examples(), standard_artifacts.Model(), standard_artifacts.InferenceResult()
    )  # fmt: skip
    examples.uri, scores.uri, result.uri = (str(work / name) for name in ("examples", "scores", "logs"))
    examples.split_names = '["all"]'
    context = Executor.Context(
        beam_pipeline_args=[*ONE_WORKER, *without_prism()], tmp_dir=str(work / "temp"), unique_id="1"
    )
    properties = {
        "model_spec": proto_to_json(tfx.proto.ModelSpec(model_signature_name=["serving_default"])),
        "data_spec": proto_to_json(tfx.proto.DataSpec()),
    }
    timed(
        lambda: Executor(context).Do(
            {"examples": [examples], "model": [scores]}, {"inference_result": [result]}, properties
        )
    )


def ours(model: Path, work: Path) -> None:
    """Predicts in one process, without Beam."""
    from fullpass.components.predict.exported import load_export
    from fullpass.components.predict.predict import predict_tables, write_predictions

    timed(
        lambda: write_predictions(predict_tables(load_export(model), str(work / "rows.csv")), str(work / "one.parquet"))
    )


def ours_on_beam(model: Path, work: Path) -> None:
    """Predicts on one worker of Beam."""
    from benchmarks.ingest_side import ONE_WORKER
    from fullpass.components.predict.predict_parts import Batch, predict_parts
    from fullpass.preprocessing.internals.prism import without_prism

    batch = Batch(str(model), str(work / "rows.csv"), str(work / "parts.parquet"), {})
    timed(lambda: predict_parts(batch, lambda _: [*ONE_WORKER, *without_prism()]))


def timed(run: Callable[[], object]) -> None:
    """Prints the wall and CPU seconds of a call, and the peak MiB of the process."""
    start, cpu = time.perf_counter(), time.process_time()
    run()
    measured = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "peak_mib": peak_mib()}
    sys.stdout.write(json.dumps(measured) + "\n")


def compare(model: Path, work: Path) -> None:
    """Prints the number of rows of each side, and the largest difference of a score from BulkInferrer's."""
    import numpy as np
    import pyarrow.parquet as pq
    from tensorflow.core.example.example_pb2 import Example
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    from fullpass.components.ingest.sources.storage import open_binary
    from fullpass.trainer.records.frames import read_frames

    of_stock: dict[int, float] = {}
    for path in (work / "logs").iterdir():
        with open_binary(str(path)) as file:
            for record in read_frames(file):
                log = PredictionLog.FromString(record).predict_log
                [tensor] = log.request.inputs.values()
                [example] = tensor.string_val
                [number] = Example.FromString(example).features.feature[ROW].bytes_list.value
                [of_stock[int(number)]] = log.response.outputs["scores"].float_val
    expected = np.array([of_stock[number] for number in range(len(of_stock))])
    found = {name: pq.read_table(work / f"{name}.parquet", columns=[ROW, "probability_1"]) for name in ("one", "parts")}
    in_order = all((table[ROW].cast("int64").to_numpy() == np.arange(len(table))).all() for table in found.values())
    largest = max(float(np.abs(table["probability_1"].to_numpy() - expected).max()) for table in found.values())
    sys.stdout.write(json.dumps({"rows": len(expected), "in_order": in_order, "largest": largest}) + "\n")


SIDES = {"prepare": prepare_stock, "stock": stock, "ours": ours, "ours-beam": ours_on_beam, "compare": compare}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--model", type=Path, help="folder of the taxi model, or of its versions")
    parser.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)  # set in the process of a side
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        SIDES[arguments.side](arguments.model, arguments.work)
        return
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        model = taxi_model(arguments.model, work)
        write_rows(work / "rows.csv", arguments.rows)
        found = {}
        for side in SIDES:
            log = work / f"{side}.log"
            command = [sys.executable, "-m", "benchmarks.bench_predict", "--side", side, "--work", str(work)]
            time_command([*command, "--model", str(model)], log=log)
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
            found[side] = json.loads(lines[-1]) if lines else {}
    ratios = []
    for side, name in (("ours", "one process"), ("ours-beam", "Beam, one worker")):
        of_stock, of_ours = found["stock"], found[side]
        ratios += [
            Ratio(
                f"{name}: rate",
                arguments.rows / of_stock["seconds"],
                arguments.rows / of_ours["seconds"],
                "rows/s",
                "higher",
            ),
            Ratio(f"{name}: processor", of_stock["cpu"], of_ours["cpu"], "s"),
            Ratio(f"{name}: peak memory", of_stock["peak_mib"], of_ours["peak_mib"], "MiB"),
        ]
    print_ratios(f"{arguments.rows:,} taxi trips", ratios, headings=("BulkInferrer", "Fullpass"))
    print(
        f"rows compared: {found['compare']['rows']:,}; all in order: {found['compare']['in_order']}; largest "
        f"difference of a score: {found['compare']['largest']:.2g}"
    )
    write_results("predict", ratios, found)


if __name__ == "__main__":
    main()
