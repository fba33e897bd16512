"""Kubeflow Pipelines on the cluster of the check: the objects of its manifests, with its own programs and Argo's.

MySQL, SeaweedFS and the metadata server are other programs: MariaDB, versitygw, and ML Metadata's library. Programs
that runs do not need are left out: pages, viewers, and the cache of packages of the first version.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import requests
import yaml

from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, NODES
from tests.live.kube.container import Image, Mount
from tests.live.kube.kubelet import Kubelet

_ARGO = "https://github.com/argoproj/argo-workflows/"
_KEPT = ("ml-pipeline", "ml-pipeline-persistenceagent", "ml-pipeline-scheduledworkflow", "workflow-controller")
_DATABASE = (
    "mkdir -p /tmp/db/mysql && exec mariadbd --no-defaults --datadir=/tmp/db --skip-grant-tables "
    "--bind-address=0.0.0.0 --socket=/tmp/db.sock --innodb-flush-log-at-trx-commit=0"
)
_STORE = "mkdir -p /tmp/store && exec versitygw --access $KEY --secret $SECRET --port :9000 posix /tmp/store"
_METADATA = f"exec {sys.executable} -P -m tests.live.metadata_service 0.0.0.0:8080 /tmp/metadata.sqlite"
_INSTEAD = {"mysql": _DATABASE, "seaweedfs": _STORE, "metadata-grpc-deployment": _METADATA}


@dataclass(frozen=True)
class Platform:
    """Kubeflow Pipelines: the folders of programs and of its sources, and the folder that nodes see as /pipeline."""

    programs: Path
    checkout: Path
    pipeline: Path

    def image(self, name: str) -> Image:
        """Returns what an image is here."""
        if name.startswith("registry.example/"):
            return replace(NODES, mounts=(Mount(self.pipeline, "/pipeline", read_only=True),))
        commands = {
            "kfp-api-server": f"exec apiserver --config={self.checkout}/backend/src/apiserver/config -logtostderr=true",
            "kfp-persistence-agent": "exec persistence --logtostderr=true --namespace=$NAMESPACE --numWorker 2",
            "kfp-scheduled-workflow": "exec scheduledworkflow --logtostderr=true --namespace=$NAMESPACE",
        }
        [command] = [text for part, text in commands.items() if part in name] or [""]
        path = f"{self.programs}:{NODES.env['PATH']}:/usr/sbin"
        return Image(
            65532, 0, {**NODES.env, "PATH": path}, ["sh", "-ec", command] if command else ["workflow-controller"]
        )

    def objects(self, folder: Path) -> Iterator[Json]:
        """Yields the objects of the manifests. folder: for a copy whose addresses are local."""
        copy = folder / "manifests"
        shutil.copytree(self.checkout / "manifests" / "kustomize", copy)
        argo = self._argo(folder)
        for file in copy.rglob("kustomization.yaml"):
            up = "../" * len(file.relative_to(folder).parent.parts)
            lines = (
                f"- {up}argo/{_of_argo(line)}" if _ARGO in line else line for line in file.read_text().splitlines()
            )
            file.write_text("\n".join(lines) + "\n")
        assert argo.exists()
        for part in ("cluster-scoped-resources", "env/platform-agnostic"):
            built = subprocess.run(
                [self.programs / "kustomize", "build", copy / part], capture_output=True, text=True, check=False
            )
            assert built.returncode == 0, built.stderr
            yield from filter(None, map(self._as_here, yaml.safe_load_all(built.stdout)))

    def _argo(self, folder: Path) -> Path:
        """Copies Argo's manifests out of its Go module."""
        found = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-workflows/v4"],
                               cwd=self.checkout, capture_output=True, text=True, check=True)  # fmt: skip
        shutil.copytree(Path(found.stdout.strip()) / "manifests", folder / "argo" / "manifests")
        subprocess.run(["chmod", "-R", "u+w", folder / "argo"], check=True)
        return folder / "argo"

    @staticmethod
    def _as_here(item: Json) -> Json | None:
        """Returns an object as the check applies it; None to leave it out."""
        name = item["metadata"]["name"]
        if item["kind"] in ("Application", "Namespace", "NetworkPolicy") or name.endswith("applications.app.k8s.io"):
            return None
        if item["kind"] != "Deployment":
            return item
        if name not in (*_KEPT, *_INSTEAD):
            return None
        pod = item["spec"]["template"]["spec"]
        pod["initContainers"] = []  # they wait for others; here a program starts again until they are there
        if name in _INSTEAD:
            [container] = pod["containers"]
            secret = {"name": "mlpipeline-minio-artifact"}
            variables = {"KEY": "accesskey", "SECRET": "secretkey"}
            env = [
                {"name": key, "valueFrom": {"secretKeyRef": {**secret, "key": entry}}}
                for key, entry in variables.items()
            ]
            only = {
                "name": container["name"],
                "image": container["image"],
                "command": ["sh", "-ec", _INSTEAD[name]],
                "env": env,
            }
            pod |= {"containers": [only], "volumes": [], "securityContext": {"runAsUser": 65532}}
        return item


def _of_argo(line: str) -> str:
    return line.partition(_ARGO)[2].partition("?")[0]


def start_platform(kubelet: Kubelet, platform: Platform, folder: Path) -> str:
    """Applies the manifests, and waits for the API server; returns its address."""
    cluster = kubelet.cluster
    items = list(platform.objects(folder))
    first = [item for item in items if item["kind"] == "CustomResourceDefinition"]
    cluster.apply(first, NAMESPACE)
    for item in first:
        _until(
            lambda item=item: _is_established(
                cluster.find(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{item['metadata']['name']}")
            )
        )
    # Services come before pods, which take their addresses.
    rest = sorted((item for item in items if item not in first), key=lambda item: item["kind"] == "Deployment")
    cluster.apply(rest, NAMESPACE)
    service = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/services/ml-pipeline")
    address = f"http://{service['spec']['clusterIP']}:8888"
    _until(lambda: _answers(f"{address}/apis/v2beta1/healthz"), 300)
    return address


def _is_established(found: Json | None) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions", ())
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False


def _until(holds, seconds: float = 60) -> None:
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.5)
