"""One cluster: control plane, a node, and the namespace of Kubeflow."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import REPOSITORY
from tests.live.kube.container import Image
from tests.live.kube.control_plane import HOST, control_plane, make_network
from tests.live.kube.kubelet import Kubelet
from tests.live.kube.node_server import node_server

NAMESPACE = "kubeflow"
NODES_ENV = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "HOME": "/tmp",
    "USER": "fullpass", "LOGNAME": "fullpass", "TF_USE_LEGACY_KERAS": "0", "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip
NODES = Image(65532, 0, NODES_ENV)
"""The image of the nodes: this environment, and the user of kubeflow/Dockerfile."""


@contextmanager
def cluster(folder: Path, image_of=lambda name: NODES) -> Iterator[Kubelet]:
    """Runs a cluster while the block runs. KUBE_BIN is the folder of the programs of its control plane."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # names of networks, and runc's state
    os.umask(0o002)  # folders of this check are writable for group 0, like the volumes of a cluster
    make_network()
    folder.chmod(0o755)
    with control_plane(Path(os.environ["KUBE_BIN"]), folder) as kubernetes:
        kubelet = Kubelet(kubernetes, folder / "node", image_of)
        with node_server(kubelet, folder, HOST) as port:
            kubelet.register(port)
            kubernetes.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            for watch in (kubelet.watch_services, kubelet.watch_pods):
                threading.Thread(target=watch, daemon=True).start()
            yield kubelet
