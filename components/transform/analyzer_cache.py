"""Caches the accumulator states of each span: a span is analyzed once for all windows that contain it.

There is one file per span, named by the span's fingerprint: equal records have the same entries in any location. An
entry is the encoded state of one analyzer over the span. Its cache key is a digest of the analyzer and of the graph
before it, so a changed feature has another key. Counts of many tokens are in a separate file next to the span's file.
The file of a span is

magic      b"fullpass accumulators 3\\n"
checksum   CRC-32C of the span's fingerprint and of the table, big-endian
table      an Arrow IPC stream, compressed with zstd: `key`, and `values`, the list of its encoded values
"""

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import google_crc32c
import pyarrow as pa
import tensorflow_transform as tft

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.folders import Folder
from fullpass.components.library_versions import version
from fullpass.preprocessing.analysis.accumulators import EncodedStates
from fullpass.preprocessing.analysis.token_counts import encode_file_reference, file_reference
from fullpass.preprocessing.analysis.token_files import TokenFile, open_file

_MAGIC = b"fullpass accumulators 3\n"
_SCHEMA = pa.schema({"key": pa.binary(), "values": pa.list_(pa.large_binary())})
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_ENDING, _TOKENS = ".accumulators", ".tokens"
_USES = "uses.json"
_ENCODINGS = 4
"""Version of the encoded states; states of another version are computed again."""
_LIBRARIES = ("tensorflow", "tensorflow-transform", "tfx-bsl", "numpy", "pyarrow")


def pack_states(fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """Returns the content of the file of the span with this fingerprint."""
    keys = sorted(entries)
    table = pa.table([keys, [list(entries[key]) for key in keys]], _SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_COMPRESSED) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    return _MAGIC + _checksum(fingerprint, content) + content


def unpack_states(fingerprint: str, content: bytes) -> EncodedStates | None:
    """Returns the states in the file of a span; None if it is damaged or the file of another span."""
    magic, checksum, table = content[: len(_MAGIC)], content[len(_MAGIC) :][:4], content[len(_MAGIC) + 4 :]
    if magic != _MAGIC or checksum != _checksum(fingerprint, table):
        return None
    columns = pa.ipc.open_stream(table).read_all()
    return dict(zip(columns["key"].to_pylist(), columns["values"].to_pylist(), strict=True))


def _checksum(fingerprint: str, table: bytes) -> bytes:
    digest = google_crc32c.Checksum(fingerprint.encode())
    digest.update(table)
    return digest.digest()


@dataclass(frozen=True)
class AnalyzerCache:
    """The cached states of a pipeline's spans.

    folder: a path or an address. Each version of the encodings and of the libraries that compute states has its own
    subfolder, because one version may be unable to read the states of another, or computes others.
    """

    folder: str

    def read(self, fingerprint: str, *, whole: bool = False) -> EncodedStates:
        """Returns the undamaged states of a span; damaged ones are logged and omitted.

        Args:
            whole: Whether to check the files of counts as well; else they are checked when they are read.
        """
        folder = self._folder
        content = folder.read(fingerprint + _ENDING)
        found = {} if content is None else unpack_states(fingerprint, content)
        if found is None:
            _warn(f"{folder.path}/{fingerprint}{_ENDING} is damaged")
            return {}
        states = found | {key: encode_file_reference(f"{folder.path}/{name}") for key, name in _files_of(found)}
        for key, path in _files_of(states) if whole else ():
            try:
                TokenFile(path).check()
            except (UserError, OSError) as error:
                _warn(str(error))
                del states[key]
        return states

    def write(self, fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> None:
        """Replaces the states of a span atomically: a reader finds all or none. Files of counts are copied."""
        folder, kept = self._folder, dict(entries)
        for key, path in _files_of(entries):
            name = f"{fingerprint}.{hashlib.sha256(key).hexdigest()[:32]}{_TOKENS}"
            if path != f"{folder.path}/{name}":
                with open_file(path, "rb") as source:
                    folder.copy(source, name)
            kept[key] = encode_file_reference(name)
        folder.write(fingerprint + _ENDING, pack_states(fingerprint, kept))
        used = {name for _, name in _files_of(kept)}
        for name in folder.names():
            if name.startswith(f"{fingerprint}.") and name.endswith(_TOKENS) and name not in used:
                folder.remove(name)

    def keep(self, used: Iterable[str], *, others: int) -> list[str]:
        """Removes old files, and returns their names.

        Args:
            used: Fingerprints of the spans that this run uses, whose files are kept.
            others: Number of other spans to keep, the most recently used first.
        """
        moment = time.time_ns()
        folder = self._folder
        uses = self._uses() | dict.fromkeys(used, moment)
        earlier = sorted((f for f in uses if uses[f] != moment), key=lambda f: uses[f], reverse=True)
        kept = {fingerprint: uses[fingerprint] for fingerprint in (*used, *earlier[:others])}
        names = [name for name in folder.names() if name.endswith((_ENDING, _TOKENS))]
        dropped = [name for name in names if name.partition(".")[0] not in kept]
        for name in dropped:
            folder.remove(name)
        folder.write(_USES, state_file.encode(kept))
        return dropped

    def _uses(self) -> dict[str, int]:
        """Returns the time of last use of each span, in nanoseconds since 1970; empty if the record is lost."""
        content = self._folder.read(_USES)
        if content is None:
            return {}
        try:
            return state_file.decode(content, f"{self._folder.path}/{_USES}", "A new record is started.")
        except state_file.DamagedState as error:
            logging.warning("%s", error)
            return {}

    @property
    def _folder(self) -> Folder:
        libraries = hashlib.sha256(" ".join(map(version, _LIBRARIES)).encode()).hexdigest()[:8]
        return Folder(f"{self.folder}/tft-{quote(tft.__version__)}-{_ENCODINGS}-{libraries}")


def _files_of(states: Mapping[bytes, Sequence[bytes]]) -> list[tuple[bytes, str]]:
    """Returns the key and the file of each state that is stored in a file of counts."""
    files = ((key, file_reference(values)) for key, values in states.items())
    return [(key, path) for key, path in files if path is not None]


def _warn(damage: str) -> None:
    logging.warning("%s. Its content is computed again.", damage.rstrip("."))
