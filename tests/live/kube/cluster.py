"""One cluster: control plane, a node, and the namespace of Kubeflow."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.live.kube.api import Json, Kubernetes
from tests.live.kube.control_plane import control_plane, make_network
from tests.live.kube.node import PLUGINS, Image, add_image, kill, node

NAMESPACE = "kubeflow"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_ENV = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "HOME": "/tmp",
    "USER": "fullpass", "LOGNAME": "fullpass", "TF_USE_LEGACY_KERAS": "0", "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip
NODES = Image("65532:0", _ENV)
"""The image of the nodes: this environment, and the user of kubeflow/Dockerfile."""

PROGRAMS = ("containerd", "ctr", "dnsmasq", "ip", "iptables", "runc")
STOOD_IN = (
    "Real: etcd, kube-apiserver with RBAC and admission, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, "
    "containerd, runc. Stood in for: images (programs of this machine), the name service (dnsmasq)"
)


@dataclass(frozen=True)
class Cluster:
    """A cluster whose objects are below a folder."""

    kubernetes: Kubernetes
    folder: Path

    def add_image(self, name: str, image: Image) -> None:
        """Gives the node an image."""
        add_image(self.folder, name, image)

    def make_volume(self, claim: str) -> Path:
        """Makes a volume that many pods may mount, with its claim; returns its folder."""
        folder = self.folder / "volumes" / claim
        folder.mkdir(parents=True)
        folder.chmod(0o2775)  # like a disk whose root was once made writable for the group
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        size = {"storage": "1Gi"}
        volume = {"capacity": size, "hostPath": {"path": str(folder)}, **common}
        wanted = {"resources": {"requests": size}, "volumeName": claim, **common}
        named = {"apiVersion": "v1", "metadata": {"name": claim}}
        self.kubernetes.apply([
            {"kind": "PersistentVolume", "spec": volume, **named},
            {"kind": "PersistentVolumeClaim", "spec": wanted, **named},
        ], NAMESPACE)  # fmt: skip
        return folder

    def pods(self, labels: str = "") -> list[Json]:
        """Returns the pods of the namespace, or those with labels."""
        return self.kubernetes.get(PODS, labelSelector=labels)["items"]

    def kill(self, pod: Json) -> None:
        """Kills the first container of a pod."""
        kill(pod["status"]["containerStatuses"][0]["containerID"])


@contextmanager
def cluster(folder: Path, mounts: Mapping[Path, str] | None = None) -> Iterator[Cluster]:
    """Runs a cluster while the block runs. KUBE_BIN is the folder of its programs.

    Args:
        mounts: Folders of this machine -> where all containers see them.
    """
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent or not (PLUGINS / "ptp").exists():
        pytest.exit(f"The check needs {', '.join(PROGRAMS)} on PATH, and CNI's plugins in {PLUGINS}.", returncode=2)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # sockets, networks, and the state of runc
    for part in ("var", "var-work"):  # logs of pods, and what the kubelet and its network plugins keep
        (folder / part).mkdir()
    layers = f"lowerdir=/var,upperdir={folder}/var,workdir={folder}/var-work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, "/var"], check=True)
    os.umask(0o002)  # folders of this check are writable for group 0, like the volumes of a cluster
    make_network()
    programs = Path(os.environ["KUBE_BIN"])
    for part in (folder, *folder.parents[:-2]):  # a program that is not root looks into folders on the way to its own
        part.chmod(0o755)
    with control_plane(programs, folder) as kubernetes, node(kubernetes, programs, folder, mounts or {}):
        kubernetes.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield Cluster(kubernetes, folder)
