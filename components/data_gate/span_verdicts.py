"""The data gate's decisions about spans, kept between runs: which spans it has stopped, and who has released them.

A stopped span stays stopped until a person releases it, its content changes, or the settings by which it was judged.
The decisions lie in a folder beside the runs, a path or a URL, which garbage collection leaves alone: a file per
content of a span, whose name tells number, content, and whether it passed.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fullpass.base.errors import UserError
from fullpass.base.folders import Folder
from fullpass.base.json_text import parse_json, to_json_text
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import JudgedSpan, SpanRelease
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.spans.ingest_request import spans_read
from fullpass.components.ingest.spans.spans import Window

_STOPPED, _PASSED = "json", "passed"
_DECIDE_NOTHING = {"stopped_spans", "history"}
"""Settings of the gates that decide about no single span."""


class VerdictStore:
    """The decisions about a pipeline's spans."""

    def __init__(self, folder: str) -> None:
        """Opens the store. folder: a path or a URL; it need not exist."""
        self._folder = Folder(folder)

    def stops(self) -> list[JudgedSpan]:
        """Returns the spans that were stopped, released ones too, the earliest decision first.

        Raises:
            UserError: A file is damaged: what it has stopped must not be trained on by mistake.
        """
        found = [self._read(name) for name in self._folder.names() if name.endswith(f".{_STOPPED}")]
        return sorted(found, key=lambda one: (one.at, one.number))

    def _read(self, name: str) -> JudgedSpan:
        try:
            read = parse_json(JudgedSpan, self._folder.read(name) or b"")
            if _name(read) != name:
                raise ValueError("it is about another span")
            return read
        except ValueError as error:
            raise UserError(
                f"{self._folder.path}/{name}: not a decision of the data gate ({error}). It tells of a span that was "
                "stopped. Delete it to have the span judged again."
            ) from error

    def judged(self) -> set[tuple[int, str]]:
        """Returns number and content of every span that was judged."""
        parts = [name.split(".") for name in self._folder.names() if name.endswith((f".{_STOPPED}", f".{_PASSED}"))]
        return {(int(number), content) for number, content, _ in parts}

    def write(self, judged: JudgedSpan) -> None:
        """Keeps a decision, and replaces an earlier one about the same content."""
        self._folder.write(_name(judged), to_json_text(judged).encode())

    def keep(self, most: int) -> None:
        """Removes the decisions about all spans that passed but the `most` newest ones."""
        passed = [name for name in self._folder.names() if name.endswith(f".{_PASSED}")]
        newest = sorted({int(name.partition(".")[0]) for name in passed})[-most:]
        for name in passed:
            if int(name.partition(".")[0]) not in newest:
                self._folder.remove(name)


def _name(judged: JudgedSpan) -> str:
    return f"{judged.number}.{judged.content}.{_STOPPED if judged.findings else _PASSED}"


@dataclass(frozen=True)
class KnownVerdicts:
    """What earlier runs have decided about the spans that a run reads.

    Attributes:
        limits: Digest of the settings that decide.
        held: Stopped spans with the same content, by the same settings, that nobody has released.
        again: Decisions about other contents, or by other settings: these spans are judged again.
        released: Spans that were stopped and released.
        gaps: Stopped spans that the window leaves out.
        release: The release of all stopped spans by this run; None if it releases none.
    """

    limits: str = ""
    held: tuple[JudgedSpan, ...] = ()
    again: tuple[JudgedSpan, ...] = ()
    released: tuple[JudgedSpan, ...] = ()
    gaps: tuple[JudgedSpan, ...] = ()
    release: SpanRelease | None = None


def with_known_verdicts(
    window: Window, store: VerdictStore, config: IngestConfig, gates: GatesConfig, release: SpanRelease | None = None
) -> Window:
    """Returns the window with what is known about its spans, and stopped spans as gaps if `gates` says so.

    The newest span is never a gap: a run for a span that was stopped is stopped again.

    Args:
        release: The release that the user has asked for; no span is a gap then.
    """
    stops, limits = store.stops(), _limits(config, gates)
    known = _known(window, stops, config, limits)
    newest = window.spans[-1].number
    gaps = tuple(one for one in known.held if one.number != newest)
    if gates.stopped_spans == "gap" and gaps and release is None:
        window = window.without({one.number for one in gaps})
        known = replace(_known(window, stops, config, limits), gaps=gaps)
    return replace(window, gate=to_json_text(replace(known, release=release)))


def _known(window: Window, stops: Sequence[JudgedSpan], config: IngestConfig, limits: str) -> KnownVerdicts:
    held, again, released = [], [], []
    for span in spans_read(config, window) if stops else ():
        mine = [one for one in stops if one.number == span.number]
        content = window.content(span) if mine else ""
        same = next((one for one in mine if one.content == content), None)
        if same is not None and same.release is not None:
            released.append(same)
        elif same is not None and same.limits == limits:
            held.append(same)
        elif mine and (same is not None or window.unit is not None):  # without spans, other content is other data
            again.append(same or mine[-1])
    return KnownVerdicts(limits, tuple(held), tuple(again), tuple(released))


def _limits(config: IngestConfig, gates: GatesConfig) -> str:
    settings = [config.model_dump(mode="json"), gates.model_dump(mode="json", exclude=_DECIDE_NOTHING)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def unreleased(stops: Collection[JudgedSpan]) -> list[JudgedSpan]:
    """Returns the stops of spans whose last decision has released nothing."""
    last = {one.number: one for one in sorted(stops, key=lambda one: one.release.at if one.release else one.at)}
    return [one for one in stops if one.release is None and last[one.number].release is None]
