"""Containers of the small kubelet: bundles for runc, whose file system is this machine's with a layer of its own.

No image is pulled: an image is a user, variables, and a command. Programs come from this machine.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
CGROUP = "fullpass-check-kube"
_RUNC = ("runc", "--root", "/run/fullpass-check-kube")
_CAPABILITIES = [
    f"CAP_{name}"
    for name in "CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT AUDIT_WRITE".split()
]
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9, "m": 1e-3}


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine that a container sees."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Image:
    """What the check knows of an image: user, group, variables, files, and the command of a container without one."""

    user: int = 0
    group: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    mounts: Sequence[Mount] = ()


def amount(text: str) -> float:
    """Returns a quantity of Kubernetes as a number.

    Example:
        >>> amount("1.5Gi"), amount("500m"), amount("2")
        (1610612736.0, 0.5, 2.0)
    """
    text = str(text)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * _UNITS.get(unit, 1)


class Container:
    """One start of a container of a pod; `log` and `message` are the files of its output and its last words."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.log, self.message = folder / "log", folder / "message"
        self._process: subprocess.Popen | None = None

    def start(self, pod: Json, spec: Json, image: Image, env: Mapping[str, str], mounts: Sequence[Mount]) -> None:
        """Starts it. pod: `name` and `network`, the path of its network namespace, and its securityContext."""
        for part in ("upper", "work", "root"):
            (self.folder / part).mkdir(parents=True)
        self.message.touch()
        self.message.chmod(0o666)
        options = f"lowerdir=/,upperdir={self.folder}/upper,workdir={self.folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.folder / "root"], check=True)
        # A program that is not root looks into folders on the way to its own.
        (self.folder / "root" / "root").chmod(0o755)
        end = Mount(self.message, spec.get("terminationMessagePath", "/dev/termination-log"))
        bundle = _bundle(f"{self.folder}/root", self.name, pod, spec, image, env, [*image.mounts, *mounts, end])
        (self.folder / "config.json").write_text(json.dumps(bundle))
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [*_RUNC, "--log", self.folder / "runc.log", "run", "--keep", "--bundle", self.folder, self.name],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process is not None and self._process.poll() is not None

    def signal(self, name: str) -> None:
        """Sends a signal to its first process; KILL to all."""
        subprocess.run([*_RUNC, "kill", *(["--all"] if name == "KILL" else []), self.name, name],
                       capture_output=True, check=False)  # fmt: skip

    def execute(self, command: Sequence[str]) -> subprocess.CompletedProcess:
        """Runs a command inside it."""
        return subprocess.run([*_RUNC, "exec", self.name, *command], capture_output=True, check=False)

    def finish(self) -> Json:
        """Removes what is left of an ended container; returns its exit status, reason and last words."""
        code = self._process.wait()
        group = Path("/sys/fs/cgroup/memory") / CGROUP / self.name / "memory.oom_control"
        is_full = group.exists() and "oom_kill 0" not in group.read_text()
        subprocess.run([*_RUNC, "delete", "--force", self.name], capture_output=True, check=False)
        subprocess.run(["umount", self.folder / "root"], check=False)
        for part in ("upper", "work"):
            subprocess.run(["rm", "-rf", self.folder / part], check=False)
        if code and is_full:
            return {"exitCode": code, "reason": "OOMKilled", "message": self._words(code)}
        return {"exitCode": code, "reason": "Error" if code else "Completed", "message": self._words(code)}

    def _words(self, code: int) -> str:
        """The termination message as `FallbackToLogsOnError` takes it, which all pods here ask for."""
        words = self.message.read_bytes()[-4096:]
        with suppress(OSError):
            words = words or (self.log.read_bytes()[-2048:] if code else b"")
        return words.decode(errors="replace")


def _bundle(
    root: str, name: str, pod: Json, spec: Json, image: Image, env: Mapping[str, str], mounts: Sequence[Mount]
) -> Json:
    context = {**pod["security"], **spec.get("securityContext", {})}
    user = {"uid": context.get("runAsUser", image.user), "gid": context.get("runAsGroup", image.group)}
    if context.get("runAsNonRoot") and user["uid"] == 0:
        raise ValueError("container has runAsNonRoot and image will run as root")
    dropped = "ALL" in context.get("capabilities", {}).get("drop", ()) or user["uid"] != 0
    held = [] if dropped else _CAPABILITIES
    memory = spec.get("resources", {}).get("limits", {}).get("memory")
    own = ("rbind", "rw"), ("rbind", "ro")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False, "user": user, "cwd": spec.get("workingDir", "/"),
            "args": [*(spec.get("command") or image.command), *spec.get("args", ())],
            "env": [f"{key}={value}" for key, value in env.items()],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
            "noNewPrivileges": context.get("allowPrivilegeEscalation") is False,
        },
        "root": {"path": root, "readonly": bool(context.get("readOnlyRootFilesystem"))},
        "hostname": pod["name"],
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["mode=1777", "size=65536k"]},
            {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
            *(
                {"destination": m.target, "type": "bind", "source": str(m.source), "options": [*own[m.read_only]]}
                for m in sorted(mounts, key=lambda mount: mount.target)
            ),
        ],
        "linux": {
            "namespaces": [*({"type": kind} for kind in ("pid", "ipc", "uts", "mount")),
                           {"type": "network", "path": pod["network"]}],
            "cgroupsPath": f"/{CGROUP}/{name}",
            "resources": {"memory": {"limit": int(amount(memory))}} if memory else {},
        },
    }  # fmt: skip
