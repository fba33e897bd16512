"""The ingested spans of a pipeline, kept between runs: a package needs only one Ingest for a window of any length.

The registry has an entry per span, NUMBER.VERSION.FINGERPRINT.json, which names the folder of the span's records. An
entry is written after its records, so no reader finds a partial span. Ingest passes a file with the entries of the
window to the nodes that read examples.
"""

import json
import os
import shutil
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import is_address
from fullpass.base.folders import Folder
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.components.ingest.writing.manifest import COUNTS, read_counts
from fullpass.kubeflow.protocol import Json
from fullpass.kubeflow.runtime.executor_input import ArtifactCopy

WINDOW_FILE = "window.json"
"""File of the artifact that represents the examples of a window: its entries, the oldest span first."""
_SPANS_AT_ONCE = 30
"""Number of spans in one pass of Ingest; finished passes are kept if a later pass fails."""
_TRANSFERS = 8
"""Files that are copied from or to a store at the same time: each waits for the network."""


@dataclass(frozen=True)
class StoredSpan:
    """An ingested span: its readable name, the folder or URL of its records, and the metadata of its artifact."""

    label: str
    records: str
    metadata: Json


class SpanStore:
    """The ingested spans, by number, version and fingerprint."""

    def __init__(self, entries: str) -> None:
        """Initializes with the folder of the entries, a path or a URL."""
        self._entries = Folder(entries)

    def missing_spans(self, spans: Iterable[SpanRequest]) -> list[SpanRequest]:
        """Returns the spans without an entry, and the spans whose records have been deleted."""
        known, spans = set(self._entries.names()), list(spans)
        entered = [span for span in spans if _entry_name(span) in known]
        there = {
            _entry_name(span)
            for span, stored in zip(entered, self.read(entered), strict=True)
            if _is_there(stored.records)
        }
        return [span for span in spans if _entry_name(span) not in there]

    def add(self, span: SpanRequest, stored: StoredSpan) -> None:
        """Writes the entry of a span."""
        self._entries.write(_entry_name(span), json.dumps(asdict(stored)).encode())

    def read(self, spans: Sequence[SpanRequest]) -> list[StoredSpan]:
        """Returns the entries of spans.

        Raises:
            UserError: An entry is missing or invalid.
        """
        with ThreadPoolExecutor(_TRANSFERS) as pool:
            return list(pool.map(self._read, spans))

    def _read(self, span: SpanRequest) -> StoredSpan:
        try:
            return StoredSpan(**json.loads(self._entries.read(_entry_name(span)) or b""))
        except (ValueError, TypeError) as error:
            where = f"{self._entries.path}/{_entry_name(span)}"
            raise UserError(
                f"{where}: not the entry of an ingested span ({error}). Delete it, and run again."
            ) from error


Ingestion = Callable[[Request, str], list[tuple[str, Json]]]
"""Ingests the spans of a request under a folder; returns the folder and the metadata of each."""


def ingest_window(
    request: Request, store: SpanStore, records: str, ingest: Ingestion, *, reingest_all: bool
) -> list[StoredSpan]:
    """Ingests the spans of a window that the store lacks, and returns all spans of the window.

    Args:
        records: Folder or URL under which new folders are created.
        ingest: Writes records to a folder that TensorFlow can write to.
        reingest_all: Whether to ingest all spans even if the store has them.
    """
    missing_spans = list(request.spans) if reingest_all else store.missing_spans(request.spans)
    for begin in range(0, len(missing_spans), _SPANS_AT_ONCE):
        part = tuple(missing_spans[begin : begin + _SPANS_AT_ONCE])
        written = _write_records(replace(request, spans=part), f"{records}/{uuid.uuid4().hex}", ingest)
        for span, (folder, metadata) in zip(part, written, strict=True):
            store.add(span, StoredSpan(span.label, folder, metadata))
    return store.read(request.spans)


