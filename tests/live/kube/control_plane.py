"""The control plane of the check: etcd, kube-apiserver and kube-controller-manager, on the network of the check.

The check runs in network, mount and process namespaces of its own (`tests.live.kube.__main__`), so its addresses are
nobody else's, and whatever it starts ends with it.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.live.kube.api import Kubernetes
from tests.live.servers import listens, server

NETWORK, HOST, PORT = "10.88.0.0/16", "10.88.0.1", 6443
SERVICES = "10.88.128.0/17"
"""Addresses of services. They are inside NETWORK: each is a further address of the service's pod."""
_TOKEN = "a-token-of-this-check"
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def make_network() -> None:
    """Makes the bridge that joins this machine and the pods."""
    for command in (
        "link set lo up", "link add kube0 type bridge", f"addr add {HOST}/{NETWORK[-2:]} dev kube0",
        "link set kube0 up",
    ):  # fmt: skip
        subprocess.run(["ip", *command.split()], check=True)


@contextmanager
def control_plane(programs: Path, folder: Path) -> Iterator[Kubernetes]:
    """Runs the control plane while the block runs. programs: the folder of its programs."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (folder / "accounts.key").write_bytes(key.private_bytes(*form))
    (folder / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
    etcd = [programs / "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", "http://127.0.0.1:2379",
            "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
            "--unsafe-no-fsync"]  # fmt: skip
    apiserver = [
        programs / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--bind-address={HOST}",
        f"--advertise-address={HOST}", f"--secure-port={PORT}", f"--cert-dir={folder}/certificates",
        f"--service-cluster-ip-range={SERVICES}", f"--token-auth-file={folder}/tokens.csv",
        f"--service-account-issuer={_ISSUER}", f"--service-account-key-file={folder}/accounts.key",
        f"--service-account-signing-key-file={folder}/accounts.key", "--authorization-mode=RBAC",
        "--kubelet-preferred-address-types=InternalIP", "--endpoint-reconciler-type=none",
    ]  # fmt: skip
    cluster = Kubernetes(f"https://{HOST}:{PORT}", _TOKEN, folder / "certificates" / "apiserver.crt")
    controllers = [
        programs / "kube-controller-manager", f"--kubeconfig={folder}/kubeconfig", "--leader-elect=false",
        f"--root-ca-file={cluster.ca}", f"--service-account-private-key-file={folder}/accounts.key",
        "--use-service-account-credentials", "--controllers=*,-node-lifecycle-controller,-node-ipam-controller",
    ]  # fmt: skip
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig(cluster)))
    with ExitStack() as running:
        for command, ready in (
            (etcd, listens(2379)),
            (apiserver, lambda: is_ready(cluster)),
            (controllers, listens(10257)),
        ):
            log = folder / f"{command[0].name}.log"
            running.enter_context(server(list(map(str, command)), log, ready, seconds=180))
        yield cluster


def is_ready(cluster: Kubernetes) -> bool:
    """Tells whether the API server answers."""
    try:
        return cluster.get("/readyz") == "ok"
    except Exception:
        return False


def kubeconfig(cluster: Kubernetes) -> dict:
    """Returns the settings of a client of the cluster, with all rights."""
    of_cluster = {"server": cluster.address, "certificate-authority": str(cluster.ca)}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "check",
        "clusters": [{"name": "check", "cluster": of_cluster}],
        "users": [{"name": "admin", "user": {"token": cluster.token}}],
        "contexts": [{"name": "check", "context": {"cluster": "check", "user": "admin"}}],
    }  # fmt: skip
