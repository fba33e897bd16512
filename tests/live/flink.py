"""`make check-flink`: nodes of the taxi package on a real Flink, against the same nodes in their own process.

The package is compiled for `artifacts: direct` and the engine `flink`, and its commands run as a cluster runs them. A
folder stands for the bucket, as nothing here answers gs://. Flink is a job manager and two task managers of one slot,
each a process, from the jars of FLINK_HOME/lib; beside each task manager is a pool of Beam's workers. Files are small,
so that each task manager has some. The Trainer runs once and not on Flink; both evaluations are of its model.

The address of the worker pool is the same for all task managers, but each needs a pool of its own: each numbers its
workers from 1, and one pool would stop the workers of one task manager when the other asks. So the host name in the
address is 127.0.0.2 for the first JVM and 127.0.0.3 for the second, as `localhost` is another machine for each in a
cluster. Both addresses are loopback on Linux.
"""

import importlib.util
import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubeflow.backend.run import Backend
from tests.kubeflow.backend.store import ObjectStore
from tests.live.servers import REPOSITORY, answers, forwards, free_port, needed, server, worker_pool

BEFORE_TRAINING = ("find-inputs", "ingest", "schema", "statistics-gen", "transform")
TASKS = (*BEFORE_TRAINING, "trainer", "evaluator")
TRAIN, EVAL = "Split-train", "Split-eval"
ON_FLINK = {  # in the order of their jobs: the steps whose elements are files, and the splits of these files
    "Ingest": {"Shards/Join": (TRAIN, EVAL)},
    "StatisticsGen": {"{Files, Accumulate}": (TRAIN, EVAL)},
    "Transform": {"{Files0, Accumulate0}": (TRAIN,), "Raw[train]/{Files, Read}": (TRAIN,)},
    "Evaluator": {"{Files, Evaluate}": (EVAL,)},
}
TASK_MANAGERS = ("first", "second")
pytestmark = pytest.mark.timeout(1800)  # the first test waits for all runs
_POOL = "pool-beside-the-task-manager"
_MAIN = "org.apache.flink.runtime"
_OPENS = ("lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent",
          "util.concurrent.atomic", "util.concurrent.locks")  # fmt: skip
_MEMORY = {
    "cpu.cores": "1", "memory.task.heap.size": "512m", "memory.task.off-heap.size": "0", "memory.managed.size": "256m",
    "memory.framework.heap.size": "128m", "memory.framework.off-heap.size": "128m", "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "192m", "memory.jvm-overhead.max": "192m",
    # Statistics are a hundred exchanges at once, each with buffers of its own.
    "memory.network.min": "512m", "memory.network.max": "512m", "network.sort-shuffle.min-buffers": "32",
}  # fmt: skip


class SharedFolder(ObjectStore):
    """A folder that all nodes see: there is nothing to copy."""

    def upload(self, source: Path, uri: str) -> bool:
        """See base class."""
        return source.exists()

    def download(self, uri: str, target: Path, *, whole_names: bool) -> None:
        """See base class."""


