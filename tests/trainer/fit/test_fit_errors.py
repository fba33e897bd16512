"""A batch that does not fit into memory: real allocations fail under a memory limit of the process."""

import re
import subprocess
import sys

import pytest

from tests import REPOSITORY

RUN = """
import os, resource, sys
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
import keras
import numpy as np
import tensorflow as tf
from fullpass.base.errors import UserError
from fullpass.trainer.fit.fit import Fit
from fullpass.trainer.input.sharding import Batches
from fullpass.trainer.fit.steps import Steps
from fullpass.trainer.models.losses import loss_of

rows, accumulate = 4096, int(sys.argv[1])
features = {"x": np.ones((rows, 8), "float32")}
dataset = tf.data.Dataset.from_tensors((features, np.zeros(rows, "float32"), np.ones(rows, "float32"))).repeat()
x = keras.Input((8,), name="x")
model = keras.Model({"x": x}, keras.layers.Dense(1)(keras.layers.Dense(60_000, activation="relu")(x)))
optimizer = keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30),) * 2)
train = Batches(lambda epoch, step: dataset, 2)
small = Batches(lambda epoch, step: dataset.map(lambda f, y, w: ({"x": f["x"][:8]}, y[:8], w[:8])), 1)
calls = {"report": lambda *_: None, "on_epoch": lambda *_: None}
strategy = tf.distribute.get_strategy()
steps = Steps(model, optimizer, loss_of("binary"), "binary", strategy, accumulate)
fit = Fit(steps=steps, epochs=1, early_stopping=None, **calls)
try:
    fit.run(train, small)
    print("trained")
except UserError as error:
    print(error)
"""


def train(accumulate: int) -> str:
    command = [sys.executable, "-c", RUN, str(accumulate)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.integration
@pytest.mark.long
def test_a_batch_too_large_for_memory_is_told_with_what_fits_and_that_fits():
    """The hidden units of a batch take 4,096 x 60,000 x 4 bytes = 0.9 GiB several times; 2 GiB are available."""
    message = train(1)
    found = re.search(r"4,096 rows of a batch on one device; ([\d,]+) fit .*training.accumulate to (\d+)", message)
    assert found, message
    rows, micro_batches = (int(group.replace(",", "")) for group in found.groups())
    assert rows * micro_batches == 4096
    assert train(micro_batches).strip() == "trained"
