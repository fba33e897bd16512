"""`make check-flink`: nodes of the taxi package on a real Flink, against the same nodes in their own process.

The package is compiled for `artifacts: direct` and the engine `flink`, and its commands run as a cluster runs them. A
folder stands for the bucket, as nothing here answers gs://. Flink is a job manager and WORKERS task managers of one
slot, each a process, from the jars of FLINK_HOME/lib; beside each task manager is a pool of Beam's workers. Files are
small, so that each task manager has some. The Trainer runs once and not on Flink; both evaluations are of its model.
What each job took is printed.

The address of the worker pool is the same for all task managers, but each needs a pool of its own: each numbers its
workers from 1, and one pool would stop the workers of one task manager when the other asks. So the host name in the
address is 127.0.0.2 for the first JVM and 127.0.0.3 for the second, as `localhost` is another machine for each in a
cluster. All of 127.0.0.0/8 is loopback on Linux.
"""

import json
import os
import socket
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubeflow.backend.run import Backend
from tests.live.servers import answers, forwards, free_port, needed, server, worker_pool
from tests.live.shared_folder import SharedFolder
from tests.live.taxi import (  # noqa: F401
    EVAL,
    ROWS,
    TRAIN,
    WORKERS,
    taxi_pipeline,
    test_every_row_is_ingested_once_and_the_same,
    test_every_transformed_row_is_written_once_and_the_same_to_the_last_bit,
    test_statistics_count_the_same,
    test_the_evaluator_measures_the_same,
    test_the_transform_graph_has_the_same_constants_and_vocabularies,
)

BEFORE_TRAINING = ("find-inputs", "ingest", "schema", "statistics-gen", "transform")
TASKS = (*BEFORE_TRAINING, "trainer", "evaluator")
ON_FLINK = {  # in the order of their jobs: the steps whose elements are files, and the splits of these files
    "Ingest": {"Shards/Join": (TRAIN, EVAL)},
    "StatisticsGen": {"AccumulateFiles/{Files, Accumulate}": (TRAIN, EVAL)},
    "Transform": {"Analyze0/{Files, Accumulate}": (TRAIN,), "Raw[train]/{Files, Read}": (TRAIN,)},
    "Evaluator": {"Evaluate/{Files, Accumulate}": (EVAL,)},
}
TASK_MANAGERS = tuple(f"manager-{number}" for number in range(1, WORKERS + 1))
pytestmark = pytest.mark.timeout(1800)  # the first test waits for all runs
SERVERS: set[int] = set()  # their process groups
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


