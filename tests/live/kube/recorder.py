"""Records what the API server of Kubeflow Pipelines answers, for tests without a cluster."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import requests

from tests.live.kube.api import Json
from tests.loopback import QuietHandler, serving

_LONG = 1_000
"""Characters of a field's JSON, above which it is left out: specifications of pipelines, which are our own words."""
_OF_NODE = ("id", "name", "displayName", "type", "templateName", "phase", "message", "finishedAt")
_LINES = 12
"""Last lines of a log that are kept."""


class Recorder:
    """A proxy in front of an API server, which writes each case to FOLDER/CASE.json.

    A case is a list of `{"request": "GET /apis/...", "status": 200, "answer": ...}`. Of equal requests in a row only
    the first, the middle and the last stay. Fields that are long, and those of Argo's nodes that Fullpass does not
    read, are left out.
    """

    def __init__(self, target: str, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._exchanges: list[Json] = []
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Runs the proxy while the block runs; gives its address."""
        recorder = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                kept = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
                answer = requests.request(
                    self.command, recorder._target + self.path, data=self.content(), headers=kept, timeout=600
                )
                recorder._add(f"{self.command} {unquote(urlsplit(self.path).path)}", answer)
                self.reply(answer.text, answer.status_code, answer.headers.get("Content-Type", "text/plain"))

            do_POST = do_DELETE = do_GET

        with serving(Handler) as address:
            yield address

    def _add(self, request: str, answer: requests.Response) -> None:
        with self._lock:
            self._exchanges.append({"request": request, "status": answer.status_code, "answer": _cleaned(answer)})

    def write(self, case: str) -> None:
        """Writes what was answered since the last case."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            exchanges, self._exchanges = self._exchanges, []
        lines = ",\n".join(json.dumps(exchange, separators=(",", ":")) for exchange in _thinned(exchanges))
        (self._folder / f"{case.replace(' ', '-')}.json").write_text(f"[\n{lines}\n]\n")


def _thinned(exchanges: list[Json]) -> Iterator[Json]:
    equal: list[Json] = []
    for exchange in [*exchanges, None]:
        if equal and (exchange is None or exchange["request"] != equal[0]["request"]):
            places = dict.fromkeys((0, len(equal) // 2, len(equal) - 1))
            yield from (equal[place] for place in places)
            equal = []
        equal.append(exchange)


def _cleaned(answer: requests.Response) -> Any:
    try:
        body = answer.json()
    except ValueError:
        return "\n".join(answer.text.splitlines()[-_LINES:])
    if "pipeline_runtime" in body:
        status = json.loads(body["pipeline_runtime"]["workflow_manifest"])["status"]
        for name, node in status.get("nodes", {}).items():
            status["nodes"][name] = {key: node[key] for key in _OF_NODE if key in node}
        kept = {key: status[key] for key in ("phase", "message", "nodes", "compressedNodes") if key in status}
        return {"pipeline_runtime": {"workflow_manifest": json.dumps({"status": kept})}}
    return _short(body)


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, part in value.items():
        if name in ("run_details", "runs", "pipelines", "pipeline_versions", "recurringRuns", "experiments"):
            kept[name] = _short(part)
        elif name == "task_details" or len(json.dumps(part)) <= _LONG:
            kept[name] = part
    return kept
