"""Writes the trials of a search for TensorBoard: the curves of each trial, and the data of the HParams tab."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.hparams import api_pb2, summary

from fullpass.trainer.fit.tensorboard import VALIDATION, Curves
from fullpass.trainer.tuning.config import Choices, Range, TuningConfig
from fullpass.trainer.tuning.search_space import encode


def write_search(folder: str, tuning: TuningConfig, objective: str) -> None:
    """Writes the search space: the values of each path, and the metric that trials are compared by."""
    paths = [hparams.HParam(path, _domain(spec)) for path, spec in tuning.search.items()]
    metric = hparams.Metric(objective, group=VALIDATION, display_name=f"eval {objective}")
    with tf.summary.create_file_writer(folder).as_default(step=0):
        hparams.hparams_config(hparams=paths, metrics=[metric])


@contextmanager
def trial_curves(folder: str, trial: str, values: Mapping[str, Any]) -> Iterator[Curves]:
    """Yields the curves of a trial; writes its values before the block and its final status after it."""
    own = f"{folder}/{trial}"
    curves, writer = Curves(own), tf.summary.create_file_writer(own)
    ended = api_pb2.STATUS_FAILURE
    try:
        with writer.as_default(step=0):
            hparams.hparams(dict(values), trial_id=trial)
        writer.flush()
        yield curves
        ended = api_pb2.STATUS_SUCCESS
    finally:
        with writer.as_default(step=0):
            tf.summary.experimental.write_raw_pb(summary.session_end_pb(ended).SerializeToString())
        writer.close()
        curves.close()


def copy_curves(source: str, target: str) -> None:
    """Copies the folder of all trials recursively."""
    for folder, _, names in tf.io.gfile.walk(source):
        into = f"{target}{folder.removeprefix(source)}"
        tf.io.gfile.makedirs(into)
        for name in names:
            tf.io.gfile.copy(os.path.join(folder, name), os.path.join(into, name), overwrite=True)


def _domain(spec: Range | Choices) -> hparams.Discrete | hparams.IntInterval | hparams.RealInterval:
    if isinstance(spec, Choices):
        return hparams.Discrete(encode(spec))
    if spec.whole:
        return hparams.IntInterval(int(spec.min), int(spec.max))
    return hparams.RealInterval(float(spec.min), float(spec.max))