def processes() -> Iterator[tuple[int, int, float]]:
    """Yields parent, group and processor seconds, with those of children that ended, of each process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended
            found = stat.read_text().rpartition(")")[2].split()
            yield int(found[1]), int(found[2]), sum(map(int, found[11:15])) / os.sysconf("SC_CLK_TCK")


def taken() -> float:
    """Returns the processor seconds of all servers until now."""
    return sum(seconds for _, group, seconds in processes() if group in SERVERS)


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
        SERVERS.update(group for parent, group, _ in processes() if parent == os.getpid() != group)
        yield {"runner": "flink", "master": f"localhost:{rest}", "job_server_jar": str(jar), "version": "1.19",
               "parallelism": len(TASK_MANAGERS), "worker_pool": f"{_POOL}:{beside}"}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Path:
    return taxi_pipeline(tmp_path_factory.mktemp("pipeline"))


class Runs:
    """Runs of the package on one installation, which takes from its cache what a task has made of the same inputs.

    bucket: folder that all nodes see; without one, artifacts are copied to and from the object store.

    Attributes:
        starts: Tasks in the order of their starts, and the processor seconds of the servers until then.
    """

    def __init__(self, pipeline: Path, folder: Path, bucket: Path | None = None) -> None:
        self._pipeline, self._folder, self._bucket = pipeline, folder, bucket
        self.starts: list[tuple[str, float]] = []
        self._backend = Backend(folder / "kfp", **({} if bucket is None else {"root": f"{bucket}/artifacts"}))
        # As Flink's workers: in forks, TensorFlow does not optimize graphs, and scores differ in their last bits.
        self._backend.starts_fresh = "evaluator".__eq__
        if bucket is not None:
            self._backend.store = SharedFolder(bucket)
            self._backend.started = self._starts

    def _starts(self, task: str, attempt: int, process: object) -> None:
        """Notes the start; makes folders, which an object store does not need and the Evaluator does not make."""
        self.starts.append((task, taken()))
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
def on_flink(pipeline, flink, tmp_path_factory) -> tuple[Runs, dict[str, Path]]:
    """The runs of nodes on Flink, and the folder of each output that Flink made."""
    folder = tmp_path_factory.mktemp("there")
    there = Runs(pipeline, folder, folder / "bucket")
    assert set(there.run(TASKS, dict.fromkeys(ON_FLINK, flink)).values()) == {"COMPLETE"}
    print_costs(flink, [*there.starts, ("", taken())])
    return there, there.outputs()


@pytest.fixture(scope="module")
def outputs(pipeline, flink, on_flink, tmp_path_factory) -> tuple[dict[str, Path], dict[str, Path]]:
    """What the nodes made by themselves, and what they made on Flink.

    Evaluations are of one model and the same files: that of the nodes by themselves is of a second run after Flink's,
    with every other task from the cache.
    """
    here, (there, made) = Runs(pipeline, tmp_path_factory.mktemp("here")), on_flink
    assert set(here.run(BEFORE_TRAINING, {}).values()) == {"COMPLETE"}
    again = there.run(TASKS, {name: flink for name in ON_FLINK if name != "Evaluator"})
    assert (again["trainer"], again["evaluator"]) == ("CACHED", "COMPLETE")
    of_evaluator = {name: there.outputs()[name] for name in ("evaluation", "blessing")}
    assert made.keys() == here.outputs().keys() | of_evaluator.keys()
    return here.outputs() | of_evaluator, made


def ask(flink: dict[str, Any], path: str) -> Any:
    """Returns what Flink's REST interface answers."""
    with urllib.request.urlopen(f"http://{flink['master']}/{path}", timeout=30) as answer:
        return json.load(answer)


def jobs_of(flink: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns all jobs, in the order of their starts."""
    return sorted(ask(flink, "jobs/overview")["jobs"], key=lambda job: job["start-time"])


def print_costs(flink: dict[str, Any], starts: Sequence[tuple[str, float]]) -> None:
    """Prints what each job took. starts: of the tasks, with the processor seconds of the servers until then."""
    names = {node.lower() for node in ON_FLINK}
    on_servers = [after - before for (task, before), (_, after) in pairwise(starts) if task.replace("-", "") in names]
    print(f"\n{WORKERS} task managers, {sum(ROWS.values())} rows: job, processor seconds, bytes between its steps")
    for job, node, seconds in zip(jobs_of(flink), ON_FLINK, on_servers, strict=True):
        sent = sum(vertex["metrics"]["write-bytes"] for vertex in ask(flink, f"jobs/{job['jid']}")["vertices"])
        print(f"{node}, {seconds:.1f}, {sent}")


def read_by(flink: dict[str, Any], job: str, step: str) -> dict[str, int]:
    """Returns task manager -> how many elements its part of a step was given."""
    vertices = ask(flink, f"jobs/{job}")["vertices"]
    [vertex] = [vertex for vertex in vertices if f"]{step})" in vertex["name"]]
    subtasks = ask(flink, f"jobs/{job}/vertices/{vertex['id']}")["subtasks"]
    return {subtask["taskmanager-id"]: subtask["metrics"]["read-records"] for subtask in subtasks}


def test_all_task_managers_worked_on_files_of_every_node(flink, on_flink):
    assert {manager["id"] for manager in ask(flink, "taskmanagers")["taskmanagers"]} == set(TASK_MANAGERS)
    jobs = jobs_of(flink)
    assert [job["state"] for job in jobs] == ["FINISHED"] * len(ON_FLINK)
    examples = on_flink[1]["examples"]
    files = {split: len(list((examples / split).iterdir())) for split in (TRAIN, EVAL)}
    for job, (node, steps) in zip(jobs, ON_FLINK.items(), strict=True):
        for step, splits in steps.items():
            read = read_by(flink, job["jid"], step)
            assert set(read) == set(TASK_MANAGERS) and min(read.values()) > 0, f"{node}, {step}: {read}"
            assert sum(read.values()) == sum(files[split] for split in splits), f"{node}, {step}: {read}"
