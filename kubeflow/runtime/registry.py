"""The registry of a pipeline: blessed models, spans and trained windows, kept between runs without a metadata store.

It is a folder of small JSON files, on a volume or in an object store. Files are never modified in place.
"""

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from fullpass.base.errors import UserError
from fullpass.base.folders import Folder
from fullpass.components.ingest.spans.ingest_request import KnownSpan
from fullpass.kubeflow.protocol import MADE_FROM, WINDOW, Json

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Blessed:
    """A blessed model.

    Attributes:
        time: Time of the record, ISO 8601 in UTC.
        made_from: Digest of its data and parameters.
    """

    model: str
    blessing: str
    time: str
    made_from: str


@dataclass(frozen=True)
class TrainedWindow:
    """A training window: number, fingerprint and label of its newest span, and the time of the record, in UTC."""

    number: int
    fingerprint: str
    label: str
    time: str


class FolderRegistry:
    """The registry, with one folder per pipeline; each entry is a file, named by time and content."""

    def __init__(self, path: str) -> None:
        """Initializes with a path or a URL such as s3://bucket/folder."""
        self._folder = Folder(path)

    def record_blessed(self, pipeline: str, model: str, blessing: str, made_from: str) -> bool:
        """Records a blessed model; returns False if it was recorded before."""
        digest = hashlib.sha256(model.encode()).hexdigest()[:16]
        if any(name.endswith(f"-{digest}.json") for name in self._names(pipeline, "blessed")):
            return False
        now = datetime.now(UTC)
        entry = Blessed(model, blessing, _iso(now), made_from)
        self._write(pipeline, f"blessed/{_stamp(now)}-{digest}.json", entry)
        return True

    def newest_blessed(
        self, pipeline: str, *, made_from: str | None = None, rolled_back: Collection[str] = ()
    ) -> Blessed | None:
        """Returns the newest blessed model, or None if there is none.

        Args:
            made_from: Digest of the data and parameters of a new model, which the found model must not have.
        """
        for name in reversed(self._names(pipeline, "blessed")):
            entry = self._read(pipeline, f"blessed/{name}", Blessed)
            if entry.made_from != made_from and entry.model not in rolled_back:
                return entry
        return None

    def known_spans(self, pipeline: str) -> tuple[KnownSpan, ...]:
        """Returns every version of every span that was in the window of a run."""
        found = []
        for name in self._names(pipeline, "spans"):
            number, version, fingerprint = name.removesuffix(".json").rsplit(".", 2)
            found.append(KnownSpan(int(number), fingerprint, int(version)))
        return tuple(found)

    def record_spans(self, pipeline: str, spans: Collection[KnownSpan]) -> None:
        """Records versions of spans that are not recorded yet."""
        known = set(self.known_spans(pipeline))
        for span in spans:
            if span not in known:
                # The file name contains the whole entry, so one listing returns every span.
                self._write(pipeline, f"spans/{span.number}.{span.version}.{span.fingerprint}.json", span)

    def newest_trained(self, pipeline: str) -> TrainedWindow | None:
        """Returns the newest window that a model was trained on, or None on a first run."""
        names = self._names(pipeline, "trained")
        if not names:
            return None
        newest = max(names, key=lambda name: (int(name.split(".")[1]), name))
        return self._read(pipeline, f"trained/{newest}", TrainedWindow)

    def record_trained(self, pipeline: str, number: int, fingerprint: str, label: str) -> bool:
        """Records a window by its newest span; returns False if it was recorded before."""
        ending = f".{number}.{fingerprint}.json"
        if any(name.endswith(ending) for name in self._names(pipeline, "trained")):
            return False
        now = datetime.now(UTC)
        self._write(pipeline, f"trained/{_stamp(now)}{ending}", TrainedWindow(number, fingerprint, label, _iso(now)))
        return True

    def record_request(self, pipeline: str, request: str, *, again: bool) -> str:
        """Stores a request to Ingest, whose size grows with its files, and returns the name for reading it.

        Args:
            again: Whether to return a name that no earlier run had, because spans of this request must be ingested.
        """
        digest = hashlib.sha256(request.encode()).hexdigest()[:32]
        numbers = [int(name.split(".")[1]) for name in self._names(pipeline, "requests") if name.startswith(digest)]
        # A registry that was emptied begins with another name, so Kubeflow's cache takes nothing that relied on it.
        number = max(numbers) + again if numbers else time.time_ns()
        if number not in numbers:
            self._folder.write(f"{pipeline}/requests/{digest}.{number}.json", request.encode())
        return f"{digest}.{number}"

    def request(self, pipeline: str, name: str) -> str:
        """Returns the request to Ingest.

        Raises:
            UserError: The request does not exist.
        """
        content = self._folder.read(f"{pipeline}/requests/{name}.json")
        if content is None:
            where = f"{self._folder.path}/{pipeline}/requests/{name}.json"
            raise UserError(
                f"{where} does not exist, although the look-up of this run wrote it. Check that both containers "
                "mount the same volume."
            )
        return content.decode()

    def _names(self, pipeline: str, kind: str) -> list[str]:
        return [name for name in self._folder.names(f"{pipeline}/{kind}") if name.endswith(".json")]

    def _read(self, pipeline: str, name: str, kind: type[Entry]) -> Entry:
        content = self._folder.read(f"{pipeline}/{name}") or b""
        text = content.decode(errors="replace")
        try:
            fields: Any = json.loads(text)
            return kind(**fields)
        except (ValueError, TypeError) as error:
            where = f"{self._folder.path}/{pipeline}/{name}"
            raise UserError(f"{where}: not a registry entry ({error}). Delete it. Received: {text[:80]!r}") from error

    def _write(self, pipeline: str, name: str, entry: Any) -> None:
        self._folder.write(f"{pipeline}/{name}", json.dumps(asdict(entry)).encode())


def record_evaluated(where: Mapping[str, str], parameters: Json, address: str, blessing: Json) -> None:
    """Records the window of an evaluated model, and the model if it is blessed.

    Args:
        where: `registry` and `pipeline`.
        parameters: MADE_FROM, and WINDOW if the source has spans, as the look-up of the run found them.
        address: URI of the blessing.
        blessing: Its metadata.
    """
    registry, pipeline = FolderRegistry(where["registry"]), where["pipeline"]
    if WINDOW in parameters:
        window = json.loads(parameters[WINDOW])
        registry.record_trained(pipeline, window["number"], window["fingerprint"], window["label"])
    if blessing.get("blessed"):
        registry.record_blessed(pipeline, blessing["current_model"], address, parameters[MADE_FROM])


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S%f}Z"


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
