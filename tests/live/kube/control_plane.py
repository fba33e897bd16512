"""The control plane of the check: etcd, API server, controllers and scheduler, on the network of the check.

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

HOST, PORT = "10.87.0.1", 6443
"""The address of this machine for pods, and the port of the API server."""
_SERVICES = "10.89.0.0/16"
_TOKEN = "a-token-of-this-check"
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def make_network() -> None:
    """Gives this machine the address that pods know, and a way to the services, whose addresses kube-proxy replaces."""
    for command in ("link set lo up", f"addr add {HOST}/32 dev lo", f"route add {_SERVICES} dev lo src {HOST}"):
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
        f"--service-cluster-ip-range={_SERVICES}", f"--token-auth-file={folder}/tokens.csv",
        f"--service-account-issuer={_ISSUER}", f"--service-account-key-file={folder}/accounts.key",
        f"--service-account-signing-key-file={folder}/accounts.key", "--authorization-mode=RBAC",
        "--kubelet-preferred-address-types=InternalIP",
    ]  # fmt: skip
    cluster = Kubernetes(f"https://{HOST}:{PORT}", _TOKEN, folder / "certificates" / "apiserver.crt")
    controllers = [
        programs / "kube-controller-manager", f"--kubeconfig={folder}/kubeconfig", "--leader-elect=false",
        f"--root-ca-file={cluster.ca}", f"--service-account-private-key-file={folder}/accounts.key",
        "--use-service-account-credentials",
    ]  # fmt: skip
    scheduler = [programs / "kube-scheduler", f"--kubeconfig={folder}/kubeconfig", "--leader-elect=false"]
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig(cluster)))
    with ExitStack() as running:
        for command, ready in (
            (etcd, listens(2379)),
            (apiserver, lambda: is_ready(cluster)),
            (controllers, listens(10257)),
            (scheduler, listens(10259)),
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
