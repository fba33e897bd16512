"""A training that is interrupted by a real signal to a real process resumes where it stopped."""

import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.config import CheckpointConfig
from fullpass.trainer.fit.checkpoints import Checkpoints, folder_for, time
from fullpass.trainer.run_fn import run_fn
from tests import REPOSITORY, warm_process
from tests.trainer.conftest import training_of

pytestmark = pytest.mark.integration

RUN = """
import os, pickle, sys
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
from fullpass.trainer.fit.checkpoints import Checkpoints
from fullpass.trainer.run_fn import run_fn
number, updates, due = int(sys.argv[2]), int(sys.argv[3]), Checkpoints.due

def signal_itself(checkpoints, step):
    print(step, flush=True)
    if step == updates:
        os.kill(os.getpid(), number)
    return due(checkpoints, step)

Checkpoints.due = signal_itself
run_fn(pickle.load(open(sys.argv[1], "rb")))
"""
TRAINING = {
    "epochs": 3,
    "batch_size": 10,
    "learning_rate": 0.003,
    "steps_per_execution": 10,
    "early_stopping": {"patience": 3},
    "checkpoint": {"every_steps": 20, "every_seconds": None},
}
MODEL = {"kind": "mlp", "hidden": [16], "dropout": 0.3, "batch_norm": True}


def few(planted):
    return planted("binary").of("x", "kind", "tags")


def fn_args(planted, folder: Path, **sections):
    return few(planted).fn_args(folder, **{"model": MODEL, "training": TRAINING} | sections)


def run_here(args) -> dict:
    run_fn(args)
    return training_of(Path(args.model_run_dir).parent)


def cut_short(args, folder: Path, number: int, updates: int) -> tuple[int, int]:
    """Trains in a process that sends itself a signal after `updates` updates.

    Returns its exit code, and the number of updates after its first ten.

    A signal from outside would arrive at a slightly different time in each run, sometimes during a checkpoint.
    """
    folder.mkdir(exist_ok=True)
    (folder / "args").write_bytes(pickle.dumps(args))
    command = [sys.executable, "-c", RUN, str(folder / "args"), str(int(number)), str(updates)]
    done = warm_process.run(command, cwd=REPOSITORY, timeout=600)
    assert done.returncode < 0, done.stderr[-3000:]
    return done.returncode, int(done.stdout.split()[0])


def saved(folder: Path) -> int:
    """Returns the number of updates before the newest checkpoint."""
    found = [int(path.stem.split("-")[-1]) for path in (folder / "work").glob("*/ckpt-*.index")]
    return max(found, default=0)


def whole(prepared, base=None, **sections):
    """Returns what a training makes that nothing interrupts."""
    return prepared.trained(base=base, **{"model": MODEL, "training": TRAINING} | sections)[1]


def same_curve(resumed: dict, expected) -> None:
    for name in ("loss", "val_loss", "val_log_loss", "val_auc"):
        np.testing.assert_allclose(resumed["history"][name], expected.history[name], rtol=1e-12, err_msg=name)
    assert resumed["best_epoch"] == expected.best_epoch


@pytest.mark.parametrize("cache", ["memory", pytest.param("none", marks=pytest.mark.long)])
def test_a_training_goes_on_in_the_middle_of_an_epoch_after_each_signal_and_another_does_not(planted, tmp_path, cache):
    args = fn_args(planted, tmp_path, input={"cache": cache})
    assert cut_short(args, tmp_path, signal.SIGTERM, 90) == (-signal.SIGTERM, 10)
    assert saved(tmp_path) == 90, "saved where it was told to stop"
    assert cut_short(args, tmp_path, signal.SIGKILL, 150) == (-signal.SIGKILL, 100)
    assert saved(tmp_path) == 140, "saved every 20, in the middle of an epoch of 100"
    assert not (tmp_path / "model_run" / "training.json").exists()

    other = fn_args(planted, tmp_path / "other", training={**TRAINING, "epochs": 1, "learning_rate": 0.002})
    other.custom_config["work"] = args.custom_config["work"]
    assert run_here(other)["resumed_at_update"] == 0
    assert saved(tmp_path) == 140, "what another training left stays"

    resumed = run_here(args)
    assert resumed["resumed_at_update"] == 140
    same_curve(resumed, whole(few(planted), input={"cache": cache}).fitted)
    assert not any((tmp_path / "work").iterdir()), "removed after success"