@pytest.fixture(scope="module")
def flink(tmp_path_factory) -> Iterator[dict[str, Any]]:
    """A Flink with pools of Beam's workers; gives the engine of the environment file."""
    home = needed("FLINK_HOME", "Give the folder of Flink 1.19, with its jars in lib/.")
    jar = needed("JOB_SERVER_JAR", "Give Beam's job server for Flink 1.19: beam-runners-flink-1.19-job-server.")
    folder = tmp_path_factory.mktemp("flink")
    rpc, rest = free_port(), free_port()
    config = {"jobmanager.rpc.address": "localhost", "jobmanager.rpc.port": str(rpc), "rest.address": "localhost",
              "rest.bind-address": "localhost", "rest.port": str(rest), "jobmanager.bind-host": "localhost",
              "taskmanager.host": "localhost", "taskmanager.bind-host": "localhost", "slot.request.timeout": "60000",
              "taskmanager.numberOfTaskSlots": "1", "io.tmp.dirs": str(folder), "web.upload.dir": str(folder),
              **{f"taskmanager.{name}": value for name, value in _MEMORY.items()}}  # fmt: skip
    (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in config.items()))
    jars = os.pathsep.join(map(str, sorted((home / "lib").glob("*.jar"))))
    java = ["java", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENS), "-cp", jars]
    told = ["--configDir", str(folder)]
    manager = [*java[:1], "-Xmx512m", *java[1:], f"{_MAIN}.entrypoint.StandaloneSessionClusterEntrypoint", *told]
    tasks = [*java[:1], "-Xmx700m", *java[1:], f"{_MAIN}.taskexecutor.TaskManagerRunner", *told]
    beside = free_port()
    url = f"http://localhost:{rest}"
    with ExitStack() as running:
        ready = answers(f"{url}/overview", '"flink-version"')
        running.enter_context(server(manager, folder / "jobmanager.log", ready, seconds=120))
        for count, name in enumerate(TASK_MANAGERS, start=1):
            pool = running.enter_context(worker_pool(folder / f"worker-pool-{name}.log"))
            running.enter_context(forwards(f"127.0.0.{1 + count}", beside, pool))
            hosts = folder / f"hosts-{name}"
            hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n127.0.0.{1 + count} {_POOL}\n")
            own = [*tasks[:1], f"-Djdk.net.hosts.file={hosts}", *tasks[1:], f"-Dtaskmanager.resource-id={name}"]
            ready = answers(f"{url}/overview", f'"slots-total":{count},')
            running.enter_context(server(own, folder / f"taskmanager-{name}.log", ready, seconds=120))
        yield {"runner": "flink", "master": f"localhost:{rest}", "job_server_jar": str(jar), "version": "1.19",
               "parallelism": len(TASK_MANAGERS), "worker_pool": f"{_POOL}:{beside}"}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Path:
    """The taxi pipeline with its rows beside it, in small files and with a short training."""
    folder = tmp_path_factory.mktemp("pipeline")
    tfx = importlib.util.find_spec("tfx").submodule_search_locations[0]
    data = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    shutil.copy(f"{tfx}/examples/chicago_taxi_pipeline/data/simple/data.csv", folder / "trips.csv")
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    changes = {data: "trips.csv", "  split:\n": "  records: {shard_mb: 1}\n  split:\n", "epochs: 10": "epochs: 1"}
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "pipeline.yaml").write_text(text)
    return folder / "pipeline.yaml"


