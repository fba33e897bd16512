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

import tensorflow as tf
import tensorflow_transform as tft

Entries = dict[bytes, list[bytes]]
"""Key of an analyzer -> its encoded accumulators."""

_ENDING = ".accumulators"
_USES = "uses.json"


@dataclass(frozen=True)
class AnalyzerCache:
    """The entries of a pipeline's spans.

    folder: where they lie. Each version of TF Transform has a folder of its own inside, for it may read no other's.
    """

    folder: str

    def read(self, fingerprint: str) -> Entries:
        """Returns the entries of a span; none if there is no such file, or it was cut short."""
        path = self._path(fingerprint)
        if not tf.io.gfile.exists(path):
            return {}
        entries: Entries = {}
        options = {"compression_type": "ZLIB"}
        try:
            records = tf.data.TFRecordDataset(path, **options).batch(2, drop_remainder=True).as_numpy_iterator()
            for key, value in records:
                entries.setdefault(key, []).append(value)
        except tf.errors.DataLossError:
            return {}
        return entries

    def write(self, fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> None:
        """Keeps the entries of a span in place of earlier ones; a reader finds all of them or none."""
        tf.io.gfile.makedirs(self._folder)
        pending = f"{self._path(fingerprint)}.pending"
        with tf.io.TFRecordWriter(pending, tf.io.TFRecordOptions(compression_type="ZLIB")) as writer:
            for key in sorted(entries):
                for value in entries[key]:
                    writer.write(key)
                    writer.write(value)
        tf.io.gfile.rename(pending, self._path(fingerprint), overwrite=True)

    def keep(self, used: Iterable[str], *, others: int) -> list[str]:
        """Drops the files of all spans but those used now and the `others` used last before; returns the dropped."""
        moment = time.time_ns()
        uses = self._uses() | {fingerprint: moment for fingerprint in used}
        earlier = sorted((f for f in uses if uses[f] != moment), key=lambda f: uses[f], reverse=True)
        kept = {fingerprint: uses[fingerprint] for fingerprint in (*used, *earlier[:others])}
        names = sorted(tf.io.gfile.listdir(self._folder)) if tf.io.gfile.isdir(self._folder) else []
        dropped = [name for name in names if name != _USES and name.removesuffix(_ENDING) not in kept]
        for name in dropped:
            tf.io.gfile.remove(f"{self._folder}/{name}")
        tf.io.gfile.makedirs(self._folder)
        pending = f"{self._folder}/{_USES}.pending"
        with tf.io.gfile.GFile(pending, "w") as file:
            file.write(json.dumps(kept))
        tf.io.gfile.rename(pending, f"{self._folder}/{_USES}", overwrite=True)
        return dropped

    def _uses(self) -> dict[str, int]:
        """Returns when the file of each span was last used, in nanoseconds since 1970."""
        path = f"{self._folder}/{_USES}"
        if not tf.io.gfile.exists(path):
            return {}
        with tf.io.gfile.GFile(path, "r") as file:
            return json.loads(file.read())

    @property
    def _folder(self) -> str:
        return f"{self.folder}/tft-{quote(tft.__version__)}"

    def _path(self, fingerprint: str) -> str:
        return f"{self._folder}/{fingerprint}{_ENDING}"
