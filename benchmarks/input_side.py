"""Runs one side of bench_input in its own process: reads transformed examples epoch after epoch.

    python -m benchmarks.input_side SIDE --examples GLOB --graph FOLDER --work FOLDER [--batch 1024] [--epochs 5]

SIDE is stock (TFXIO's TensorFlowDataset, with the options of TFX's taxi template), memory, disk or none (Fullpass with
that `input.cache`) or numpy (the same shuffled batches, sliced from arrays in memory). The program prints one JSON
object: wall and CPU seconds of the first pass (from files to its last batch, set-up included), seconds of the later
passes (median), the bytes of the rows in memory (Fullpass only), and peak MiB.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from benchmarks.common import peak_mib
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import FeaturePlacement
from fullpass.trainer.records.record_files import list_files

SHUFFLE_ROWS = 100_000


def passes_of(dataset: tf.data.Dataset, batches: int, step: Callable[..., tf.Tensor] | None = None) -> Iterator[None]:
    """Runs one pass over an infinite dataset per iteration, in a graph, as training does.

    Args:
        dataset: An infinite dataset.
        batches: Number of batches per pass.
        step: Called with the parts of each batch; it returns a number, so that the graph cannot prune it.
    """

    @tf.function(autograph=False)
    def drain(iterator: tf.data.Iterator) -> tf.Tensor:
        def one(done: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            batch = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                return done + 1, found + (0.0 if step is None else step(*batch))

        return tf.while_loop(lambda done, _: done < batches, one, [tf.constant(0), tf.constant(0.0)])

    iterator = iter(dataset)
    while True:
        drain(iterator)
        yield


def stock_passes(arguments: argparse.Namespace, rows: int) -> Iterator[None]:
    """Returns passes over the transformed examples, read as in `input_fn` of the taxi template."""
    from tfx_bsl.public.tfxio import TensorFlowDatasetOptions
    from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

    schema = tft.TFTransformOutput(arguments.graph).transformed_metadata.schema
    source = TFExampleRecord(arguments.examples, telemetry_descriptors=["bench"], schema=schema)
    options = TensorFlowDatasetOptions(batch_size=arguments.batch, label_key=LABEL)
    return passes_of(source.TensorFlowDataset(options).repeat(), -(-rows // arguments.batch))


def our_split(arguments: argparse.Namespace, cache: str) -> Split:
    """Loads the split as the Trainer does."""
    output = tft.TFTransformOutput(arguments.graph)
    names = sorted({*output.transformed_feature_spec()} - {LABEL, EXAMPLE_WEIGHT, ROW_ID})
    placement = FeaturePlacement(True, tuple(names), (), (), 0, {}, {})
    files = list_files([arguments.examples], "train")
    window = max(1 << 20, min(256 << 20, arguments.budget // 8))
    rows = RowSpec(decoder(output, placement, names), add_model_features=None, task="regression", classes=0)
    limit = 1 << 40 if cache == "memory" else 0
    return load_split("train", files, rows, ReadingPlan(2, limit, arguments.work if cache == "disk" else None, window))


def our_passes(arguments: argparse.Namespace, split: Split) -> Iterator[None]:
    """Returns passes over the split in the batches of the Trainer."""
    order = BatchOrder(batch_size=arguments.batch, shuffle=SHUFFLE_ROWS, seed=1)
    return passes_of(split.batches(order), -(-split.counts.weighted_rows // arguments.batch))


def numpy_passes(arguments: argparse.Namespace, split: Split) -> Iterator[None]:
    """Returns passes over the same rows in equal batches, sliced from one array per feature in a new order per pass."""
    arrays = {}
    for name, value in split.layout.unpack(split.in_memory or {}).items():
        arrays[name] = (value.to_tensor() if isinstance(value, tf.RaggedTensor) else value).numpy()
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(split.counts.weighted_rows)
        for start in range(0, len(order), arguments.batch):
            chosen = order[start : start + arguments.batch]
            _ = {name: array[chosen] for name, array in arrays.items()}
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=["stock", "memory", "disk", "none", "numpy"])
    parser.add_argument("--examples", required=True)
    parser.add_argument("--graph", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--budget", type=int, default=8 << 30, help="bytes allowed for the rows; a window is an eighth")
    arguments = parser.parse_args()
    started, busy, row_bytes = time.perf_counter(), time.process_time(), 0
    if arguments.side == "stock":
        passes = stock_passes(arguments, arguments.rows)
    else:
        split = our_split(arguments, "memory" if arguments.side == "numpy" else arguments.side)
        row_bytes = split.row_bytes
        passes = numpy_passes(arguments, split) if arguments.side == "numpy" else our_passes(arguments, split)
    next(passes)
    seconds, cpu = [time.perf_counter() - started], time.process_time() - busy
    for _ in range(arguments.epochs):
        started = time.perf_counter()
        next(passes)
        seconds.append(time.perf_counter() - started)
    figures = {"first": seconds[0], "later": statistics.median(seconds[1:]), "peak_mib": peak_mib()}
    figures |= {"cpu": cpu, "bytes": row_bytes * arguments.rows}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
