"""Kubeflow Pipelines on the cluster of the check: the objects of its manifests, with its own programs and Argo's.

MySQL, the store (SeaweedFS or MinIO) and the metadata server are other programs: MariaDB, versitygw, and ML Metadata's
library. Programs that runs do not need are left out: pages, viewers, and the cache of packages of the first version.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, NODES, Cluster
from tests.live.kube.node import Image

_ARGO = "https://github.com/argoproj/argo-workflows/"
_KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LEFT_OUT = ("Application", "Namespace", "NetworkPolicy")
_KEPT = ("ml-pipeline", "ml-pipeline-persistenceagent", "ml-pipeline-scheduledworkflow", "workflow-controller")
_DATABASE = (
    "mkdir -p /tmp/db/mysql && exec mariadbd --no-defaults --datadir=/tmp/db --skip-grant-tables "
    "--bind-address=0.0.0.0 --socket=/tmp/db.sock --innodb-flush-log-at-trx-commit=0"
)
_METADATA = f"exec {sys.executable} -P -m tests.live.metadata_service 0.0.0.0:8080 /tmp/metadata.sqlite"


@dataclass(frozen=True)
class Platform:
    """Kubeflow Pipelines: the folders of programs and of its sources, and the S3 server."""

    programs: Path
    checkout: Path
    store: Path

    @property
    def instead(self) -> dict[str, tuple[str, int]]:
        """Deployment -> command and port of what stands in for it."""
        store = f"mkdir -p /tmp/store/mlpipeline && exec {self.store} --access $KEY --secret $SECRET --region minio"
        return {
            "mysql": (_DATABASE, 3306),
            "seaweedfs": (f"{store} --port :8333 posix /tmp/store", 8333),
            "minio": (f"{store} --port :9000 posix /tmp/store", 9000),  # until 2.14
            "metadata-grpc-deployment": (_METADATA, 8080),
        }

    def start(self, found: Cluster) -> str:
        """Applies the manifests, and waits for the API server; returns its address."""
        kubernetes, items = found.kubernetes, list(self._objects(found.folder))
        for name in {*_images(items), *self._compiled_in()}:
            found.add_image(name, self._image(name))
        kinds = [item for item in items if item["kind"] == "CustomResourceDefinition"]
        last = [item for item in items if item["metadata"]["name"] in _KEPT and item["kind"] == "Deployment"]
        kubernetes.apply(kinds, NAMESPACE)
        until(
            lambda: all(
                _holds(kubernetes.find(f"{_KINDS}/{item['metadata']['name']}"), "Established") for item in kinds
            ),
            60,
        )
        kubernetes.apply((item for item in items if item not in kinds and item not in last), NAMESPACE)
        deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        for name in self.instead.keys() & {item["metadata"]["name"] for item in items if item["kind"] == "Deployment"}:
            until(lambda name=name: _holds(kubernetes.get(f"{deployments}/{name}"), "Available"), 120)
        kubernetes.apply(last, NAMESPACE)
        service = kubernetes.get(f"/api/v1/namespaces/{NAMESPACE}/services/ml-pipeline")
        address = f"http://{service['spec']['clusterIP']}:8888"
        until(lambda: _answers(f"{address}/apis/v2beta1/healthz"), 300)
        return address

    def _image(self, name: str) -> Image:
        """Returns an image, with the command of the program's own Dockerfile if its deployment has none."""
        config = f"{self.checkout}/backend/src/apiserver/config"
        commands = {
            "kfp-api-server": f"exec apiserver --config={config} -logtostderr=true",
            "kfp-persistence-agent": "exec persistence --logtostderr=true --namespace=$NAMESPACE --numWorker 2",
            "kfp-scheduled-workflow": "exec scheduledworkflow --logtostderr=true --namespace=$NAMESPACE",
        }
        started = [word for part, text in commands.items() if part in name for word in ("sh", "-ec", text)]
        return Image(NODES.user, {**NODES.env, "PATH": f"{self.programs}:{NODES.env['PATH']}:/usr/sbin"}, started)

    def _compiled_in(self) -> list[str]:
        """Returns the images that the API server of 2.4 names, as its manifests do not."""
        version = (self.checkout / "VERSION").read_text().strip()
        return [f"ghcr.io/kubeflow/kfp-{program}:{version}" for program in ("driver", "launcher")]

    def _objects(self, folder: Path) -> Iterator[Json]:
        """Yields the objects of the manifests. folder: for a copy whose addresses are local."""
        copy = folder / "manifests"
        shutil.copytree(self.checkout / "manifests" / "kustomize", copy)
        shutil.copytree(self.programs.parent / "argo" / "manifests", folder / "argo" / "manifests")
        for file in copy.rglob("kustomization.yaml"):
            local = "../" * len(file.relative_to(folder).parent.parts) + "argo/"
            text = re.sub(rf"{_ARGO}([^?\s]+)\S*", lambda found: local + found[1], file.read_text())  # noqa: B023
            file.write_text(text)
        for part in ("cluster-scoped-resources", "env/platform-agnostic"):
            built = subprocess.run(
                [self.programs / "kustomize", "build", copy / part], capture_output=True, text=True, check=False
            )
            assert built.returncode == 0, built.stderr
            yield from filter(None, map(self._as_here, yaml.safe_load_all(built.stdout)))

    def _as_here(self, item: Json) -> Json | None:
        """Returns an object as the check applies it; None to leave it out."""
        name = item["metadata"]["name"]
        if item["kind"] in _LEFT_OUT or name.endswith("applications.app.k8s.io"):
            return None
        if item["kind"] != "Deployment":
            return item
        pod = item["spec"]["template"]["spec"]
        pod["initContainers"] = []  # they wait for others, which are there
        if name in _KEPT:
            return item
        if name not in self.instead:
            return None
        command, port = self.instead[name]
        container = {
            "name": "main", "image": "ghcr.io/instead:1", "command": ["sh", "-ec", command],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
            "env": [
                {"name": variable, "valueFrom": {"secretKeyRef": {"name": "mlpipeline-minio-artifact", "key": key}}}
                for variable, key in (("KEY", "accesskey"), ("SECRET", "secretkey"))
            ],
        }  # fmt: skip
        pod |= {"containers": [container], "volumes": [], "securityContext": {}}
        return item


def until(holds: Callable[[], object], seconds: float) -> None:
    """Waits until something holds."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(1)


def _images(items: Sequence[Json]) -> list[str]:
    """Returns the images that deployments name, in variables and arguments too."""
    text = json.dumps([item for item in items if item["kind"] == "Deployment"])
    return sorted(set(re.findall(r'"((?:gcr|ghcr|quay)\.io/[^"\s]+)', text)))


def _holds(found: Json | None, condition: str) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False
