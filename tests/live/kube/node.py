"""The node of the check: containerd, kubelet and kube-proxy, and dnsmasq for the names of services and pods.

No image is pulled. An image has folders, a user, variables and a command; its programs come from this machine: what
runc starts has them mounted.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import REPOSITORY
from tests.live.kube.api import Json, Kubernetes, Refused
from tests.live.kube.control_plane import HOST
from tests.live.servers import answers, server

GROUP_VARIABLE = "CHECK_KUBE_GROUP"
"""Environment variable: name of the cgroup of a check. The kubelet ends processes below it that it does not know."""
PLUGINS = Path("/usr/lib/cni")
PODS = "10.88.0.0/16"
_SOCKET = "/run/containerd/containerd.sock"
_SANDBOX = "registry.example/sandbox:1"
_FOLDERS = ("usr", "etc", "proc", "sys", "dev", "run", "root", "var")
_LINKS = ("bin", "lib", "lib64", "sbin")
_SYSTEM = [Path("/etc") / name for name in ("alternatives", "group", "ld.so.cache", "nsswitch.conf", "passwd", "ssl")]
_RUNC = """\
#!{python} -ES
import json, os, sys
args = sys.argv[1:]
if "create" in args:
    file = args[args.index("--bundle") + 1] + "/config.json"
    with open(file) as opened:
        config = json.load(opened)
    config["mounts"][:0] = {mounts}
    with open(file, "w") as opened:
        json.dump(config, opened)
