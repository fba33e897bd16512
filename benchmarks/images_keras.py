"""Trains a plain Keras network on image files in its own process, as in Keras' example of 28 x 28 pixels.

    python -m benchmarks.images_keras FOLDER --accuracy 0.98 [--epochs 30]

FOLDER holds train/CLASS/*.png and test/CLASS/*.png. Training ends after the epoch that reaches the accuracy on test.
The program prints a JSON object: the best accuracy, the epochs, and the images per second of an epoch after the first.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import keras
import tensorflow as tf
from PIL import Image

BATCH = 128


def read(folder: Path, size: tuple[int, int], *, train: bool) -> tf.data.Dataset:
    """Returns the images of a folder in batches, kept in memory, and shuffled for training."""
    images = keras.utils.image_dataset_from_directory(
        folder, batch_size=BATCH, color_mode="grayscale", image_size=size, shuffle=train, seed=1
    )
    return images.cache().prefetch(tf.data.AUTOTUNE)


def network(size: tuple[int, int], classes: int) -> keras.Model:
    """Returns a network of two convolutions."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((*size, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(classes, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


class UntilAccurate(keras.callbacks.Callback):
    """Ends the training after the epoch that reaches an accuracy; keeps the seconds of each epoch."""

    def __init__(self, accuracy: float):
        super().__init__()
        self._accuracy, self._began = accuracy, 0.0
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._began)
        self.model.stop_training = logs["val_accuracy"] >= self._accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--accuracy", type=float, required=True, help="accuracy on test that ends the training")
    parser.add_argument("--epochs", type=int, default=30, help="the most epochs")
    arguments = parser.parse_args()
    classes = sorted(folder for folder in (arguments.folder / "train").iterdir())
    files = list((arguments.folder / "train").glob("*/*.png"))
    with Image.open(files[0]) as first:
        size = (first.height, first.width)
    train, test = (read(arguments.folder / name, size, train=name == "train") for name in ("train", "test"))
    until = UntilAccurate(arguments.accuracy)
    model = network(size, len(classes))
    history = model.fit(train, validation_data=test, epochs=arguments.epochs, callbacks=[until], verbose=0).history
    rate = len(files) / statistics.median(until.seconds[1:] or until.seconds)
    accuracies = history["val_accuracy"]
    print(json.dumps({"accuracy": max(accuracies), "epochs": len(accuracies), "images_per_second": rate}))


if __name__ == "__main__":
    main()
