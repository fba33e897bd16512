"""The file of a span in the analyzer cache: its encoded accumulator states as an Arrow table, with a checksum.

magic      b"fullpass accumulators 3\\n"
checksum   CRC-32C of the span's fingerprint and of the table, big-endian
table      an Arrow IPC stream, compressed with zstd: `key`, and `values`, the list of its encoded values
"""

from collections.abc import Mapping, Sequence

import google_crc32c
import pyarrow as pa

from fullpass.preprocessing.analysis.accumulators import EncodedStates

_MAGIC = b"fullpass accumulators 3\n"
_SCHEMA = pa.schema({"key": pa.binary(), "values": pa.list_(pa.large_binary())})
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


def pack(fingerprint: str, entries: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """Returns the content of the file of the span with this fingerprint."""
    keys = sorted(entries)
    table = pa.table([keys, [list(entries[key]) for key in keys]], _SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_COMPRESSED) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    return _MAGIC + _checksum(fingerprint, content) + content


def unpack(fingerprint: str, content: bytes) -> EncodedStates | None:
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
