"""What a container gets from the description of its pod: variables, and the files of volumes."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.live.kube.api import Json, Kubernetes
from tests.live.kube.container import Image, Mount
from tests.live.kube.control_plane import HOST, PORT


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Expands $(NAME) of an existing variable, and $$, as Kubernetes does."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_][\w.-]*)\)",
        lambda found: "$" if found[1] is None else variables.get(found[1], found[0]),
        text,
    )


def field(pod: Json, path: str, address: str = "") -> str:
    """Returns a field of a pod that the downward API gives."""
    if path == "status.podIP":
        return address
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path):
        return pod["metadata"].get(found[1], {}).get(found[2], "")
    value: Any = pod
    for part in path.split("."):
        value = value.get(part, "")
    if isinstance(value, dict):
        return "\n".join(f'{key}="{entry}"' for key, entry in value.items())
    return str(value)


def _contents(cluster: Kubernetes, namespace: str, kind: str, name: str) -> dict[str, bytes] | None:
    """Returns the entries of a configuration map or a secret."""
    found = cluster.find(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
    if found is None:
        return None
    coded = {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}
    if kind == "secrets":
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
    return coded | {key: value.encode() for key, value in found.get("data", {}).items()}


def environment(cluster: Kubernetes, pod: Json, spec: Json, image: Image, address: str) -> dict[str, str]:
    """Returns the variables of a container."""
    namespace = pod["metadata"]["namespace"]
    found = {**dict(image.env), "HOSTNAME": pod["metadata"]["name"]}
    found |= {
        "KUBERNETES_SERVICE_HOST": HOST,
        "KUBERNETES_SERVICE_PORT": str(PORT),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(PORT),
    }
    for source in spec.get("envFrom", ()):
        kind = "configmaps" if "configMapRef" in source else "secrets"
        entries = _contents(cluster, namespace, kind, (source.get("configMapRef") or source["secretRef"])["name"]) or {}
        found |= {source.get("prefix", "") + key: value.decode() for key, value in entries.items()}
    for entry in spec.get("env", ()):
        value = _value(cluster, pod, spec, entry, address)
        if value is not None:
            found[entry["name"]] = expanded(value, found)
    return found


def _value(cluster: Kubernetes, pod: Json, spec: Json, entry: Json, address: str) -> str | None:
    source = entry.get("valueFrom")
    if source is None:
        return entry.get("value", "")
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], address)
    if "resourceFieldRef" in source:
        where, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(spec.get("resources", {}).get(where, {}).get(name, 0))
    kind, chosen = (
        ("secrets", source["secretKeyRef"]) if "secretKeyRef" in source else ("configmaps", source["configMapKeyRef"])
    )
    entries = _contents(cluster, pod["metadata"]["namespace"], kind, chosen["name"])
    if entries is None or chosen["key"] not in entries:
        if chosen.get("optional"):
            return None
        raise LookupError(f"couldn't find key {chosen['key']} in {kind} {chosen['name']}")
    return entries[chosen["key"]].decode()


class PodFiles:
    """The volumes of a pod. claim: name of a volume claim -> its folder."""

    def __init__(self, cluster: Kubernetes, folder: Path, pod: Json, claim: Callable[[str], Path]) -> None:
        self._cluster, self._folder, self._pod, self._claim = cluster, folder / "volumes", pod, claim
        self._namespace = pod["metadata"]["namespace"]
        self._made = {volume["name"]: self._volume(volume) for volume in pod["spec"].get("volumes", ())}

    def mounts(self, spec: Json) -> Iterator[Mount]:
        """Yields what a container mounts."""
        for mount in spec.get("volumeMounts", ()):
            source = self._made[mount["name"]]
            if "subPath" in mount:
                source = source / mount["subPath"]
                if not source.exists():
                    source.mkdir(parents=True)
                    source.chmod(0o777)
            yield Mount(source, mount["mountPath"], bool(mount.get("readOnly")))

    def _volume(self, volume: Json) -> Path:
        if "persistentVolumeClaim" in volume:
            folder = self._claim(volume["persistentVolumeClaim"]["claimName"])
            if not folder.exists():  # like a disk whose root was once made writable for the group
                folder.mkdir(parents=True)
                folder.chmod(0o2775)
            return folder
        folder = self._folder / volume["name"]
        folder.mkdir(parents=True)
        folder.chmod(0o777 if "emptyDir" in volume else 0o755)
        for path, content in self._files(volume):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def _files(self, source: Json) -> Iterator[tuple[str, bytes]]:
        """Yields path and content of each file of a volume, or of one source of a projected volume."""
        for part in source.get("projected", {}).get("sources", ()):
            yield from self._files(part)
        for kind, key in (("configMap", "configmaps"), ("secret", "secrets")):
            if kind in source:
                chosen = source[kind]
                name = chosen.get("name") or chosen.get("secretName")
                entries = _contents(self._cluster, self._namespace, key, name)
                if entries is None and not chosen.get("optional"):
                    raise LookupError(f'{kind} "{name}" not found')
                items = chosen.get("items") or [{"key": name, "path": name} for name in entries or ()]
                yield from ((item["path"], entries[item["key"]]) for item in items if entries)
        for item in source.get("downwardAPI", {}).get("items", ()):
            yield item["path"], field(self._pod, item["fieldRef"]["fieldPath"]).encode()
        if "serviceAccountToken" in source:
            yield source["serviceAccountToken"]["path"], self._token(source["serviceAccountToken"]).encode()

    def _token(self, asked: Json) -> str:
        account = self._pod["spec"].get("serviceAccountName", "default")
        bound = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": self._pod["metadata"]["name"],
            "uid": self._pod["metadata"]["uid"],
        }
        audiences = [asked["audience"]] if "audience" in asked else []
        body = {
            "spec": {
                "audiences": audiences,
                "expirationSeconds": max(asked.get("expirationSeconds", 3600), 600),
                "boundObjectRef": bound,
            }
        }
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        return self._cluster.create(path, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", **body})[
            "status"
        ]["token"]
