"""`make check-kfp`: runs packages with the driver and the launcher of a real release of Kubeflow Pipelines.

KFP_BIN=FOLDER holds both programs, built for this machine, of KFP_RELEASE=RELEASE (by default the newest).
VERSITYGW=PROGRAM is an S3 server. SMALL=FOLDER is an environment with only the requirements of the small image, in
which the nodes without TensorFlow run. The check needs root, because each pod has its own file system, the user of the
image, and no capabilities.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.kfp_internals import RELEASES, SCHEDULE_TIME_SINCE, is_before
from tests.e2e.kubeflow_package import ROWS_OF_SPAN, SPAN_BY_SPAN, taxi_lines, write_span
from tests.kubeflow.backend.metadata import DAG
from tests.live.kfp_cluster import GROUP, USER, Cluster
from tests.live.kfp_services import BUCKET, Services, services
from tests.live.servers import needed

pytestmark = pytest.mark.timeout(1800)

BUILD = (
    "It holds driver and launcher-v2. In a checkout of github.com/kubeflow/pipelines at the tag of the release: "
    "go build -o FOLDER/ ./backend/src/v2/cmd/driver ./backend/src/v2/cmd/launcher-v2"
)
DAY_BY_DAY = SPAN_BY_SPAN.replace("{SPAN}", "{YYYY}-{MM}-{DD}") + 'schedule: {cron: "0 3 * * *", lag: 1}\n'
RELEASE = os.environ.get("KFP_RELEASE") or RELEASES[-1]
TOLD = not is_before(RELEASE, SCHEDULE_TIME_SINCE)
"""Whether the release passes the scheduled time to a run."""
TOLD_OF_CACHE = not is_before(RELEASE, "2.16")
"""Whether the driver passes the cache's address to the launcher. Before, it is ml-pipeline.kubeflow:CACHE_PORT."""
CACHE_PORT = 8887
ENVIRONMENT = f"""\
image: registry.example/taxi:1.4.2
small_image: registry.example/taxi-small:1.4.2
kubeflow: "{RELEASE}"
registry: /models/registry
push_to: /models/taxi
defaults: {{volumes: [{{claim: models, mount: /models}}]}}
nodes: {{Trainer: {{retries: {{count: 1, backoff: 1s}}}}}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    """The programs of a release, the services they call, and two days of trips."""
    binaries = needed("KFP_BIN", BUILD)
    absent = [name for name in ("driver", "launcher-v2") if not (binaries / name).exists()]
    if absent:
        pytest.exit(f"KFP_BIN={binaries} lacks {', '.join(absent)}. {BUILD}", returncode=2)
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.exit("This check needs root, and the right to make mount namespaces.", returncode=2)
    program = needed("VERSITYGW", "Give the program of versitygw (github.com/versity/versitygw), an S3 server.")
    small = needed("SMALL", "Give an environment with the requirements of the small image (Makefile, .tools/small).")
    folder = tmp_path_factory.mktemp("kfp")
    pipeline, volume = folder / "pipeline", folder / "volume"
    (pipeline / "trips").mkdir(parents=True)
    volume.mkdir()
    # Like a disk whose root was once made writable for the group.
    volume.chmod(0o2775)
    for part in (folder, *folder.parents):
        if part.stat().st_uid == os.geteuid() and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o055)
    (pipeline / "pipeline.yaml").write_text(DAY_BY_DAY)
    (folder / "env.yaml").write_text(ENVIRONMENT)
    with services(folder / "services", program, 0 if TOLD_OF_CACHE else CACHE_PORT) as found:
        pythons = {"registry.example/taxi-small:1.4.2": small / "bin"}
        made = Cluster(RELEASE, binaries, found, folder / "runs", pipeline, volume, pythons)
        made.folder.mkdir()
        for day in (1, 2):
            arrive(made, day)
        yield made


def arrive(cluster: Cluster, day: int) -> None:
    trips = cluster.pipeline / "trips"
    write_span(trips, day)
    (trips / f"{day}.csv").rename(trips / f"2013-01-{day:02d}.csv")


@pytest.fixture(scope="module")
def runs(cluster):
    """Three runs: of two days, of the same days again, and of a third day with a Trainer that is killed once.

    The third run uses the scheduled day while a fourth day already exists. If the release does not pass the scheduled
    time, it uses the newest day instead.
    """
    command = ["compile", cluster.pipeline / "pipeline.yaml", "--env", cluster.folder.parent / "env.yaml"]
    package = cluster.folder.parent / "package.yaml"
    compiled = subprocess.run(["fullpass", *map(str, command), "-o", str(package)], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    taken = Package(*yaml.safe_load_all(package.read_text()))

    def counted(**parameters: str):
        before, began = cluster.pods, time.monotonic()
        tasks = cluster.run(taken, parameters)
        print(f"\n{cluster.pods - before} pods in {time.monotonic() - began:.0f} s")
        return tasks

    first, again = counted(), counted()
    arrive(cluster, 3)
    if TOLD:
        arrive(cluster, 4)
    cluster.started = kill_the_first_trainer
    third = counted(span="scheduled" if TOLD else "new")
    return first, again, third


def kill_the_first_trainer(task: str, attempt: int, process: subprocess.Popen) -> None:
    if (task, attempt) == ("trainer", 1):
        threading.Timer(3, lambda: os.killpg(process.pid, signal.SIGKILL)).start()


LOOK_UP = "find-inputs"


def test_every_task_of_the_first_run_is_done(runs):
    first, _, _ = runs
    assert {task.state for task in first.values()} == {"COMPLETE", "IMPORTED"}
    tasks = {"ingest-and-schema", "statistics-gen-to-span-comparison", "transform", "data-gate", "trainer"}
    assert first.keys() == {LOOK_UP, "last-blessed-model", *tasks, "evaluator-to-report", "nodes"}


def test_nodes_without_tensorflow_ran_where_none_is_installed(runs, cluster):
    of_small = {task for task, image in cluster.images.items() if "small" in image}
    assert of_small == {LOOK_UP, "data-gate"}
    program = "import importlib.util as i; print([bool(i.find_spec(n)) for n in ('tensorflow', 'apache_beam', 'tfx')])"
    [python] = (folder / "python" for folder in cluster.pythons.values())
    told = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[False, False, True]\n"
    sizes = [size_of(Path(folder).parent) for folder in (python.parent, sys.prefix + "/bin")]
    print(f"\nMB of the environment of nodes without TensorFlow, and of all: {sizes[0]}, {sizes[1]}")


def size_of(folder: Path) -> int:
    """Returns the size of a folder in megabytes (10^6 bytes)."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) // 10**6