os.execvp("runc", ["runc", *args])
"""
_KERNEL = {
    "vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000, "kernel/keys/root_maxbytes": 25_000_000,
}  # fmt: skip
"""What the kubelet sets for the whole machine; here it finds these values, and sets nothing."""


@dataclass(frozen=True)
class Image:
    """What the check knows of an image: user, variables, and the command of a container without one."""

    user: str = "0:0"
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()


@contextmanager
def node(kubernetes: Kubernetes, programs: Path, folder: Path, mounts: Mapping[Path, str]) -> Iterator[None]:
    """Runs the node while the block runs.

    Args:
        programs: The folder of kubelet and kube-proxy.
        mounts: Folders of this machine -> where all containers see them.
    """
    for part in ("names", "net"):
        (folder / part).mkdir()
    _write_settings(folder, mounts)
    _hide_kernel_settings(folder)
    _make_groups()
    containerd = ["containerd", "--config", folder / "containerd.toml"]
    named = [f"--kubeconfig={folder}/kubeconfig", "--hostname-override=node"]
    kubelet = [programs / "kubelet", *named, f"--config={folder}/kubelet.json", f"--root-dir={folder}/kubelet",
               f"--node-ip={HOST}", f"--cert-dir={folder}/kubelet-certificates"]  # fmt: skip
    proxy = [programs / "kube-proxy", *named, "--proxy-mode=iptables",
             f"--cluster-cidr={PODS}", "--conntrack-max-per-core=0", "--conntrack-min=0",
             "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"]  # fmt: skip
    names = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--address=/#/", "--user=root", "--pid-file", f"--hostsdir={folder}/names", f"--listen-address={HOST}",
             "--bind-interfaces"]  # fmt: skip
    with ExitStack() as running:
        for command, ready in (
            (containerd, lambda: _ctr("version").returncode == 0),
            (names, lambda: True),
            (kubelet, lambda: _is_node_ready(kubernetes)),
            (proxy, answers("http://127.0.0.1:10256/healthz", "")),
        ):
            log = folder / f"{Path(command[0]).name}.log"
            running.enter_context(server(list(map(str, command)), log, ready, seconds=120))
        add_image(folder, _SANDBOX, Image(command=["/usr/bin/sleep", "infinity"]))
        threading.Thread(target=_tell_names, args=[kubernetes, folder / "names"], daemon=True).start()
        yield


def add_image(folder: Path, name: str, image: Image) -> None:
    """Gives containerd an image. folder: where its archive is written."""
    archive = folder / "image.tar"
    archive.write_bytes(_archive(name, image))
    done = _ctr("images", "import", archive)
    assert done.returncode == 0, done.stderr


def kill(container: str) -> None:
    """Kills a container by its id in the status of its pod (containerd://ID)."""
    done = _ctr("tasks", "kill", "--signal", "SIGKILL", container.rpartition("/")[2])
    assert done.returncode == 0, done.stderr


def _ctr(*arguments: Any) -> subprocess.CompletedProcess:
    command = ["ctr", "--address", _SOCKET, "--namespace", "k8s.io", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _archive(name: str, image: Image) -> bytes:
    """Returns an image of one layer, in the form of `docker save`."""
    entries = [(_entry(part, type=tarfile.DIRTYPE, mode=0o755), b"") for part in _FOLDERS]
    entries += [(_entry(part, type=tarfile.SYMTYPE, linkname=f"usr/{part}"), b"") for part in _LINKS]
    layer = _tar([*entries, (_entry("tmp", type=tarfile.DIRTYPE, mode=0o1777), b"")])
    digest = hashlib.sha256(layer).hexdigest()
    settings = {
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "config": {"User": image.user, "Env": [f"{key}={value}" for key, value in image.env.items()],
                   "Cmd": [*image.command]},
    }  # fmt: skip
    full = name if "." in name.partition("/")[0] else f"docker.io/library/{name}"
    manifest = [{"Config": "config.json", "RepoTags": [full], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(settings).encode(), "layer.tar": layer,
             "manifest.json": json.dumps(manifest).encode()}  # fmt: skip
    return _tar([(_entry(path, size=len(content)), content) for path, content in files.items()])


def _entry(path: str, **attributes: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    for name, value in attributes.items():
        setattr(entry, name, value)
    return entry


def _tar(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _write_settings(folder: Path, mounts: Mapping[Path, str]) -> None:
    own = [Path("/usr"), *_SYSTEM, Path(sys.base_prefix), Path(sys.prefix).resolve(), REPOSITORY]
    every = {**{path: str(path) for path in own if path.exists()}, **mounts}
    runc = folder / "runc"
    bound = [{"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "ro"]}
             for source, target in every.items()]  # fmt: skip
    runc.write_text(_RUNC.format(python=Path(sys.executable).resolve(), mounts=repr(bound)))
    runc.chmod(0o755)
    (folder / "containerd.toml").write_text(f"""\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{_SANDBOX}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{PLUGINS}"
conf_dir = "{folder}/net"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {{BinaryName = "{runc}"}}
""")
    addresses = {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": PODS}]],
                 "routes": [{"dst": "0.0.0.0/0"}]}  # fmt: skip
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}
    (folder / "net" / "pods.conflist").write_text(json.dumps(network))
    (folder / "resolv.conf").touch()
    kubelet = {
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{os.environ[GROUP_VARIABLE]}", "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [HOST], "clusterDomain": "cluster.local", "resolvConf": str(folder / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{_SOCKET}", "imageGCHighThresholdPercent": 100,
        "volumePluginDir": str(folder / "plugins"),
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
    }  # fmt: skip
    (folder / "kubelet.json").write_text(json.dumps(kubelet))


def _hide_kernel_settings(folder: Path) -> None:
    for name, value in _KERNEL.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        subprocess.run(["mount", "--bind", file, f"/proc/sys/{name}"], check=True)


def _make_groups() -> None:
    """Makes the cgroup of the kubelet, which makes those of pods below it.

    Version 1 has one in each of its hierarchies, version 2 in its only one.
    """
    root = Path("/sys/fs/cgroup")
    for parent in [root] if (root / "cgroup.controllers").exists() else filter(Path.is_dir, root.iterdir()):
        made = parent / os.environ[GROUP_VARIABLE]
        made.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            with suppress(OSError):
                (made / name).write_text((parent / name).read_text())


def _is_node_ready(kubernetes: Kubernetes) -> bool:
    found = kubernetes.find("/api/v1/nodes/node") or {}
    conditions = found.get("status", {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def _tell_names(kubernetes: Kubernetes, folder: Path) -> None:
    """Gives dnsmasq the addresses of services, and of pods with host names, for ever."""
    slices = "/apis/discovery.k8s.io/v1/endpointslices"
    for path, addresses in (("/api/v1/services", _of_service), (slices, _of_slice)):
        threading.Thread(target=_watch_names, args=[kubernetes, path, addresses, folder], daemon=True).start()


def _watch_names(kubernetes: Kubernetes, path: str, addresses: Any, folder: Path) -> None:
    while True:
        with suppress(OSError, Refused):
            for _, found in kubernetes.watch(path):
                lines = "".join(f"{address} {name}.svc.cluster.local\n" for name, address in addresses(found))
                if lines:
                    (folder / found["metadata"]["uid"]).write_text(lines)


def _of_service(found: Json) -> Iterator[tuple[str, str]]:
    address = found["spec"].get("clusterIP", "None")
    if address != "None":
        yield f"{found['metadata']['name']}.{found['metadata']['namespace']}", address


def _of_slice(found: Json) -> Iterator[tuple[str, str]]:
    service = found["metadata"]["labels"]["kubernetes.io/service-name"]
    for endpoint in found["endpoints"] or ():
        if "hostname" in endpoint:
            yield f"{endpoint['hostname']}.{service}.{found['metadata']['namespace']}", endpoint["addresses"][0]