class Runs:
    """Runs of the package on one installation, which takes from its cache what a task has made of the same inputs.

    bucket: folder that all nodes see; without one, artifacts are copied to and from the object store.
    """

    def __init__(self, pipeline: Path, folder: Path, bucket: Path | None = None) -> None:
        self._pipeline, self._folder, self._bucket = pipeline, folder, bucket
        self._backend = Backend(folder / "kfp", **({} if bucket is None else {"root": f"{bucket}/artifacts"}))
        if bucket is not None:
            self._backend.store = SharedFolder(bucket)
            self._backend.started = self._make_folders

    def _make_folders(self, task: str, attempt: int, process: object) -> None:
        """An object store needs no folder before a file in it, and the Evaluator makes none."""
        for made in self._bucket.glob(f"artifacts/*/*/{task}/*") if task == "evaluator" else ():
            for output in ("evaluation", "blessing"):
                (made / output).mkdir(exist_ok=True)

    def run(self, names: Sequence[str], engines: Mapping[str, dict[str, Any]]) -> dict[str, str]:
        """Runs some tasks of the package; returns how each ended. engines: of nodes that run on Flink."""
        from fullpass.kubeflow.compile.compile import compile_package
        from fullpass.kubeflow.compile.package import to_yaml
        from fullpass.kubeflow.environment import load_environment
        from fullpass.pipeline.authoring.loading.load import load

        folder = self._folder
        volume = {"volumes": [{"claim": "models", "mount": f"{folder}/models"}]}
        environment = {"image": "x:1", "kubeflow": "2.5", "folder": str(self._pipeline.parent), "defaults": volume,
                       "registry": f"{folder}/models/registry", "push_to": f"{folder}/models/taxi"}  # fmt: skip
        if self._bucket is not None:
            nodes = {name: {"beam": engine} for name, engine in engines.items()}
            environment |= {"artifacts": "direct", "pipeline_root": "gs://bucket/artifacts", "nodes": nodes}
        (folder / "env.yaml").write_text(json.dumps(environment))
        text = to_yaml(compile_package(load(self._pipeline), load_environment(folder / "env.yaml")).package)
        spec, platform = yaml.safe_load_all(text)
        tasks = {name: spec["root"]["dag"]["tasks"][name] for name in names}
        for task in tasks.values():
            task["dependentTasks"] = [name for name in task.get("dependentTasks", ()) if name in tasks]
        if "evaluator" in tasks:  # nothing was blessed before, and the importer is not run
            del tasks["evaluator"]["inputs"]["artifacts"]["baseline_model"]
        spec["root"]["dag"]["tasks"] = tasks
        return self._backend.run(yaml.safe_dump_all([spec, platform]), timeout=900).states

    def outputs(self) -> dict[str, Path]:
        """Returns the folder of each output; the newest where several runs have made it."""
        found = {}
        for title in ("Examples", "TransformGraph", "ExampleStatistics", "ModelEvaluation", "ModelBlessing"):
            for artifact in self._backend.metadata.artifacts(f"tfx.{title}"):
                uri = artifact["uri"]
                found[uri.rsplit("/", 1)[-1]] = Path(uri) if self._bucket is not None else self._backend.store.path(uri)
        return found


@pytest.fixture(scope="module")
def outputs(pipeline, flink, tmp_path_factory) -> tuple[dict[str, Path], dict[str, Path]]:
    """What the nodes made by themselves, and what they made on Flink.

    Evaluations are of one model and the same files: that of the nodes by themselves is of a second run after Flink's,
    with every other task from the cache.
    """
    folder = tmp_path_factory.mktemp("there")
    here, there = Runs(pipeline, tmp_path_factory.mktemp("here")), Runs(pipeline, folder, folder / "bucket")
    assert set(here.run(BEFORE_TRAINING, {}).values()) == {"COMPLETE"}
    assert set(there.run(TASKS, dict.fromkeys(ON_FLINK, flink)).values()) == {"COMPLETE"}
    on_flink = there.outputs()
    again = there.run(TASKS, {name: flink for name in ON_FLINK if name != "Evaluator"})
    assert (again["trainer"], again["evaluator"]) == ("CACHED", "COMPLETE")
    of_evaluator = {name: there.outputs()[name] for name in ("evaluation", "blessing")}
    assert on_flink.keys() == here.outputs().keys() | of_evaluator.keys()
    return here.outputs() | of_evaluator, on_flink


def rows(examples: Path, row_id: str) -> dict[str, dict[int, bytes]]:
    """Returns split -> row id -> the example as it was written."""
    import tensorflow as tf

    found: dict[str, dict[int, bytes]] = {}
    for split in sorted(examples.glob("Split-*")):
        kind = found.setdefault(split.name, {})
        for file in sorted(split.iterdir()):
            compression = "GZIP" if file.suffix == ".gz" else ""
            for record in tf.data.TFRecordDataset(str(file), compression_type=compression).as_numpy_iterator():
                example = tf.train.Example.FromString(record)
                key = example.features.feature[row_id].int64_list.value[0]
                assert key not in kind, f"row {key} was written twice"
                kind[key] = example.SerializeToString(deterministic=True)
    return found


def ask(flink: dict[str, Any], path: str) -> Any:
    """Returns what Flink's REST interface answers."""
    with urllib.request.urlopen(f"http://{flink['master']}/{path}", timeout=30) as answer:
        return json.load(answer)


