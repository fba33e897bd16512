"""`make check-kube`: Kubeflow Pipelines' own programs run packages on a Kubernetes control plane."""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from fullpass.kubeflow.kfp_internals import ON_ERROR_SINCE, is_before
from tests.e2e.kubeflow_package import taxi_lines
from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, NODES, PODS, STOOD_IN, Cluster, cluster
from tests.live.kube.platform import Platform, until
from tests.live.kube.recorder import Recorder
from tests.live.servers import needed
from tests.live.taxi import taxi_pipeline

pytestmark = pytest.mark.timeout(3600)
CHECKOUT = "It is a checkout of github.com/kubeflow/pipelines at the tag of a release."
IMAGE = "registry.example/taxi:1.4.2"
ENVIRONMENT = f"""\
image: {IMAGE}
registry: /models/registry
push_to: /models/taxi
defaults: {{volumes: [{{claim: models, mount: /models}}]}}
"""
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
ENDED = ("Succeeded", "Failed", "Error")
ORPHANS_SINCE = "2.16"
"""First release in which runs go on if their schedule is deleted."""
PREDICT = """predict:
  {rows: "/pipeline/rows/{YYYY}.csv", output: "/models/predictions/{YYYY}.parquet", model: pushed, lag: 1d}
"""
TABLE: list[tuple[str, ...]] = []


@dataclass
class Done:
    """The end of a command: exit status, output, seconds."""

    code: int
    output: str
    seconds: float


