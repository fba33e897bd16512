"""Devices and precision."""

import json
import os
import pickle
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.export.export_files import DESCRIPTION
from fullpass.trainer.fit.optimizer import peak_learning_rate, replica_batch_size
from fullpass.trainer.fit.strategy import choose_strategy, describe_devices, precision
from fullpass.trainer.input.sharding import divide
from tests import REPOSITORY, warm_process
from tests.record_files import record_offsets, write_records
from tests.trainer.conftest import training_of


def test_auto_is_one_device_where_there_is_but_one(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = choose_strategy(TrainingConfig())
    assert (strategy.num_replicas_in_sync, describe_devices(strategy)) == (1, "CPU")


def test_a_single_gpu_is_given_its_batches_ahead(monkeypatch):
    """There is no GPU here, so an existing device is used instead."""
    for name in ("TF_CONFIG", "TPU_NAME"):
        monkeypatch.delenv(name, raising=False)
    (here,) = tf.config.list_logical_devices("CPU")
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: [here])
    strategy = choose_strategy(TrainingConfig(distribution="one_device"))
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    seen = next(iter(strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(1).batch(1))))
    assert seen.device == here.name or seen.device.endswith("CPU:0")


def test_several_workers_need_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UserError, match="TF_CONFIG names no workers"):
        choose_strategy(TrainingConfig(distribution="multi_worker"))


def test_one_worker_alone_is_no_cluster(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["localhost:1"]}}))
    assert choose_strategy(TrainingConfig()).num_replicas_in_sync == 1


@pytest.mark.integration
def test_a_tpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    with pytest.raises(UserError, match="training.distribution is tpu, but no TPU was found"):
        choose_strategy(TrainingConfig(distribution="tpu"))


def test_trees_take_no_devices_and_do_not_wait_for_workers(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "local")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert choose_strategy(TrainingConfig(), "trees") is tf.distribute.get_strategy()
    monkeypatch.setenv("TF_CONFIG", of_worker(["localhost:1", "localhost:2"], 0)["TF_CONFIG"])
    with pytest.raises(UserError, match="trains on one machine, but TF_CONFIG names several workers"):
        choose_strategy(TrainingConfig(), "trees")
    monkeypatch.delenv("TPU_NAME")
    with pytest.raises(UserError, match="kind: auto trains on one machine, but TF_CONFIG names several workers"):
        choose_strategy(TrainingConfig(), "auto")


