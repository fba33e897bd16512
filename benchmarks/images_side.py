"""Runs one side of bench_images in its own process: repeated passes over the augmented images of a train split.

    python -m benchmarks.images_side plain --files GLOB --size 160 [--antialias]
    python -m benchmarks.images_side ours --yaml FILE --root FOLDER

`plain` is a tf.data pipeline as in tf.data's performance guide and TensorFlow's image tutorial: decode in parallel,
cache, shuffle, batch, augment in parallel, prefetch. `ours` reads as the Trainer does and augments as the model does.
The program prints a JSON object: wall and CPU seconds of the first pass (from files to the last batch) and of the later
passes (median), the number of images, and peak MiB.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.common import peak_mib
from benchmarks.input_side import passes_of
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.diagnose.diagnose import newest_training
from fullpass.pipeline.diagnose.profiled_training import DiagnosedTraining
from fullpass.preprocessing.features.image_feature import Augment
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.input.placement import placement_of
from fullpass.trainer.models.augment_images import AugmentImages
from fullpass.trainer.models.model_inputs import transformed_outputs

BATCH = 32
_SHUFFLE = 1000
_FLIP, _BRIGHTNESS = "horizontal", 0.1


def plain(files: str, size: int, *, antialias: bool) -> tuple[Iterator[None], int]:
    """Returns passes over image files, with the input written as in TensorFlow's guides, and the number of files."""
    listed = tf.data.Dataset.list_files(files, seed=1)
    paths = tf.io.gfile.glob(files)
    classes = tf.constant(sorted({path.split("/")[-2] for path in paths}))

    def read(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        label = tf.argmax(tf.equal(tf.strings.split(path, "/")[-2], classes))
        image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        return tf.image.resize(image, [size, size], antialias=antialias), label

    def augment(images: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        images = tf.image.random_flip_left_right(images)
        return tf.image.random_brightness(images, 255.0 * _BRIGHTNESS), label

    dataset = listed.map(read, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(_SHUFFLE).batch(BATCH)
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE).repeat().prefetch(tf.data.AUTOTUNE)
    return passes_of(dataset, -(-len(paths) // BATCH)), len(paths)


def ours(training: DiagnosedTraining) -> tuple[Iterator[None], int]:
    """Returns passes over the train split of a run, read as in the Trainer, and its number of rows."""
    spec, output = training.spec, training.spec.tft_output
    placement = placement_of(spec.preprocessing, transformed_outputs(spec.preprocessing, output))
    decode = decoder(output, placement, placement.read, classes=0)
    rows = RowSpec(decode, add_model_features=None, task="multiclass", classes=2)
    split = load_split("train", training.files, rows, ReadingPlan(readers=len(training.files)))
    augment = AugmentImages(Augment(flip=_FLIP, brightness=_BRIGHTNESS), np.zeros(3))

    def augmented(features: dict[str, tf.Tensor], *_: tf.Tensor) -> tf.Tensor:
        (images,) = features.values()
        return tf.reduce_sum(augment(images, training=True)[:, 0, 0, 0])

    batches = split.batches(BatchOrder(batch_size=BATCH, shuffle=100_000, seed=1))
    return passes_of(batches, -(-split.counts.weighted_rows // BATCH), augmented), split.counts.weighted_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=["plain", "ours"])
    parser.add_argument("--files", help="glob pattern of the images, for plain")
    parser.add_argument("--size", type=int, help="height and width in pixels, for plain")
    parser.add_argument("--antialias", action="store_true", help="let plain resize with antialiasing, as ours does")
    parser.add_argument("--yaml", type=Path)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--passes", type=int, default=4, help="number of passes after the first")
    arguments = parser.parse_args()
    training = newest_training(load(arguments.yaml), arguments.root) if arguments.side == "ours" else None
    started, busy = time.perf_counter(), time.process_time()
    if training is not None:
        passes, images = ours(training)
    else:
        passes, images = plain(arguments.files, arguments.size, antialias=arguments.antialias)
    next(passes)
    first, cpu = time.perf_counter() - started, time.process_time() - busy
    later, later_cpu = [], []
    for _ in range(arguments.passes):
        started, busy = time.perf_counter(), time.process_time()
        next(passes)
        later.append(time.perf_counter() - started)
        later_cpu.append(time.process_time() - busy)
    figures = {"images": images, "first": first, "first_cpu": cpu, "peak_mib": peak_mib()}
    print(json.dumps({**figures, "later": statistics.median(later), "later_cpu": statistics.median(later_cpu)}))


if __name__ == "__main__":
    main()
