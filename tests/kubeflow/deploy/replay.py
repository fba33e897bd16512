"""A server that answers as an API server of Kubeflow Pipelines answered once (`recorded/RELEASE/CASE.json`).

`make check-kube RECORD=tests/kubeflow/deploy/recorded` records them again (tests/live/kube/recorder.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.loopback import QuietHandler, serving

RECORDED = Path(__file__).with_name("recorded")
RELEASES = sorted((folder.name for folder in RECORDED.iterdir() if folder.is_dir()), key=lambda name: int(name[2:]))


class Recording:
    """The exchanges of a case, in order. Of equal requests the next answer is given, and the last one again."""

    def __init__(self, release: str, case: str) -> None:
        self.left = json.loads((RECORDED / release / f"{case}.json").read_text())
        self.given: dict[str, tuple[int, str]] = {}
        self.unknown: list[str] = []

    def answer(self, request: str) -> tuple[int, str]:
        """Returns status and text for METHOD PATH; a request that was never made is 404."""
        found = next((one for one in self.left if one["request"] == request), None)
        if found:
            self.left.remove(found)
            text = found["answer"] if isinstance(found["answer"], str) else json.dumps(found["answer"])
            self.given[request] = found["status"], text
        elif request not in self.given:
            self.unknown.append(request)
            return 404, "{}"
        return self.given[request]

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Answers while the block runs; gives the address."""
        recording = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                self.content()
                status, text = recording.answer(f"{self.command} {unquote(urlsplit(self.path).path)}")
                self.reply(text, status)

            do_POST = do_DELETE = do_GET

        with serving(Handler) as address:
            yield address
