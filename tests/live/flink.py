"""`make check-flink`: nodes of the taxi package on a real Flink, against the same nodes in their own process.

The package is compiled for `artifacts: direct` and the engine `flink`, and its commands run as a cluster runs them. A
folder stands for the bucket, as nothing here answers gs://. Flink is a job manager and a task manager of two slots,
each a process, from the jars of FLINK_HOME/lib; beside it is Beam's pool of workers.
"""

import importlib.util
import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubeflow.backend.run import Backend
from tests.kubeflow.backend.store import ObjectStore
from tests.live.servers import REPOSITORY, answers, free_port, needed, server, worker_pool

TASKS = ("find-ingest-inputs", "ingest", "schema", "statistics-gen", "transform")
_MAIN = "org.apache.flink.runtime"
_OPENS = ("lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent",
          "util.concurrent.atomic", "util.concurrent.locks")  # fmt: skip
_MEMORY = {
    "cpu.cores": "2", "memory.task.heap.size": "512m", "memory.task.off-heap.size": "0", "memory.managed.size": "256m",
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
    """A Flink with a pool of Beam's workers; gives the engine of the environment file."""
    home = needed("FLINK_HOME", "Give the folder of Flink 1.19, with its jars in lib/.")
    jar = needed("JOB_SERVER_JAR", "Give Beam's job server for Flink 1.19: beam-runners-flink-1.19-job-server.")
    folder = tmp_path_factory.mktemp("flink")
    rpc, rest = free_port(), free_port()
    config = {"jobmanager.rpc.address": "localhost", "jobmanager.rpc.port": str(rpc), "rest.address": "localhost",
              "rest.bind-address": "localhost", "rest.port": str(rest), "jobmanager.bind-host": "localhost",
              "taskmanager.host": "localhost", "taskmanager.bind-host": "localhost", "slot.request.timeout": "60000",
              "taskmanager.numberOfTaskSlots": "2", "io.tmp.dirs": str(folder), "web.upload.dir": str(folder),
              **{f"taskmanager.{name}": value for name, value in _MEMORY.items()}}  # fmt: skip
    (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in config.items()))
    jars = os.pathsep.join(map(str, sorted((home / "lib").glob("*.jar"))))
    java = ["java", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENS), "-cp", jars]
    told = ["--configDir", str(folder)]
    manager = [*java[:1], "-Xmx512m", *java[1:], f"{_MAIN}.entrypoint.StandaloneSessionClusterEntrypoint", *told]
    tasks = [*java[:1], "-Xmx700m", *java[1:], f"{_MAIN}.taskexecutor.TaskManagerRunner", *told]
    url = f"http://localhost:{rest}"
    with ExitStack() as running:
        ready = answers(f"{url}/overview", '"flink-version"')
        running.enter_context(server(manager, folder / "jobmanager.log", ready, seconds=120))
        ready = answers(f"{url}/overview", '"slots-total":2')
        running.enter_context(server(tasks, folder / "taskmanager.log", ready, seconds=120))
        pool = running.enter_context(worker_pool(folder))
        yield {"runner": "flink", "master": f"localhost:{rest}", "job_server_jar": str(jar), "version": "1.19",
               "parallelism": 2, "worker_pool": pool}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Path:
    """The taxi pipeline with its rows beside it."""
    folder = tmp_path_factory.mktemp("pipeline")
    tfx = importlib.util.find_spec("tfx").submodule_search_locations[0]
    data = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    shutil.copy(f"{tfx}/examples/chicago_taxi_pipeline/data/simple/data.csv", folder / "trips.csv")
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text.replace(data, "trips.csv"))
    return folder / "pipeline.yaml"


def run(pipeline: Path, folder: Path, more: dict[str, Any], bucket: Path | None = None) -> dict[str, Path]:
    """Returns the folder of each output after the tasks before training have run."""
    from fullpass.kubeflow.compile.compile import compile_package
    from fullpass.kubeflow.compile.package import to_yaml
    from fullpass.kubeflow.environment import load_environment
    from fullpass.pipeline.authoring.loading.load import load

    volume = {"volumes": [{"claim": "models", "mount": f"{folder}/models"}]}
    environment = {"image": "x:1", "kubeflow": "2.5", "folder": str(pipeline.parent), "defaults": volume,
                   "registry": f"{folder}/models/registry", "push_to": f"{folder}/models/taxi", **more}  # fmt: skip
    (folder / "env.yaml").write_text(json.dumps(environment))
    text = to_yaml(compile_package(load(pipeline), load_environment(folder / "env.yaml")).package)
    spec, platform = yaml.safe_load_all(text)
    tasks = spec["root"]["dag"]["tasks"]
    spec["root"]["dag"]["tasks"] = {name: tasks[name] for name in TASKS}
    backend = Backend(folder / "kfp")
    if bucket is not None:
        backend = Backend(folder / "kfp", root=f"{bucket}/artifacts")
        backend.store = SharedFolder(bucket)
    result = backend.run(yaml.safe_dump_all([spec, platform]), timeout=900)
    assert set(result.states.values()) == {"COMPLETE"}
    found = {}
    for title in ("tfx.Examples", "tfx.TransformGraph", "tfx.ExampleStatistics"):
        for artifact in backend.metadata.artifacts(title):
            uri = artifact["uri"]
            found[uri.rsplit("/", 1)[-1]] = Path(uri) if bucket is not None else backend.store.path(uri)
    return found


@pytest.fixture(scope="module")
def outputs(pipeline, flink, tmp_path_factory) -> tuple[dict[str, Path], dict[str, Path]]:
    """What the nodes made by themselves, and what they made on Flink."""
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    engines = {name: {"beam": flink} for name in ("Ingest", "StatisticsGen", "Transform")}
    direct = {"artifacts": "direct", "pipeline_root": "gs://bucket/artifacts", "nodes": engines}
    return run(pipeline, here, {}), run(pipeline, there, direct, there / "bucket")


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


def test_the_nodes_ran_on_flink_with_two_tasks_at_a_time(flink, outputs):
    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://{flink['master']}/{path}", timeout=30) as answer:
            return json.load(answer)

    jobs = ask("jobs/overview")["jobs"]
    assert [job["state"] for job in jobs] == ["FINISHED"] * 3
    for job in jobs:
        assert max(vertex["parallelism"] for vertex in ask(f"jobs/{job['jid']}")["vertices"]) == 2


def test_every_row_is_ingested_once_and_the_same(outputs):
    from fullpass.preprocessing.features.raw_columns import RAW_ROW_ID

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
    from fullpass.preprocessing.features.outputs import ROW_ID

    here, there = (rows(made["transformed_examples"], ROW_ID) for made in outputs)
    assert {split: len(found) for split, found in here.items()} == {"Split-train": 12_065, "Split-eval": 2_937}
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