@pytest.mark.parametrize(
    ("requested", "policy"),
    [("auto", "float32"), ("float32", "float32"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16")],
)
def test_precision_is_set_for_the_layers_built_and_then_given_back(requested, policy):
    before = keras.config.dtype_policy().name
    with precision(TrainingConfig(mixed_precision=requested)) as name:
        assert name == policy
        assert keras.layers.Dense(1).dtype_policy.name == policy
    assert keras.config.dtype_policy().name == before


@pytest.mark.parametrize(
    ("capabilities", "policy"),
    [([(9, 0)], "mixed_bfloat16"), ([(7, 5), (8, 0)], "mixed_float16"), ([(6, 1)], "float32"), ([], "float32")],
)
def test_auto_precision_goes_by_the_weakest_gpu(monkeypatch, capabilities, policy):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: capabilities if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": gpu})
    with precision(TrainingConfig()) as name:
        assert name == policy


RUN = """
import os, pickle, sys, time
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
import tensorflow as tf
if sys.argv[2] == "mirrored":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from fullpass.trainer import run_fn
export, wait = run_fn._export, float(os.environ.get("EXPORT_AFTER", "0"))
run_fn._export = lambda *args, **options: (time.sleep(wait), export(*args, **options))
run_fn.run_fn(pickle.load(open(sys.argv[1], "rb")))
open(os.path.join(os.path.dirname(sys.argv[1]), "ended"), "w").close()
"""


def start(
    planted, folder: Path, how: str, environment: dict[str, str] | None = None, **training
) -> warm_process.Process:
    folder.mkdir()
    # Replicas draw different masks. Without masks, the same rows give the same updates.
    fixed = {"epochs": 3, "learning_rate": 0.01, "batch_size": 100, "mask_rate": 0.0, "clip_norm": 0.01}
    training = fixed | {"distribution": how} | training
    args = planted("binary").of("x", "tags").fn_args(folder, model="linear", training=training)
    (folder / "args").write_bytes(pickle.dumps(args))
    command = [sys.executable, "-c", RUN, str(folder / "args"), how]
    with (folder / "errors").open("w") as errors:
        return warm_process.Process(command, cwd=REPOSITORY, env={**os.environ, **(environment or {})}, stderr=errors)


def finish(processes: dict[Path, warm_process.Process]) -> None:
    for folder, process in processes.items():
        assert process.wait(600) == 0, (folder / "errors").read_text()[-3000:]


def of_worker(addresses: list[str], index: int) -> dict[str, str]:
    """Returns the environment by which one of several workers knows the others and itself."""
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return {"TF_CONFIG": json.dumps(cluster)}


@pytest.mark.integration
def test_replicas_and_workers_learn_what_one_device_learns(planted, tmp_path):
    """The same global batches give the same updates for any distribution over devices; only worker 0 exports."""
    workers = two_addresses()
    processes = {tmp_path / how: start(planted, tmp_path / how, how) for how in ("one_device", "mirrored")}
    for index in range(2):
        folder = tmp_path / str(index)
        slow = {"EXPORT_AFTER": "3"} if index == 0 else {}
        processes[folder] = start(planted, folder, "auto", of_worker(workers, index) | slow)
    finish(processes)
    one, mirrored, chief = (training_of(tmp_path / name) for name in ("one_device", "mirrored", "0"))
    assert [found["devices"] for found in (one, mirrored, chief)] == ["CPU", "2 x CPU", "2 x CPU"]
    for found in (mirrored, chief):
        assert found["history"]["val_log_loss"] == pytest.approx(one["history"]["val_log_loss"], rel=1e-4)
        assert found["history"]["loss"] == pytest.approx(one["history"]["loss"], rel=1e-4)
    assert (tmp_path / "0" / "Format-Serving" / "saved_model.pb").exists()
    assert not (tmp_path / "1" / "Format-Serving").exists()
    # TFX looks for the export on every worker.
    exported, ended = tmp_path / "0" / "Format-Serving" / DESCRIPTION, tmp_path / "1" / "ended"
    assert ended.stat().st_mtime >= exported.stat().st_mtime
    assert not (tmp_path / "1" / "model_run" / "training.json").exists()


SHARE = """
import json, os, sys
os.environ.update(TF_USE_LEGACY_KERAS="0", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
import tensorflow as tf
import tensorflow_transform as tft
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.sharding import load_shard
from fullpass.base.errors import UserError
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.fit.strategy import choose_strategy
from fullpass.trainer.input.workers import TrainingWorkers
graph, even, few, damaged = json.loads(sys.argv[1])
workers = TrainingWorkers(choose_strategy(TrainingConfig()))
spec = tft.TFTransformOutput(graph).transformed_feature_spec()
wanted = {name: spec[name] for name in ("row_id", "label", "example_weight")}
decode = lambda serialized: tf.io.parse_example(serialized, wanted)
found = []
rows = RowSpec(decode, lambda block: block, "binary", 2)
for files in (even, few):
    for limit in (0, 10**9):
        plan = ReadingPlan(2, limit)
        shard = load_shard(files, workers, lambda own: load_split("train", own, rows, plan))
        batches = shard.batches(BatchOrder(batch_size=32, shuffle=100, seed=3))
        seen = []
        for features, _, weight in batches.begin(1, 0).take(batches.steps * workers.replicas):
            seen += [int(row) for row, w in zip(features["row_id"], weight) if w > 0]
        counts = [shard.counts.rows, *shard.counts.class_rows.tolist()]
        found.append({"by_file": shard.by_file, "steps": batches.steps, "seen": seen, "counts": counts,
                      "files": len(shard.split.files)})
try:
    load_shard(damaged, workers, lambda own: load_split("train", own, rows, ReadingPlan(2)))
except UserError as error:
    found.append(str(error))
print(json.dumps(found))
"""


@pytest.fixture
def even(planted, tmp_path):
    """Returns 1,000 planted rows in four uncompressed files of nearly equal size."""
    copy = replace(planted("binary"), directory=tmp_path / "even")
    shutil.copytree(planted("binary").directory, copy.directory)
    records = sum(copy.records("transformed", "train"), [])
    for file in copy.files("transformed", "train"):
        Path(file).unlink()
    for number, (first, last) in enumerate([(0, 270), (270, 520), (520, 765), (765, 1000)]):
        write_records(copy.directory / "transformed" / "train" / f"part-{number}", records[first:last])
    return copy


def two_addresses() -> list[str]:
    with socket.socket() as a, socket.socket() as b:
        a.bind(("localhost", 0))
        b.bind(("localhost", 0))
        return [f"localhost:{s.getsockname()[1]}" for s in (a, b)]


@pytest.mark.integration
def test_two_workers_see_every_example_of_an_epoch_once(planted, even, tmp_path):
    whole = even.files("transformed", "train")
    # One record of the first worker's shard cannot be read.
    content = bytearray(Path(whole[0]).read_bytes())
    content[record_offsets(content)[3] + 20] ^= 0xFF
    (tmp_path / "damaged").write_bytes(content)
    damaged = [str(tmp_path / "damaged"), *whole[1:]]
    files = [whole, planted("binary").files("transformed", "train")[:1], damaged]
    workers, processes = two_addresses(), {}
    command = [sys.executable, "-c", SHARE, json.dumps([even.graph, *files])]
    for index in range(2):
        environment = {**os.environ, **of_worker(workers, index)}
        output = tmp_path / f"printed-{index}"
        with output.open("w") as printed:
            processes[output] = warm_process.Process(command, cwd=REPOSITORY, env=environment, stdout=printed)
    answers = []
    for output, process in processes.items():
        assert process.wait(600) == 0
        answers.append(json.loads(output.read_text().splitlines()[-1]))
    likes = sum(row["likes"] == "yes" for row in even.rows["train"])
    for first, second in zip(*(answer[:2] for answer in answers), strict=True):
        assert first["by_file"] and second["by_file"] and first["files"] == second["files"] == 2
        assert sorted(first["seen"] + second["seen"]) == list(range(1000))
        assert first["steps"] == second["steps"] == 16
        assert first["counts"] == second["counts"] == [1000, 1000 - likes, likes]
    assert f"{damaged[0]} cannot be read: corrupted record at" in answers[0][4]
    assert answers[1][4] == "worker 0 could not read its shard of the data; its log shows why."
    for first, second in zip(*(answer[2:4] for answer in answers), strict=True):
        assert not first["by_file"] and first["files"] == second["files"] == 1
        assert sorted(first["seen"] + second["seen"]) == list(range(0, 1000, 2))
        assert first["steps"] == second["steps"] == 8


@pytest.mark.long
@pytest.mark.integration
def test_workers_with_files_of_their_own_learn_what_one_device_learns(even, tmp_path):
    """Every update uses all rows, so their order does not matter; the workers have 505 and 495 rows."""
    workers = two_addresses()
    # Adam would take a full step for a gradient that is only rounding error; with sgd, rounding stays small.
    training = {"batch_size": 1010, "epochs": 4, "optimizer": "sgd", "learning_rate": 0.1}
    processes = {tmp_path / "one": start(lambda _: even, tmp_path / "one", "one_device", **training)}
    for index in range(2):
        folder = tmp_path / str(index)
        processes[folder] = start(lambda _: even, folder, "auto", of_worker(workers, index), **training)
    finish(processes)
    one, chief = training_of(tmp_path / "one"), training_of(tmp_path / "0")
    assert (one["input_shared_by"], chief["input_shared_by"], chief["steps_per_epoch"]) == ("file", "file", 1)
    for name in ("loss", "val_log_loss", "val_auc"):
        assert chief["history"][name] == pytest.approx(one["history"][name], rel=1e-4)
    assert chief["rows"] == one["rows"]
    assert chief["classes"] == one["classes"]


def test_mirrored_without_gpus_is_an_error():
    with pytest.raises(UserError, match="training.distribution is mirrored, but there is no GPU here"):
        choose_strategy(TrainingConfig(distribution="mirrored"))


@pytest.mark.parametrize(("scaling", "size", "rate"), [("none", 25, 0.1), ("linear", 100, 0.4), ("sqrt", 100, 0.2)])
def test_what_four_devices_change(scaling, size, rate):
    training = TrainingConfig(batch_size=100, learning_rate=0.1, scaling=scaling)
    assert replica_batch_size(training, 10_000, 4) == size
    assert peak_learning_rate(training, 4, table=True) == pytest.approx(rate)


@pytest.mark.parametrize(("sizes", "parts"), [([5, 1, 4, 2, 3], 2), ([1], 3), ([2] * 7, 3)])
def test_files_are_divided_by_their_bytes(sizes, parts):
    found = divide(sizes, parts)
    assert sorted(number for part in found for number in part) == list(range(len(sizes)))
    totals = [sum(sizes[number] for number in part) for part in found]
    assert max(totals) - min(totals) <= max(sizes)
