"""A small kubelet, which is the scheduler as well: runs pods as containers, and says so to Kubernetes.

It stands in for the kubelet, the scheduler, the network of pods, the name service and the provisioner of volumes: a
name is a line in each pod's hosts file, an address of a service is a further address of its pod, and a volume claim is
a folder. Probes, limits of the processor and images are not there.
"""

import itertools
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tests.live.kube.api import Json, Kubernetes, Refused
from tests.live.kube.container import Container, Image, Mount
from tests.live.kube.control_plane import HOST, NETWORK
from tests.live.kube.pod_spec import PodFiles, environment, expanded

NODE = "node"
_LOOK = 0.2


def now() -> str:
    """Returns the time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Kubelet:
    """Runs every pod of a cluster.

    Attributes:
        pods: The pods by their unique ids.
        ran: Name, seconds and end of each container that ended.
    """

    def __init__(self, cluster: Kubernetes, folder: Path, image_of: Callable[[str], Image]) -> None:
        self.cluster, self.folder, self.image_of = cluster, folder, image_of
        self.pods: dict[str, Pod] = {}
        self.ran: list[tuple[str, float, str]] = []
        self.numbers = itertools.count(2)
        self.names: dict[str, str] = {}
        self.hosts: dict[Path, str] = {}
        self.lock = threading.Lock()
        self.volume("").mkdir(parents=True)

    def volume(self, claim: str) -> Path:
        """Returns the folder of a volume claim."""
        return self.folder / "claims" / claim

    def tell_names(self, names: Mapping[str, str], own: tuple[Path, str] | None = None) -> None:
        """Adds host names with their addresses for all pods. own: the hosts file of a new pod, and its own line."""
        with self.lock:
            self.names |= names
            self.hosts |= dict([own] if own else [])
            lines = "".join(f"{address} {name}\n" for name, address in self.names.items())
            for file, line in self.hosts.items():
                with open(file, "w") as opened:  # in its place: containers have mounted it
                    opened.write(f"127.0.0.1 localhost\n{line}\n{lines}")

    def register(self, port: int) -> None:
        """Registers the node. port: that of its server of logs."""
        self.cluster.create("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}})
        room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        status = {
            "capacity": room, "allocatable": room, "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it runs"}],
        }  # fmt: skip
        self.cluster.patch(f"/api/v1/nodes/{NODE}/status", {"status": status})

    def watch_services(self) -> None:
        """Gives each service with an address to the hosts file, for ever."""
        while True:
            with suppress(OSError, Refused):
                for _, found in self.cluster.watch("/api/v1/services"):
                    name, inside, address = self._of_service(found)
                    if address not in (None, "", "None"):
                        every = (name, f"{name}.{inside}", f"{name}.{inside}.svc", f"{name}.{inside}.svc.cluster.local")
                        self.tell_names(dict.fromkeys(every, address))

    @staticmethod
    def _of_service(found: Json) -> tuple[str, str, str | None]:
        return found["metadata"]["name"], found["metadata"]["namespace"], found["spec"].get("clusterIP")

    def watch_pods(self) -> None:
        """Binds and runs each pod, for ever."""
        while True:
            with suppress(OSError, Refused):
                for event, found in self.cluster.watch("/api/v1/pods"):
                    self._see(event, found)

    def _see(self, event: str, found: Json) -> None:
        uid = found["metadata"]["uid"]
        pod = self.pods.get(uid)
        if pod is None and event != "DELETED" and found["status"].get("phase", "Pending") == "Pending":
            if not found["spec"].get("nodeName"):
                self._bind(found)
                return
            pod = self.pods[uid] = Pod(self, found, next(self.numbers))
            threading.Thread(target=pod.run, daemon=True).start()
        if pod is not None:
            pod.object = found
            if event == "DELETED" or found["metadata"].get("deletionTimestamp"):
                pod.stop.set()
        elif found["metadata"].get("deletionTimestamp") and event != "DELETED":
            self.cluster.delete(_path(found), grace=0)

    def _bind(self, found: Json) -> None:
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": found["metadata"]["name"]},
                  "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}  # fmt: skip
        with suppress(Refused):  # it was bound or deleted meanwhile
            self.cluster.create(f"{_path(found)}/binding", target)

    def container(self, namespace: str, pod: str, name: str) -> Container | None:
        """Returns the newest container of a pod."""
        for found in reversed(self.pods.values()):
            if (found.namespace, found.name) == (namespace, pod):
                return found.containers.get(name)
        return None


def _path(found: Json) -> str:
    return f"/api/v1/namespaces/{found['metadata']['namespace']}/pods/{found['metadata']['name']}"


class Pod:
    """One pod: a network of its own, volumes, and containers."""

    def __init__(self, kubelet: Kubelet, found: Json, number: int) -> None:
        self.kubelet, self.object, self.number = kubelet, found, number
        self.name, self.namespace = found["metadata"]["name"], found["metadata"]["namespace"]
        self.spec, self.folder = found["spec"], kubelet.folder / "pods" / found["metadata"]["uid"]
        self.address = f"10.88.{number // 250}.{number % 250 + 2}"
        self.containers: dict[str, Container] = {}
        self.states: dict[str, Json] = {}
        self.restarts: dict[str, int] = {}
        self.stop = threading.Event()
        self.began = now()

    def run(self) -> None:
        """Runs the pod to its end."""
        try:
            self._make_network()
            self._tell(phase="Pending")
            files = PodFiles(self.kubelet.cluster, self.folder, self.object, self.kubelet.volume)
            for spec in self.spec.get("initContainers", ()):
                if self._run([spec], files, "Pending"):
                    return self._end("Failed")
            failed = self._run(self.spec["containers"], files, "Running")
            self._end("Failed" if failed else "Succeeded")
        except Exception:
            traceback.print_exc()
            self._end("Failed", reason="CreateContainerError", message=traceback.format_exc()[-1000:])

    def _make_network(self) -> None:
        self.network = f"pod{self.number}"
        for command in (
            f"netns add {self.network}", f"link add {self.network} type veth peer name eth0 netns {self.network}",
            f"link set {self.network} master kube0 up", f"-n {self.network} link set lo up",
            f"-n {self.network} addr add {self.address}/{NETWORK[-2:]} dev eth0",
            *(f"-n {self.network} addr add {service}/32 dev eth0" for service in self._services()),
            f"-n {self.network} link set eth0 up",
        ):  # fmt: skip
            subprocess.run(["ip", *command.split()], check=True)
        host, inside = self.spec.get("hostname", self.name), self.spec.get("subdomain")
        of_cluster = f"{host}.{inside}.{self.namespace}.svc.cluster.local"
        names = dict.fromkeys((f"{host}.{inside}", of_cluster), self.address) if inside else {}
        self.folder.mkdir(parents=True)
        self.hosts = self.folder / "hosts"
        self.kubelet.tell_names(names, (self.hosts, f"{self.address} {host}"))

    def _services(self) -> Iterator[str]:
        labels = self.object["metadata"].get("labels", {}).items()
        for service in self.kubelet.cluster.get(f"/api/v1/namespaces/{self.namespace}/services")["items"]:
            selector = service["spec"].get("selector")
            if selector and selector.items() <= labels and service["spec"].get("clusterIP", "None") != "None":
                yield service["spec"]["clusterIP"]

    def _run(self, specs: list[Json], files: PodFiles, phase: str) -> bool:
        """Runs containers until all have ended, or the pod is stopped; returns whether one failed."""
        running = {spec["name"]: self._start(spec, files) for spec in specs}
        self._tell(phase=phase)
        failed, deadline = False, None
        while running:
            time.sleep(_LOOK)
            if deadline is None and (self.stop.is_set() or self._is_late()):
                self._signal(running, "TERM")
                deadline = time.monotonic() + self._grace()
            if deadline is not None and time.monotonic() > deadline:
                self._signal(running, "KILL")
            for spec in [spec for spec in specs if spec["name"] in running and running[spec["name"]][0].ended()]:
                container, began, started = running.pop(spec["name"])
                end = container.finish()
                seconds = time.monotonic() - began
                self.kubelet.ran.append((f"{self.name}/{spec['name']}", seconds, f"{end['reason']} {end['exitCode']}"))
                self.states[spec["name"]] = {"terminated": {**end, "startedAt": started, "finishedAt": now()}}
                if self._restarts(end["exitCode"]) and deadline is None:
                    self.restarts[spec["name"]] = self.restarts.get(spec["name"], 0) + 1
                    self.stop.wait(min(2.0 * self.restarts[spec["name"]], 20))
                    running[spec["name"]] = self._start(spec, files)
                else:
                    failed |= end["exitCode"] != 0
                self._tell(phase=phase)
        return failed

    def _restarts(self, code: int) -> bool:
        policy = self.spec.get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def _is_late(self) -> bool:
        most = self.object["spec"].get("activeDeadlineSeconds")
        return most is not None and time.monotonic() - self.running_since > most

    def _grace(self) -> float:
        return self.object["metadata"].get("deletionGracePeriodSeconds", 30)

    @staticmethod
    def _signal(running: Mapping[str, tuple[Container, float, str]], name: str) -> None:
        for container, *_ in running.values():
            container.signal(name)

    def _start(self, spec: Json, files: PodFiles) -> tuple[Container, float, str]:
        image = self.kubelet.image_of(spec["image"])
        env = environment(self.kubelet.cluster, self.object, spec, image, self.address)
        name, times = spec["name"], self.restarts.get(spec["name"], 0)
        container = Container(f"{self.network}-{name}-{times}", self.folder / f"{name}-{times}")
        spec = {
            **spec,
            **{part: [expanded(text, env) for text in spec[part]] for part in ("command", "args") if part in spec},
        }
        mounts = [*files.mounts(spec), Mount(self.hosts, "/etc/hosts", read_only=True)]
        pod = {
            "name": self.name,
            "network": f"/run/netns/{self.network}",
            "security": self.spec.get("securityContext", {}),
        }
        container.start(pod, spec, image, env, mounts)
        self.containers[name] = container
        began = now()
        self.states[name] = {"running": {"startedAt": began}}
        self.running_since = time.monotonic()
        return container, time.monotonic(), began

    def _status_of(self, spec: Json) -> Json:
        state = self.states.get(spec["name"], {"waiting": {"reason": "PodInitializing"}})
        runs = "running" in state
        return {"name": spec["name"], "image": spec["image"], "imageID": spec["image"], "ready": runs, "started": runs,
                "restartCount": self.restarts.get(spec["name"], 0), "state": state}  # fmt: skip

    def _tell(self, phase: str, **more: str) -> None:
        ready = "True" if phase == "Running" else "False"
        kinds = {"PodScheduled": "True", **dict.fromkeys(("Initialized", "Ready", "ContainersReady"), ready)}
        kept = [c for c in self.object["status"].get("conditions", ()) if c["type"] not in kinds]
        status = {
            "phase": phase, "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": HOST,
            "startTime": self.began, "conditions": [*kept, *({"type": kind, "status": kinds[kind]} for kind in kinds)],
            "initContainerStatuses": [self._status_of(spec) for spec in self.spec.get("initContainers", ())],
            "containerStatuses": [self._status_of(spec) for spec in self.spec["containers"]],
            **more,
        }  # fmt: skip
        with suppress(Refused):  # the pod was deleted by force
            self.kubelet.cluster.patch(f"{_path(self.object)}/status", {"status": status})

    def _end(self, phase: str, **more: str) -> None:
        self._tell(phase, **more)
        subprocess.run(["ip", "link", "del", self.network], check=False)
        subprocess.run(["ip", "netns", "del", self.network], check=False)
        if self.stop.wait(3600):
            self.kubelet.cluster.delete(_path(self.object), grace=0)
