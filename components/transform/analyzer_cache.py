"""Accumulator states of each span, cached so that a span is analysed once for all windows that hold it.

There is one file per span, named by the span's fingerprint: the same records have the same entries wherever they lie.
An entry is the encoded state of one analyzer over the span. Its key is a digest of the analyzer and of the graph before
it, so a changed feature has another key.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import tensorflow_transform as tft

from fullpass.components.shared_folder import Folder
from fullpass.components.transform.accumulator_file import DamagedEntries, pack, unpack
from fullpass.preprocessing import state_file
from fullpass.preprocessing.analysis.accumulators import EncodedStates

_ENDING = ".accumulators"
_USES = "uses.json"
_ENCODINGS = 2


@dataclass(frozen=True)
class AnalyzerCache:
    """The cached states of a pipeline's spans.

    folder: a path or an address. Each version of TF Transform and of the encodings has a folder of its own inside, for
    one may not be able to read the states of another.
    """

    folder: str

    def read(self, fingerprint: str) -> EncodedStates:
        """Returns the states of a span that are as they were written; a damaged one is logged and left out."""
        return self.read_whether_whole(fingerprint)[0]

    def read_whether_whole(self, fingerprint: str) -> tuple[EncodedStates, bool]:
        """Returns what `read` does, and whether nothing was damaged."""
        content = self._folder.read(fingerprint + _ENDING)
        if content is None:
            return {}, True
        try:
            return unpack(fingerprint, content), True
        except DamagedEntries as error:
            path = f"{self._folder.path}/{fingerprint}{_ENDING}"
            logging.warning("%s is damaged: %s. What they hold is computed anew.", path, error)
            return error.states, False

    def write(self, fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> None:
        """Replaces the states of a span; a reader finds all of them or none."""
        self._folder.write(fingerprint + _ENDING, pack(fingerprint, entries))

    def keep(self, used: Iterable[str], *, others: int) -> list[str]:
        """Removes the files of all spans but those used now and the `others` used last before; returns their names."""
        moment = time.time_ns()
        folder = self._folder
        uses = self._uses() | dict.fromkeys(used, moment)
        earlier = sorted((f for f in uses if uses[f] != moment), key=lambda f: uses[f], reverse=True)
        kept = {fingerprint: uses[fingerprint] for fingerprint in (*used, *earlier[:others])}
        names = [name for name in folder.names() if name.endswith(_ENDING)]
        dropped = [name for name in names if name.removesuffix(_ENDING) not in kept]
        for name in dropped:
            folder.remove(name)
        folder.write(_USES, state_file.encode(kept))
        return dropped

    def _uses(self) -> dict[str, int]:
        """Returns when each span was used last, in nanoseconds since 1970; none if that is not known any more."""
        content = self._folder.read(_USES)
        if content is None:
            return {}
        try:
            return state_file.decode(content, f"{self._folder.path}/{_USES}", "It is begun anew.", checked=True)
        except state_file.DamagedState as error:
            logging.warning("%s", error)
            return {}

    @property
    def _folder(self) -> Folder:
        return Folder(f"{self.folder}/tft-{quote(tft.__version__)}-{_ENCODINGS}")