def test_an_unchanged_run_repeats_the_look_up_alone(runs):
    _, again, _ = runs
    ran = {name for name, task in again.items() if task.state == "COMPLETE"}
    assert ran == {LOOK_UP, "nodes"}


def test_the_third_day_is_ingested_alone_and_the_killed_trainer_is_tried_again(runs, cluster):
    _, _, third = runs
    assert third["trainer"].attempts == 2 and third["evaluator-to-report"].state == "COMPLETE"
    entries = [json.loads(file.read_text()) for file in (cluster.volume / "registry/taxi/examples").glob("*.json")]
    assert sorted((entry["label"], json.loads(entry["metadata"]["counts"])["read"]) for entry in entries) == [
        ("2013-01-01", ROWS_OF_SPAN), ("2013-01-02", ROWS_OF_SPAN), ("2013-01-03", ROWS_OF_SPAN),
    ]  # fmt: skip
    folders = {entry["records"].split("/")[-2 if entry["label"] != "2013-01-03" else -1] for entry in entries}
    assert len(folders) == 2, "days 1 and 2 by the first run, 3 by the third"


def test_the_pushed_model_follows_the_blessed_one_and_answers(runs, cluster, tmp_path):
    assert len([folder for folder in (cluster.volume / "taxi").iterdir() if folder.name.isdigit()]) == 2
    header, *rows = taxi_lines(20)
    (tmp_path / "rows.csv").write_text(header + "".join(rows))
    asked = ["fullpass", "predict", str(cluster.volume / "taxi"), str(tmp_path / "rows.csv")]
    answered = subprocess.run(asked, capture_output=True, text=True)
    assert answered.returncode == 0, answered.stderr
    predictions = [json.loads(line) for line in answered.stdout.splitlines() if line.startswith("{")]
    assert len(predictions) == 20 and all("prediction" in line for line in predictions)


def test_the_dag_of_nodes_is_left_running_only_if_no_container_of_it_ran(runs, cluster):
    """The launcher sets the state of a DAG when one of its containers ends, and the driver never."""
    assert cluster.services.store.states(DAG)["nodes"] == ["COMPLETE", "RUNNING", "COMPLETE"]


def test_metadata_and_store_hold_what_the_run_made(runs, cluster):
    found: Services = cluster.services
    # The importer records a trained model a second time, and an empty model in a first run.
    trained = {model["uri"] for model in found.store.artifacts("tfx.Model") if "/trainer/" in model["uri"]}
    assert len(trained) == 2 and all(uri.startswith(f"s3://{BUCKET}/v2/taxi/") for uri in trained)
    blessings = found.store.artifacts("tfx.ModelBlessing")
    assert [blessing["metadata"]["blessed"] for blessing in blessings] == [1, 1]
    assert list(found.objects.rglob("trainer/*/model/**/saved_model.pb"))
    owners = {(file.stat().st_uid, file.stat().st_gid) for file in (cluster.volume / "taxi").iterdir()}
    assert owners == {(int(USER), int(GROUP))}
