"""What analyzers made of each span, kept so that a span is analysed once for all windows that hold it.

One file per span, named by the span's fingerprint: the same records give the same entries wherever they lie. An entry
is the accumulators of one analyzer over the span, under a key that TF Transform makes of the analyzer and of all that
comes before it in the graph; a changed feature has another key.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import tensorflow_transform as tft

from components.folder import Folder

Entries = dict[bytes, list[bytes]]
"""Key of an analyzer -> its encoded accumulators."""

_ENTRIES = pa.schema({"key": pa.binary(), "values": pa.list_(pa.large_binary())})
_ENDING = ".accumulators"
_USES = "uses.json"


@dataclass(frozen=True)
class AnalyzerCache:
    """The entries of a pipeline's spans.

    folder: where they lie, a path or an address. Each version of TF Transform has a folder of its own inside, for it
    may read no other's.
    """

    folder: str

    def read(self, fingerprint: str) -> Entries:
        """Returns the entries of a span; none if there is no such file, or it was cut short."""
        content = self._folder.read(fingerprint + _ENDING)
        if content is None:
            return {}
        try:
            table = pa.ipc.open_file(content).read_all()
        except (pa.ArrowInvalid, OSError):
            return {}
        return dict(zip(table["key"].to_pylist(), table["values"].to_pylist(), strict=True))

    def write(self, fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> None:
        """Keeps the entries of a span in place of earlier ones; a reader finds all of them or none."""
        keys = sorted(entries)
        table = pa.table([keys, [list(entries[key]) for key in keys]], schema=_ENTRIES)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _ENTRIES, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        self._folder.write(fingerprint + _ENDING, sink.getvalue().to_pybytes())

    def keep(self, used: Iterable[str], *, others: int) -> list[str]:
        """Drops the files of all spans but those used now and the `others` used last before; returns the dropped."""
        moment = time.time_ns()
        folder = self._folder
        uses = json.loads(folder.read(_USES) or b"{}") | {fingerprint: moment for fingerprint in used}
        earlier = sorted((f for f in uses if uses[f] != moment), key=lambda f: uses[f], reverse=True)
        kept = {fingerprint: uses[fingerprint] for fingerprint in (*used, *earlier[:others])}
        dropped = [name for name in folder.names() if name != _USES and name.removesuffix(_ENDING) not in kept]
        for name in dropped:
            folder.remove(name)
        folder.write(_USES, json.dumps(kept).encode())
        return dropped

    @property
    def _folder(self) -> Folder:
        return Folder(f"{self.folder}/tft-{quote(tft.__version__)}")