@pytest.mark.long
def test_a_warm_start_that_was_killed_goes_on_from_its_checkpoint_not_from_the_base(planted, exported, tmp_path):
    base = exported("binary").directory
    sections = {"model": "wide_deep", "training": {**TRAINING, "epochs": 2, "warm_start": "blessed"}}
    args = fn_args(planted, tmp_path, **sections)
    args.base_model = str(base)
    assert cut_short(args, tmp_path, signal.SIGKILL, 130) == (-signal.SIGKILL, 10)
    resumed = run_here(args)
    assert resumed["resumed_at_update"] == 120 and resumed["warm_start"]["anew"] == 0
    same_curve(resumed, whole(few(planted), base, **sections).fitted)


@pytest.mark.long
def test_a_killed_choice_of_trees_or_a_network_goes_on_in_the_network(planted, tmp_path, monkeypatch):
    """The trees grow again quickly; the network does not restart from the beginning."""
    training = {**TRAINING, "epochs": 2}
    args = fn_args(planted, tmp_path, model="auto", training=training)
    assert cut_short(args, tmp_path, signal.SIGKILL, 130) == (-signal.SIGKILL, 10)
    assert saved(tmp_path) == 120
    updates, due = [], Checkpoints.due
    monkeypatch.setattr(Checkpoints, "due", lambda own, step: updates.append(step) or due(own, step))
    resumed = run_here(args)
    assert min(updates) > 120
    expected = whole(few(planted), model="auto", training=training).compared
    assert resumed["compared"] == pytest.approx(expected, rel=1e-12)
    assert not any((tmp_path / "work").iterdir()), "removed after success"


def test_only_what_decides_a_training_decides_its_folder(tmp_path):
    data = tmp_path / "data"
    data.write_text("one")
    first = folder_for("work", [str(data)], {"a": 1, "b": 2})
    assert folder_for("work", [str(data)], {"b": 2, "a": 1}) == first
    assert folder_for("work", [str(data)], {"a": 1, "b": 3}) != first
    data.write_text("three")
    assert folder_for("work", [str(data)], {"a": 1, "b": 2}) != first


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    weight = tf.Variable([1.0, 2.0])

    def opened() -> Checkpoints:
        return Checkpoints(str(tmp_path), CheckpointConfig(), {"model": [weight]}, chief=True)

    checkpoints = opened()
    checkpoints.save("first", 1)
    weight.assign([3.0, 4.0])
    checkpoints.save("second", 2)
    weight.assign([9.0, 9.0])
    assert opened().restore() == "second"
    assert weight.numpy().tolist() == [3.0, 4.0]
    (tmp_path / "ckpt-2.index").write_bytes(b"")
    assert opened().restore() == "first"
    assert weight.numpy().tolist() == [1.0, 2.0]
    (tmp_path / "ckpt-1.data-00000-of-00001").unlink()
    assert opened().restore() is None


def test_checkpoints_take_a_hundredth_of_the_time_by_default(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    checkpoints = Checkpoints(str(tmp_path), CheckpointConfig(), {"model": [tf.Variable(1.0)]}, chief=True)
    clock[0] = 9.0
    assert not checkpoints.due(1)
    clock[0] = 10.0
    assert checkpoints.due(1)
    monkeypatch.setattr(checkpoints._writer, "save", lambda **_: clock.__setitem__(0, clock[0] + 3.0))
    checkpoints.save("", 1)
    clock[0] += 299.0
    assert not checkpoints.due(2)
    clock[0] += 2.0
    assert checkpoints.due(2)
