"""Runs a package with the driver and the launcher of a release, one process after the other, as Argo starts their pods.

This module does the work of Argo: the order of tasks, the outputs of drivers, one pod per attempt. Each pod has its own
file system on top of this machine's, the user of the image, and no capabilities, which needs root.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.kfp_internals import SCHEDULE_TIME_SINCE, is_before
from tests import REPOSITORY
from tests.live.kfp_services import Services

USER, GROUP = "65532", "0"
POD = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$POD"
mkdir "$POD/upper" "$POD/work" "$POD/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$POD/upper,workdir=$POD/work" "$POD/root"
R="$POD/root"
for folder in minio s3 gcs oci; do install -d -m 1777 "$R/$folder"; done
install -d -m 755 "$R/kfp-launcher" "$R/pipeline" "$R/models" "$R/out"
chmod 755 "$R/root"
echo "127.0.0.1 localhost ml-pipeline.kubeflow" > "$R/etc/hosts"
mount -t tmpfs -o mode=755 tmpfs "$R/run"
# Not by /var/run, a link that would lead out of here.
install -d -m 755 "$R/run/secrets/kubernetes.io/serviceaccount"
cp "$ACCOUNT"/* "$R/run/secrets/kubernetes.io/serviceaccount/"
chmod -R a+rX "$R/run/secrets"
cp "$LAUNCHER" "$R/kfp-launcher/launch"
mount --bind "$PIPELINE" "$R/pipeline"
mount --bind "$VOLUME" "$R/models"
mount --bind "$OUT" "$R/out"
mount -t proc proc "$R/proc"
mount --rbind /dev "$R/dev"
cd /
"""


class TaskFailed(Exception):
    """A task that did not succeed."""


@dataclass(frozen=True)
class Task:
    """The final state of a task (COMPLETE, CACHED, IMPORTED or SKIPPED) and the number of its attempts."""

    state: str
    attempts: int = 1


@dataclass
class Cluster:
    """One installation of Kubeflow Pipelines.

    Attributes:
        release: Release of the driver and the launcher.
        binaries: Folder of the driver and the launcher.
        pipeline: Folder that pods see at /pipeline.
        volume: Folder that pods see at /models.
        pythons: Image -> folder of its programs, for images that do not use this environment.
        images: Task -> its image.
        started: Called with task, attempt and process of each pod.
    """

    release: str
    binaries: Path
    services: Services
    folder: Path
    pipeline: Path
    volume: Path
    pythons: Mapping[str, Path] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    pods: int = 0
    started: Callable[[str, int, subprocess.Popen], None] = lambda task, attempt, process: None

    def run(self, package: Package, parameters: Mapping[str, str] | None = None) -> dict[str, Task]:
        """Runs a package; returns the final state of each task.

        Raises:
            TaskFailed: A task failed; the message holds the end of its log.
        """
        return _Run(self, package, str(uuid.uuid4())).root(dict(parameters or {}))


