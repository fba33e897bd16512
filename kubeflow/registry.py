"""What is remembered between runs where no metadata store can be asked: blessed models, spans, and what was trained on.

In a folder of small JSON files, on a volume or in an object store. Nothing is ever changed in place.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from components.folder import Folder
from components.ingest.request import KnownSpan
from preprocessing.errors import UserError

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Blessed:
    """A blessed model. model, blessing: addresses of the artifacts. time: when it was recorded, ISO 8601 in UTC.
    made_from: digest of what it follows from; "" where an earlier version recorded it."""

    model: str
    blessing: str
    time: str
    made_from: str = ""

    def may_be_followed(self, made_from: str, away: Collection[str]) -> bool:
        """Whether a model made from `made_from` may follow this one: no model follows itself, or one of those away."""
        return self.made_from != made_from and self.model not in away


@dataclass(frozen=True)
class Trained:
    """A window that a model was trained on: number, fingerprint and label of its newest span, and when, in UTC."""

    number: int
    fingerprint: str
    label: str
    time: str


class Registry(Protocol):
    """What look-ups ask instead of a metadata store, per pipeline."""

    def record(self, pipeline: str, model: str, blessing: str, made_from: str) -> bool:
        """Remembers a blessed model; returns False if it was known."""

    def newest(self, pipeline: str, *, made_from: str, away: Collection[str] = ()) -> Blessed | None:
        """Returns the newest blessed model that was made from something else, or None on a first run.

        Args:
            pipeline: its name.
            made_from: what the model about to be made follows from.
            away: addresses of models that are passed over.
        """

    def known_spans(self, pipeline: str) -> tuple[KnownSpan, ...]:
        """Returns every version of every span that a run was asked to take."""

    def record_spans(self, pipeline: str, spans: Collection[KnownSpan]) -> None:
        """Remembers versions of spans; those that are known stay as they are."""

    def newest_trained(self, pipeline: str) -> Trained | None:
        """Returns the window with the newest span that a model was trained on, or None on a first run."""

    def record_trained(self, pipeline: str, number: int, fingerprint: str, label: str) -> bool:
        """Remembers a window by its newest span; returns False if it was known."""


class FolderRegistry:
    """One file per entry, named by time and by what is remembered."""

    def __init__(self, place: str) -> None:
        """Takes a path or an address such as s3://bucket/folder."""
        self._folder = Folder(place)

    def record(self, pipeline: str, model: str, blessing: str, made_from: str) -> bool:
        """See base class."""
        digest = hashlib.sha256(model.encode()).hexdigest()[:16]
        if any(name.endswith(f"-{digest}.json") for name in self._names(pipeline, "blessed")):
            return False
        now = datetime.now(UTC)
        entry = Blessed(model, blessing, _iso(now), made_from)
        self._write(pipeline, f"blessed/{_stamp(now)}-{digest}.json", entry)
        return True

    def newest(self, pipeline: str, *, made_from: str, away: Collection[str] = ()) -> Blessed | None:
        """See base class."""
        for name in reversed(self._names(pipeline, "blessed")):
            entry = self._read(pipeline, f"blessed/{name}", Blessed)
            if entry.may_be_followed(made_from, away):
                return entry
        return None

    def known_spans(self, pipeline: str) -> tuple[KnownSpan, ...]:
        """See base class."""
        found = []
        for name in self._names(pipeline, "spans"):
            number, version, fingerprint = name.removesuffix(".json").rsplit(".", 2)
            found.append(KnownSpan(int(number), fingerprint, int(version)))
        return tuple(found)

    def record_spans(self, pipeline: str, spans: Collection[KnownSpan]) -> None:
        """See base class."""
        known = set(self.known_spans(pipeline))
        for span in spans:
            if span not in known:
                # All of it is in the name, so that one listing tells of every span.
                self._write(pipeline, f"spans/{span.number}.{span.version}.{span.fingerprint}.json", span)

    def newest_trained(self, pipeline: str) -> Trained | None:
        """See base class."""
        names = self._names(pipeline, "trained")
        if not names:
            return None
        newest = max(names, key=lambda name: (int(name.split(".")[1]), name))
        return self._read(pipeline, f"trained/{newest}", Trained)

    def record_trained(self, pipeline: str, number: int, fingerprint: str, label: str) -> bool:
        """See base class."""
        ending = f".{number}.{fingerprint}.json"
        if any(name.endswith(ending) for name in self._names(pipeline, "trained")):
            return False
        now = datetime.now(UTC)
        self._write(pipeline, f"trained/{_stamp(now)}{ending}", Trained(number, fingerprint, label, _iso(now)))
        return True

    def _names(self, pipeline: str, kind: str) -> list[str]:
        return [name for name in self._folder.names(f"{pipeline}/{kind}") if name.endswith(".json")]

    def _read(self, pipeline: str, name: str, kind: type[Entry]) -> Entry:
        content = self._folder.read(f"{pipeline}/{name}") or b""
        text = content.decode(errors="replace")
        try:
            fields: Any = json.loads(text)
            return kind(**fields)
        except (ValueError, TypeError) as error:
            where = f"{self._folder.place}/{pipeline}/{name}"
            raise UserError(f"{where}: no entry of a registry ({error}). Delete it. Received: {text[:80]!r}") from error

    def _write(self, pipeline: str, name: str, entry: Any) -> None:
        self._folder.write(f"{pipeline}/{name}", json.dumps(asdict(entry)).encode())


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S%f}Z"


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