@dataclass
class Runs:
    """Runs of one pipeline."""

    cluster: Cluster
    host: str
    folder: Path
    models: Path
    release: str
    recorder: Recorder | None
    case: int = 0

    def fullpass(self, *arguments: str) -> Done:
        """Runs a command of Fullpass."""
        began = time.monotonic()
        done = subprocess.run(["fullpass", *arguments], capture_output=True, text=True, check=False, timeout=1800)
        return Done(done.returncode, done.stdout + done.stderr, time.monotonic() - began)

    def environment(self, nodes: str = "") -> str:
        """Writes an environment file; returns its path. nodes: its key `nodes`."""
        self.case += 1
        file = self.folder / f"env-{self.case}.yaml"
        file.write_text(f'kubeflow: "{self.release}"\n{ENVIRONMENT}{nodes}')
        return str(file)

    def variant(self, name: str, changes: dict[str, str]) -> None:
        """Writes a changed copy of the pipeline."""
        text = (self.folder / "pipeline" / "pipeline.yaml").read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (self.folder / "pipeline" / name).write_text(text)

    def submit(
        self, name: str, *more: str, nodes: str = "", pipeline: str = "pipeline.yaml", hurt: Callable = lambda: None
    ) -> Done:
        """Submits a run and waits for it; adds a line to the table. hurt: called beside the run."""
        before = {item["metadata"]["name"] for item in self.workflows()}
        file = str(self.folder / "pipeline" / pipeline)
        threading.Thread(target=hurt, daemon=True).start()
        with self.recorded(name):
            done = self.fullpass("submit", file, "--env", self.environment(nodes), "--host", self.host, *more)
        print(f"\n{done.output[-3000:]}")
        made = [item for item in self.workflows() if item["metadata"]["name"] not in before]
        self.tell(name, done.code, made, done.seconds)
        return done

    @contextmanager
    def recorded(self, name: str) -> Iterator[None]:
        """Records what the API answers while the block runs, if RECORD names a folder."""
        yield
        if self.recorder:
            self.recorder.write(name)

    def tell(self, name: str, code: int, made: list[Json], seconds: float) -> None:
        """Adds a line to the table."""
        pods = sum(node["type"] == "Pod" for item in made for node in item.get("status", {}).get("nodes", {}).values())
        size = sum(len(json.dumps(item, separators=(",", ":"))) for item in made)
        TABLE.append((name, str(code), str(pods), f"{seconds:.0f}", str(size)))
        print(", ".join(TABLE[-1]), flush=True)

    def workflow(self, name: str) -> Json:
        """Returns a Workflow."""
        return self.cluster.kubernetes.get(f"{WORKFLOWS}/{name}")

    def containers(self, node: str) -> list[str]:
        """Returns the names of the pods that run the container of a node."""
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.pods()
            if pod["status"].get("phase") == "Running"
            and any(container["image"] == IMAGE for container in pod["spec"]["containers"])
            and re.search(f'"node": ?"{node}"', json.dumps(pod["spec"]).replace("\\", ""))
        ]

    def pod_of(self, node: str) -> str:
        """Waits for the container of a node; returns the name of its pod."""
        until(lambda: self.containers(node), 900)
        return self.containers(node)[0]

    def delete_pod(self, node: str) -> None:
        """Deletes the pod of a node in the middle of its work."""
        name = self.pod_of(node)
        time.sleep(5)
        self.cluster.kubernetes.delete(f"{PODS}/{name}")

    def versions(self) -> list[str]:
        """Returns the versions that were pushed."""
        return [folder.name for folder in (self.models / "taxi").iterdir() if folder.name.isdigit()]

    def workflows(self) -> list[Json]:
        """Returns all Workflows."""
        return self.cluster.kubernetes.get(WORKFLOWS)["items"]

    def newest(self) -> Json:
        """Returns the Workflow that was created last."""
        return max(self.workflows(), key=lambda item: item["metadata"]["creationTimestamp"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[Runs]:
    checkout, folder = needed("KFP", CHECKOUT), tmp_path_factory.mktemp("kube")
    release = (checkout / "VERSION").read_text().rpartition(".")[0]
    programs, store = Path(os.environ["KUBE_BIN"]), needed("VERSITYGW", "It is an S3 server.")
    (folder / "pipeline").mkdir()
    taxi_pipeline(folder / "pipeline")
    mounts = {folder / "pipeline": "/pipeline"} | {path: str(path) for path in (checkout, programs, store.parent)}
    with cluster(folder, mounts) as found:
        found.add_image(IMAGE, NODES)
        models = found.make_volume("models")
        try:
            host = Platform(programs, checkout, store).start(found)
            with ExitStack() as stack:
                recorder = Recorder(host, Path(os.environ["RECORD"]) / release) if os.environ.get("RECORD") else None
                address = stack.enter_context(recorder.running()) if recorder else host
                yield Runs(found, address, folder, models, release, recorder)
        except BaseException:
            for pod in found.pods():
                print(f"== {pod['metadata']['name']}: {json.dumps(pod['status'])[-1500:]}")
            raise
    print("\n| case | exit status | pods | seconds | bytes of the Workflow |\n" + "|---" * 5 + "|")
    for line in TABLE:
        print(f"| {' | '.join(line)} |")
    print(f"{STOOD_IN}, MySQL (MariaDB), SeaweedFS (versitygw), ML Metadata's server (its library).")


def test_the_first_run(runs):
    done = runs.submit("first run")
    assert done.code == 0 and len(runs.versions()) == 1


def test_an_unchanged_run_trains_nothing(runs):
    before = runs.versions()
    done = runs.submit("unchanged")
    assert done.code == 0 and runs.versions() == before


def test_bad_data_fail_with_their_row(runs):
    header, *rows = taxi_lines(200)
    rows[120] = rows[120].replace(",", ",ten", 1)  # its fare
    runs.variant("bad.yaml", {"trips.csv": "bad.csv"})
    (runs.folder / "pipeline" / "bad.csv").write_text(header + "".join(rows))
    done = runs.submit("bad data", pipeline="bad.yaml")
    assert done.code == 1 and "/pipeline/bad.csv, row 122: 'ten" in done.output  # row 1 is the header


def test_predictions(runs):
    (runs.folder / "pipeline" / "rows").mkdir()
    (runs.folder / "pipeline" / "rows" / "2026.csv").write_text("".join(taxi_lines(300)))
    done = runs.submit("--predict", "--predict", "--param", "date=2026-01-02", nodes=PREDICT)
    assert done.code == 0
    assert (runs.models / "predictions" / "2026.parquet").exists()


def test_a_terminated_run_stops_its_pods_and_is_deleted(runs):
    runs.variant("stopped.yaml", {"epochs: 1": "epochs: 400"})
    before = {item["metadata"]["name"] for item in runs.workflows()}
    done = runs.submit("started", "--no-wait", pipeline="stopped.yaml")
    assert done.code == 0
    [made] = [item for item in runs.workflows() if item["metadata"]["name"] not in before]
    name, run = made["metadata"]["name"], made["metadata"]["labels"]["pipeline/runid"]
    runs.pod_of("Trainer")
    began = time.monotonic()
    requests.post(f"{runs.host}/apis/v2beta1/runs/{run}:terminate", timeout=60).raise_for_status()
    until(lambda: runs.workflow(name)["status"].get("phase") in ENDED, 300)
    until(lambda: not runs.containers("Trainer"), 120)
    runs.tell("terminated", 1, [runs.workflow(name)], time.monotonic() - began)
    told = runs.submit("wait for it", "--run", run, pipeline="stopped.yaml")
    assert told.code == 1 and f"run {run} was canceled." in told.output
    requests.delete(f"{runs.host}/apis/v2beta1/runs/{run}", timeout=60).raise_for_status()
    until(lambda: name not in {item["metadata"]["name"] for item in runs.workflows()}, 60)


def test_a_recurring_run(runs):
    runs.variant("scheduled.yaml", {"push:": 'schedule: {cron: "* * * * *"}\npush:'})
    given = [str(runs.folder / "pipeline" / "scheduled.yaml"), "--host", runs.host]
    before = {item["metadata"]["name"] for item in runs.workflows()}

    def change(verb: str, *more: str) -> None:
        done = runs.fullpass("schedule", verb, *given, *more)
        assert done.code == 0, done.output

    with runs.recorded("schedule"):
        change("apply", "--env", (env := runs.environment()))
        change("apply", "--env", env)
        change("list", "--env", env)
        until(lambda: len(runs.workflows()) > len(before), 150)
        change("pause")
        change("resume")
        [newest, *_] = [name for item in runs.workflows() if (name := item["metadata"]["name"]) not in before]
        if not (deletes_runs := is_before(runs.release, ORPHANS_SINCE)):
            change("delete")  # the run goes on, though its schedule is gone
        began = time.monotonic()
        until(lambda: runs.workflow(newest)["status"].get("phase") in ENDED, 1200)
        made = runs.workflow(newest)
        if deletes_runs:
            change("delete")
    assert made["status"]["phase"] == "Succeeded"
    runs.tell("recurring", 0, [made], time.monotonic() - began)


def test_a_pod_that_is_deleted_is_tried_again(runs):
    if is_before(runs.release, ON_ERROR_SINCE):
        pytest.skip("this release retries containers that fail, and no lost pod")
    runs.variant("longer.yaml", {"epochs: 1": "epochs: 2"})
    done = runs.submit("deleted pod", pipeline="longer.yaml", hurt=lambda: runs.delete_pod("Trainer"))
    messages = [node.get("message") for node in runs.newest()["status"]["nodes"].values()]
    assert done.code == 0 and "pod deleted" in messages


def test_a_container_that_is_killed_for_memory_says_so(runs):
    runs.variant("memory.yaml", {"epochs: 1": "epochs: 3"})
    done = runs.submit("OOM", pipeline="memory.yaml", nodes="nodes: {Trainer: {memory: {limit: 300Mi}}}\n")
    assert done.code == 1 and "trainer: was killed for memory above its limit (OOMKilled)" in done.output