def read_by(flink: dict[str, Any], job: str, step: str) -> dict[str, int]:
    """Returns task manager -> how many elements its part of a step was given."""
    vertices = ask(flink, f"jobs/{job}")["vertices"]
    [vertex] = [vertex for vertex in vertices if f"]{step})" in vertex["name"]]
    subtasks = ask(flink, f"jobs/{job}/vertices/{vertex['id']}")["subtasks"]
    return {subtask["taskmanager-id"]: subtask["metrics"]["read-records"] for subtask in subtasks}


def test_both_task_managers_worked_on_files_of_every_node(flink, outputs):
    assert {manager["id"] for manager in ask(flink, "taskmanagers")["taskmanagers"]} == set(TASK_MANAGERS)
    jobs = sorted(ask(flink, "jobs/overview")["jobs"], key=lambda job: job["start-time"])
    assert [job["state"] for job in jobs] == ["FINISHED"] * len(ON_FLINK)
    examples = outputs[1]["examples"]
    files = {split: len(list((examples / split).iterdir())) for split in (TRAIN, EVAL)}
    for job, (node, steps) in zip(jobs, ON_FLINK.items(), strict=True):
        for step, splits in steps.items():
            read = read_by(flink, job["jid"], step)
            assert set(read) == set(TASK_MANAGERS) and min(read.values()) > 0, f"{node}, {step}: {read}"
            assert sum(read.values()) == sum(files[split] for split in splits), f"{node}, {step}: {read}"


def test_every_row_is_ingested_once_and_the_same(outputs):
    from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID

    here, there = (rows(made["examples"], RAW_ROW_ID) for made in outputs)
    assert sum(map(len, here.values())) == 15_002
    assert here == there


def test_the_transform_graph_has_the_same_constants_and_vocabularies(outputs):
    import tensorflow_transform as tft

    here, there = (made["transform_graph"] for made in outputs)
    assets = [{f.name: f.read_bytes() for f in (g / "transform_fn" / "assets").iterdir()} for g in (here, there)]
    assert assets[0] == assets[1] and len(assets[0]) >= 3
    schemas = [tft.TFTransformOutput(str(graph)).transformed_metadata.schema for graph in (here, there)]
    assert schemas[0] == schemas[1]


def test_every_transformed_row_is_written_once_and_the_same_to_the_last_bit(outputs):
    from fullpass.preprocessing.columns.outputs import ROW_ID

    here, there = (rows(made["transformed_examples"], ROW_ID) for made in outputs)
    assert {split: len(found) for split, found in here.items()} == {TRAIN: 12_065, EVAL: 2_937}
    assert here == there, "constants that differ in the last bit would make other z-scores"


def test_statistics_count_the_same(outputs):
    import tensorflow_data_validation as tfdv

    def counts(made: dict[str, Path]) -> dict[tuple[str, str], tuple]:
        found = {}
        for split in sorted(made["statistics"].glob("Split-*")):
            [of_split] = tfdv.load_stats_binary(str(split / "FeatureStats.pb")).datasets
            for one in of_split.features:
                common = (one.num_stats if one.HasField("num_stats") else one.string_stats).common_stats
                range_ = (one.num_stats.min, one.num_stats.max) if one.HasField("num_stats") else ()
                found[split.name, one.path.step[0]] = (common.num_non_missing, common.num_missing, *range_)
        return found

    here, there = map(counts, outputs)
    assert here == there and len(here) > 20


def test_the_evaluator_measures_the_same(outputs):
    from fullpass.components.evaluation.measured_metrics import read_measured

    every = [read_measured(str(made["evaluation"])) for made in outputs]
    here, there = ({(rows.keys, rows.newest): rows for rows in measured} for measured in every)
    assert here.keys() == there.keys() and len(here) > 20
    assert here[(), False].examples == 2_937
    assert {key: rows.examples for key, rows in here.items()} == {key: rows.examples for key, rows in there.items()}
    for key, rows_here in here.items():
        close = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}
        assert there[key].values == pytest.approx(rows_here.values, **close)
        assert there[key].errors == pytest.approx(rows_here.errors, **close)
    verdicts = [[file.name for file in made["blessing"].iterdir()] for made in outputs]
    assert verdicts[0] == verdicts[1]
