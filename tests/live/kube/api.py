"""A client of the Kubernetes API for objects of any kind, as JSON."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import requests

Json = dict[str, Any]
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"


class Refused(Exception):
    """Kubernetes refused a request; the message is its sentence."""

    def __init__(self, answer: requests.Response) -> None:
        self.status, self.body = answer.status_code, answer.text
        super().__init__(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:2000]}")


class Kubernetes:
    """The API server at an address, with a bearer token. ca: the file of its certificate authority."""

    def __init__(self, address: str, token: str, ca: Path) -> None:
        self.address, self.token, self.ca = address, token, ca

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any) -> Any:
        """Sends one request; returns the answer, as JSON where it is.

        Raises:
            Refused: The status is an error.
        """
        answer = requests.request(
            method, self.address + path, params=query, timeout=60, verify=str(self.ca),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind},
            data=None if body is None else json.dumps(body),
        )  # fmt: skip
        if not answer.ok:
            raise Refused(answer)
        return answer.json() if answer.headers["Content-Type"].startswith("application/json") else answer.text

    def get(self, path: str, **query: Any) -> Any:
        """Reads an object, a list or a log."""
        return self.send("GET", path, **query)

    def find(self, path: str) -> Json | None:
        """Reads an object; None where there is none."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def create(self, path: str, body: Json) -> Json:
        """Creates an object in a collection."""
        return self.send("POST", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """Merges fields into an object."""
        return self.send("PATCH", path, body, _MERGE)

    def delete(self, path: str, grace: int | None = None) -> None:
        """Deletes an object, which may be gone."""
        with suppress(Refused):
            self.send("DELETE", path, None if grace is None else {"gracePeriodSeconds": grace})

    def watch(self, path: str) -> Iterator[tuple[str, Json]]:
        """Yields (ADDED, MODIFIED or DELETED, object) of a collection, from what it holds now; ends after a while."""
        listed = self.get(path)
        for item in listed["items"]:
            yield "ADDED", item
        query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "240"}
        headers = {"Authorization": f"Bearer {self.token}"}
        with requests.get(
            self.address + path, params=query, headers=headers, verify=str(self.ca), stream=True, timeout=(10, 300)
        ) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    def apply(self, objects: Iterable[Json], namespace: str) -> None:
        """Creates or changes objects. namespace: of those that name none."""
        for item in objects:
            path = self.path_of(item["apiVersion"], item["kind"], item["metadata"].get("namespace", namespace))
            name = f"{path}/{item['metadata']['name']}"
            self.send("PATCH", name, item, _APPLY, fieldManager="check", force="true")

    @cache  # noqa: B019
    def _resources(self, version: str) -> dict[str, Json]:
        listed = self.get(f"/{'apis' if '/' in version else 'api'}/{version}")["resources"]
        return {entry["kind"]: entry for entry in listed if "/" not in entry["name"]}

    def path_of(self, version: str, kind: str, namespace: str) -> str:
        """Returns the path of the collection of a kind."""
        found = self._resources(version)[kind]
        inside = f"/namespaces/{namespace}" if found["namespaced"] else ""
        return f"/{'apis' if '/' in version else 'api'}/{version}{inside}/{found['name']}"