@dataclass
class _Run:
    cluster: Cluster
    package: Package
    id: str
    tasks: dict[str, Task] = field(default_factory=dict)

    def root(self, parameters: dict[str, str]) -> dict[str, Task]:
        declared = self.package.pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
        # argocompiler/argo.go fills in the defaults in the same way.
        defaults = {name: entry["defaultValue"] for name, entry in declared.items() if "defaultValue" in entry}
        config = json.dumps({"parameterValues": defaults | parameters})
        outputs = self._driver("ROOT_DAG", self.package.pipeline["root"], "root", ["--runtime_config", config])
        self._dag(self.package.pipeline["root"]["dag"]["tasks"], outputs["execution-id"])
        return self.tasks

    def _dag(self, tasks: dict[str, Any], parent: str) -> None:
        waiting = dict(tasks)
        while waiting:
            ready = [name for name, task in waiting.items() if not set(task.get("dependentTasks", ())) & set(waiting)]
            for name in ready:
                self._task(name, waiting.pop(name), parent)

    def _task(self, name: str, task: dict[str, Any], parent: str) -> None:
        component = self.package.pipeline["components"][task["componentRef"]["name"]]
        of_task = ["--dag_execution_id", parent, "--task", json.dumps(task), "--task_name", name]
        if "dag" in component:
            outputs = self._driver("DAG", component, name, of_task)
            self._dag(component["dag"]["tasks"], outputs["execution-id"])
            self.tasks[name] = Task("COMPLETE")
            return
        executor = self.package.executors[component["executorLabel"]]
        if "importer" in executor:
            self._import(name, task, component, executor["importer"], parent)
            return
        pod = self.package.kubernetes.get(component["executorLabel"], {})
        given = ["--container", json.dumps(executor["container"]), "--kubernetes_config", json.dumps(pod)]
        outputs = self._driver("CONTAINER", component, name, [*of_task, *given])
        if outputs["condition"] == "false":
            self.tasks[name] = Task("SKIPPED")
        elif outputs["cached-decision"] == "true":
            self.tasks[name] = Task("CACHED")
        else:
            self._container(name, json.loads(outputs["pod-spec-patch"]), task.get("retryPolicy", {}))

    def _driver(self, kind: str, component: dict[str, Any], name: str, more: list[str]) -> dict[str, str]:
        """Runs the driver of a task; returns the outputs that it wrote."""
        services, out = self.cluster.services, self._out(f"{name}-driver")
        paths = ["execution-id", "iteration-count", "pod-spec-patch", "cached-decision", "condition"]
        written = [part for path in paths for part in (f"--{path.replace('-', '_')}_path", f"/out/{path}")]
        command = [
            str(self.cluster.binaries / "driver"), "--type", kind, *self._common(), "--run_name", f"run-{self.id}",
            "--run_display_name", "check", "--component", json.dumps(component), *written,
            "--http_proxy", "", "--https_proxy", "", "--no_proxy", "",
            "--ml_pipeline_server_address", "127.0.0.1", "--ml_pipeline_server_port", str(services.cache),
            *self._metadata(), *more,
        ]  # fmt: skip
        if not is_before(self.cluster.release, SCHEDULE_TIME_SINCE):
            command += ["--pipeline_job_create_time_utc", "2013-01-05T09:30:00Z"]
        self._pod(f"{name}-driver", command, {}, out, 1)
        return {path: (out / path).read_text() if (out / path).exists() else "" for path in paths}

    def _container(self, name: str, pod: dict[str, Any], retries: dict[str, Any]) -> None:
        [container] = pod["containers"]
        self.cluster.images[name] = image = container["image"]
        programs = self.cluster.pythons.get(image, Path(sys.executable).parent)
        env = {entry["name"]: entry["value"] for entry in container.get("env", ()) if "value" in entry}
        env |= {"PATH": f"{programs}:/usr/bin:/bin"}
        command = [*container["command"], *container.get("args", ())]
        most = 1 + int(retries.get("maxRetryCount", 0))
        for attempt in range(1, most + 1):
            try:
                self._pod(name, command, env, self._out(f"{name}-{attempt}"), attempt)
            except TaskFailed:
                if attempt == most:
                    raise
                continue
            self.tasks[name] = Task("COMPLETE", attempt)
            return

    def _import(
        self, name: str, task: dict[str, Any], component: dict[str, Any], importer: dict[str, Any], parent: str
    ) -> None:
        command = [
            "/kfp-launcher/launch", "--executor_type", "importer", *self._common(), "--parent_dag_id", parent,
            "--task_spec", json.dumps(task), "--component_spec", json.dumps(component),
            "--importer_spec", json.dumps(importer), "--pod_name", "pod", "--pod_uid", "uid", *self._metadata(),
        ]  # fmt: skip
        self._pod(name, command, {}, self._out(name), 1)
        self.tasks[name] = Task("IMPORTED")

    def _common(self) -> list[str]:
        return ["--pipeline_name", self.package.name, "--run_id", self.id]

    def _metadata(self) -> list[str]:
        return ["--mlmd_server_address", "127.0.0.1", "--mlmd_server_port", str(self.cluster.services.metadata)]

    def _out(self, name: str) -> Path:
        out = self.cluster.folder / self.id / name
        out.mkdir(parents=True)
        out.chmod(0o777)
        return out

    def _pod(self, name: str, command: list[str], env: Mapping[str, str], out: Path, attempt: int) -> None:
        cluster = self.cluster
        cluster.pods += 1
        place = cluster.folder / f"pod-{cluster.pods}"
        place.mkdir()
        inside = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "HOME": "/tmp",
            "USER": "fullpass", "LOGNAME": "fullpass", "TF_USE_LEGACY_KERAS": "0", "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONDONTWRITEBYTECODE": "1", "KFP_POD_NAME": name, "KFP_POD_UID": "uid",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.services.kubernetes),
            "METADATA_GRPC_SERVICE_HOST": "127.0.0.1", "METADATA_GRPC_SERVICE_PORT": str(cluster.services.metadata),
            **env,
        }  # fmt: skip
        drop = ["--reuid", USER, "--regid", GROUP, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        variables = [f"{key}={value}" for key, value in inside.items()]
        command = [_expanded(part, inside) for part in command]
        start = shlex.join(["setpriv", *drop, "env", "-i", *variables, *command])
        script = f'{POD}\nexec chroot "$R" {start}'
        outside = {
            **os.environ, "POD": str(place), "ACCOUNT": str(cluster.services.account), "OUT": str(out),
            "LAUNCHER": str(cluster.binaries / "launcher-v2"), "PIPELINE": str(cluster.pipeline),
            "VOLUME": str(cluster.volume),
        }  # fmt: skip
        with open(out / "log", "w") as log:
            process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", script],
                env=outside, stdout=log, stderr=log, cwd="/", start_new_session=True,
            )  # fmt: skip
            began = time.monotonic()
            cluster.started(name, attempt, process)
            code = process.wait(timeout=1200)
        print(f"  {name} {attempt}: exit status {code}, {time.monotonic() - began:.1f} s", flush=True)
        if code:
            raise TaskFailed(f"{name}: exit status {code}: {(out / 'log').read_text(errors='replace')[-3000:]}")


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Expands arguments as Kubernetes does: $(NAME) of an existing variable, and $$."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_][\w.-]*)\)",
        lambda found: "$" if found[1] is None else variables.get(found[1], found[0]),
        text,
    )