def _write_records(request: Request, target: str, ingest: Ingestion) -> list[tuple[str, Json]]:
    """Ingests spans into a new folder; a local folder is removed if that fails."""
    if target.startswith("gs://"):  # TensorFlow and Beam can write to gs:// directly.
        return ingest(request, target)
    if not is_address(target):
        try:
            return ingest(request, target)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    with tempfile.TemporaryDirectory() as scratch:
        written = ingest(request, scratch)
        moved = [(target + folder.removeprefix(scratch), metadata) for folder, metadata in written]
        copies = [partial(_upload, folder, to) for (folder, _), (to, _) in zip(written, moved, strict=True)]
        _run_transfers(copies)
    return moved


def write_window(window: Sequence[StoredSpan], folder: Path) -> Json:
    """Writes the artifact of a window and returns its metadata: number of spans and rows, first and newest span."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WINDOW_FILE).write_text(json.dumps([asdict(span) for span in window]))
    counts = [read_counts(span.metadata.get(COUNTS)) for span in window]
    rows = {"rows_read": sum(c.read for c in counts), "rows_quarantined": sum(c.rows_quarantined for c in counts)}
    return {"spans": len(window), "first_span": window[0].label, "newest_span": window[-1].label, **rows}


def open_window(copy: ArtifactCopy, *, direct: bool) -> list[ArtifactCopy]:
    """Returns the examples of each span of a window: in place if they are on a volume, otherwise as a local copy.

    Args:
        direct: Whether to use records at gs:// in place.

    Raises:
        UserError: The records of a span do not exist.
    """
    entries = [StoredSpan(**fields) for fields in json.loads((copy.path / WINDOW_FILE).read_text())]
    copies = [_local_copy(entry, direct=direct) for entry in entries]
    remote = [opened for opened in copies if is_address(opened.uri) and not direct]
    _run_transfers([partial(_download, opened.uri, opened.path) for opened in remote])
    for entry, opened in zip(entries, copies, strict=True):
        if not direct and not opened.path.is_dir():
            raise UserError(
                f"span {entry.label}: {entry.records} does not exist: it was deleted after the run began, or is on a "
                "volume that this node does not mount. Start the run again: deleted spans are ingested again."
            )
    return copies


def _local_copy(entry: StoredSpan, *, direct: bool) -> ArtifactCopy:
    # The path is the same in every attempt, because a resumed training identifies its data by the path.
    folder = Path(tempfile.gettempdir()) / "fullpass-spans" / "-".join(entry.records.split("/")[-2:])
    remote = is_address(entry.records) and not direct
    return ArtifactCopy(entry.records, folder if remote else Path(entry.records), entry.metadata, entry.records)


def _is_there(records: str) -> bool:
    if not is_address(records):
        return Path(records).is_dir()
    with prefix_errors(records):
        try:
            files, folder = _file_system(records)
        except ImportError:  # Nodes that open gs:// with TensorFlow may lack the fsspec driver.
            return True
        return bool(files.isdir(folder))


def _entry_name(span: SpanRequest) -> str:
    return f"{span.number}.{span.version}.{span.fingerprint}.json"


def _run_transfers(transfers: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(_TRANSFERS) as pool:
        deque(pool.map(lambda transfer: transfer(), transfers), maxlen=0)


def _upload(folder: str, address: str) -> None:
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file():
            with prefix_errors(address):
                files, target = _file_system(address)
                files.put_file(str(file), f"{target}/{file.relative_to(folder)}")


def _download(address: str, folder: Path) -> None:
    if folder.is_dir():
        return
    part = folder.with_name(f"{folder.name}.part")
    with prefix_errors(address):
        files, source = _file_system(address)
        for file in files.find(source):
            target = part / file[len(source) :].lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(file, str(target))
    if part.is_dir():
        os.replace(part, folder)


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec.core

    return fsspec.core.url_to_fs(address)
