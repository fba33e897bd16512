"""A Trainer that is killed during training is retried in a new pod, under the rules of Kubeflow."""

import json
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.e2e.kubeflow_package import compiled, taxi_lines
from tests.kubeflow.backend.launcher import Process
from tests.kubeflow.backend.run import Backend

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ROWS = 3_000
UPDATES = 1_500
PIPELINE = """\
name: taxi
data:
  source: {format: csv, path: trips.csv}
  derive: {big_tipper: tips > 0.2 * fare}
label: {name: big_tipper, task: binary}
features:
  fare: {type: number, transforms: [{clip: {min: 0, max: 500}}, z_score]}
  payment_type: category
model: {kind: mlp, hidden: [16], dropout: 0.3, batch_norm: true}
training:
  {epochs: 3, batch_size: 2, steps_per_execution: 50, checkpoint: {every_steps: 100, every_seconds: null}}
"""
NODES = "nodes: {Trainer: {cache: false, retries: {count: 1, backoff: 1s}}}\n"


def package_of(folder: Path) -> str:
    """Returns a package that holds only the Trainer and the tasks it depends on."""
    (folder / "pipeline").mkdir()
    (folder / "pipeline" / "trips.csv").write_text("".join(taxi_lines(ROWS)))
    spec, platform = yaml.safe_load_all(compiled(folder, PIPELINE, NODES))
    dag, kept = spec["components"]["comp-nodes"]["dag"], ["trainer"]
    tasks = dag["tasks"]
    for name in kept:
        kept += [other for other in tasks[name].get("dependentTasks", ()) if other not in kept]
    dag["tasks"] = {name: tasks[name] for name in kept}
    return yaml.safe_dump_all([spec, platform])


class Killer:
    """Ends the first attempt of the Trainer with kill -9 once the checkpoints on disk hold UPDATES updates."""

    def __init__(self, work: Path):
        self._work, self.threads = work, []

    def __call__(self, task: str, attempt: int, process: Process) -> None:
        if (task, attempt) == ("trainer", 0):
            self.threads.append(threading.Thread(target=self._kill, args=(process,)))
            self.threads[-1].start()

    def _kill(self, process: Process) -> None:
        deadline = time.monotonic() + 300
        while self.saved() < UPDATES and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)

    def saved(self) -> int:
        """Returns the number of updates before the newest listed checkpoint; an unlisted one may be incomplete."""
        lists = [path.read_text() for path in self._work.glob("*/checkpoint")]
        found = re.findall(r'^model_checkpoint_path: ".*-(\d+)"', "\n".join(lists), re.MULTILINE)
        return max(map(int, found), default=0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns the folder, the backend, an undisturbed run, and a run of the same package whose Trainer is killed."""
    folder = tmp_path_factory.mktemp("resume")
    package = package_of(folder)
    backend = Backend(folder / "kfp")
    undisturbed = backend.run(package, parallel=2)
    backend.started = Killer(folder / "models" / "registry" / "taxi" / "work" / "Trainer")
    killed = backend.run(package, parallel=2)
    for thread in backend.started.threads:
        thread.join(timeout=60)
    return folder, backend, undisturbed, killed


def outputs(backend: Backend, run: str, name: str) -> Path:
    """Returns the output file of a run's Trainer whose name ends with `name`."""
    [key] = [key for key in backend.store.keys() if f"/{run}/trainer/" in key and key.endswith(name)]
    return backend.store.path(key)


def training(backend: Backend, run: str) -> dict:
    return json.loads(outputs(backend, run, "/training.json").read_text())


def test_the_second_attempt_goes_on_in_the_middle_of_an_epoch(runs):
    _, backend, undisturbed, killed = runs
    assert (undisturbed.attempts["trainer"], killed.attempts["trainer"]) == (1, 2)
    assert {task for task, state in killed.states.items() if state == "COMPLETE"} == {"find-inputs", "trainer", "nodes"}
    whole, resumed = training(backend, undisturbed.id), training(backend, killed.id)
    per_epoch = -(-whole["rows"]["train"] // 2)
    assert whole["resumed_at_update"] == 0 and resumed["resumed_at_update"] >= UPDATES
    assert resumed["resumed_at_update"] % per_epoch != 0
    assert resumed["history"]["loss"] == pytest.approx(whole["history"]["loss"], rel=1e-12)


def test_it_ends_with_the_weights_of_a_training_that_nothing_disturbed(runs):
    import tensorflow as tf

    _, backend, undisturbed, killed = runs
    weights = []
    for run in (undisturbed, killed):
        index = outputs(backend, run.id, "/Format-Serving/variables/variables.index")
        reader = tf.train.load_checkpoint(str(index.with_suffix("")))
        names = reader.get_variable_to_dtype_map()
        weights.append({n: reader.get_tensor(n) for n, kind in names.items() if kind.is_floating})
    assert weights[0].keys() == weights[1].keys() and sum(value.size for value in weights[0].values()) > 100
    for name, value in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], value, err_msg=name)


def test_each_attempt_had_data_of_its_own_at_the_same_path(runs):
    folder, _, _, killed = runs
    pods = folder / "kfp" / "pods" / killed.id
    found = [
        sorted(path.relative_to(pods / pod) for path in (pods / pod).rglob("*.gz")) for pod in ("trainer-0", "trainer")
    ]
    assert found[0] == found[1] != []


def test_nothing_of_the_training_is_left_in_the_registry(runs):
    folder, _, _, _ = runs
    assert list((folder / "models" / "registry" / "taxi" / "work" / "Trainer").iterdir()) == []
