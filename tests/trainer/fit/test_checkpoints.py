"""A training that is interrupted by a real signal to a real process resumes where it stopped."""

import json
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

pytestmark = pytest.mark.integration

RUN = """
import os, pickle, sys
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
from fullpass.trainer.fit.checkpoints import Checkpoints
from fullpass.trainer.run_fn import run_fn
number, updates, due = int(sys.argv[2]), int(sys.argv[3]), Checkpoints.due

def signal_itself(checkpoints, step):
    if step == updates:
        os.kill(os.getpid(), number)
    return due(checkpoints, step)

Checkpoints.due = signal_itself
run_fn(pickle.load(open(sys.argv[1], "rb")))
"""
TRAINING = {
    "epochs": 4,
    "batch_size": 10,
    "learning_rate": 0.003,
    "steps_per_execution": 10,
    "early_stopping": {"patience": 3},
    "checkpoint": {"every_steps": 20, "every_seconds": None},
}
MODEL = {"kind": "mlp", "hidden": [16], "dropout": 0.3, "batch_norm": True}


def fn_args(planted, folder: Path, **sections):
    return planted("binary").fn_args(folder, **{"model": MODEL, "training": TRAINING} | sections)


def run_here(args) -> dict:
    run_fn(args)
    return json.loads((Path(args.model_run_dir) / "training.json").read_text())


def cut_short(args, folder: Path, number: int, updates: int) -> int:
    """Trains in a process that sends itself a signal after `updates` updates; returns its exit code.

    A signal from outside would arrive at a slightly different time in each run, sometimes during a checkpoint.
    """
    folder.mkdir(exist_ok=True)
    (folder / "args").write_bytes(pickle.dumps(args))
    root = REPOSITORY
    command = [sys.executable, "-c", RUN, str(folder / "args"), str(int(number)), str(updates)]
    done = warm_process.run(command, cwd=root, timeout=600)
    assert done.returncode < 0, done.stderr[-3000:]
    return done.returncode


def saved(folder: Path) -> int:
    """Returns the number of updates before the newest checkpoint."""
    found = [int(path.stem.split("-")[-1]) for path in (folder / "work").glob("*/ckpt-*.index")]
    return max(found, default=0)


def same_curve(left: dict, right: dict) -> None:
    for name in ("loss", "val_loss", "val_log_loss", "val_auc"):
        np.testing.assert_allclose(left["history"][name], right["history"][name], rtol=1e-12, err_msg=name)
    assert left["best_epoch"] == right["best_epoch"]


@pytest.fixture(scope="module")
def uninterrupted(planted, tmp_path_factory):
    return run_here(fn_args(planted, tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize("cache", ["none", pytest.param("memory", marks=pytest.mark.long)])
def test_a_killed_training_goes_on_in_the_middle_of_an_epoch(planted, uninterrupted, tmp_path, cache):
    whole = uninterrupted
    if cache == "none":
        whole = run_here(fn_args(planted, tmp_path / "whole", input={"cache": cache}))
    args = fn_args(planted, tmp_path / "cut", input={"cache": cache})
    assert cut_short(args, tmp_path / "cut", signal.SIGKILL, 150) == -signal.SIGKILL
    assert not (tmp_path / "cut" / "model_run" / "training.json").exists()
    resumed = run_here(args)
    assert resumed["resumed_at_update"] == 140, "saved every 20, in the middle of an epoch of 100"
    same_curve(resumed, whole)
    assert not any((tmp_path / "cut" / "work").iterdir()), "removed after success"


def test_a_warm_start_that_was_killed_goes_on_from_its_checkpoint_not_from_the_base(planted, tmp_path):
    base = fn_args(planted, tmp_path / "base", training={**TRAINING, "epochs": 1})
    run_here(base)

    def warm(folder):
        args = fn_args(planted, folder, training={**TRAINING, "epochs": 2, "warm_start": "blessed"})
        args.base_model = base.serving_model_dir
        return args

    whole = run_here(warm(tmp_path / "whole"))
    args = warm(tmp_path / "cut")
    assert cut_short(args, tmp_path / "cut", signal.SIGKILL, 130) == -signal.SIGKILL
    resumed = run_here(args)
    assert resumed["resumed_at_update"] == 120 and resumed["warm_start"]["anew"] == 0
    same_curve(resumed, whole)


def test_a_request_to_stop_saves_first_then_has_its_usual_effect(planted, uninterrupted, tmp_path):
    args = fn_args(planted, tmp_path, training={**TRAINING, "checkpoint": {"every_steps": 80, "every_seconds": None}})
    assert cut_short(args, tmp_path, signal.SIGTERM, 90) == -signal.SIGTERM
    assert saved(tmp_path) == 90, "saved where it was told to stop"
    resumed = run_here(args)
    assert resumed["resumed_at_update"] == 90
    same_curve(resumed, uninterrupted)


@pytest.mark.long
def test_a_killed_choice_of_trees_or_a_network_goes_on_in_the_network(planted, tmp_path, monkeypatch):
    """The trees grow again quickly; the network does not restart from the beginning."""
    training = {**TRAINING, "epochs": 2}
    whole = run_here(fn_args(planted, tmp_path / "whole", model="auto", training=training))
    args = fn_args(planted, tmp_path / "cut", model="auto", training=training)
    assert cut_short(args, tmp_path / "cut", signal.SIGKILL, 130) == -signal.SIGKILL
    assert saved(tmp_path / "cut") == 120
    updates, due = [], Checkpoints.due
    monkeypatch.setattr(Checkpoints, "due", lambda own, step: updates.append(step) or due(own, step))
    resumed = run_here(args)
    assert min(updates) > 120
    assert resumed["compared"] == pytest.approx(whole["compared"], rel=1e-12)
    assert not any((tmp_path / "cut" / "work").iterdir()), "removed after success"


def test_a_training_of_something_else_does_not_go_on_from_there(planted, tmp_path):
    cut_short(fn_args(planted, tmp_path), tmp_path, signal.SIGKILL, 70)
    other = run_here(fn_args(planted, tmp_path, training={**TRAINING, "epochs": 1, "learning_rate": 0.002}))
    assert other["resumed_at_update"] == 0
    assert saved(tmp_path) == 60, "what another training left stays"


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
