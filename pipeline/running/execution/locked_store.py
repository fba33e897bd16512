"""Opens the metadata store of a local run without TFX, locked against all other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ml_metadata import proto
from ml_metadata.metadata_store.metadata_store import MetadataStore

from fullpass.pipeline.root.layout import lock_of
from fullpass.pipeline.root.locks import exclusive
from fullpass.pipeline.running.execution.redacted_store import RedactedStore


@contextmanager
def locked_store(path: Path, *, writes: bool = False) -> Iterator[RedactedStore]:
    """Yields the store of the SQLite file `path`, which redacts secrets on write.

    Args:
        path: The file; it must exist unless `writes` is true.
        writes: Whether the caller writes.
    """
    config = proto.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    if not writes:
        config.sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READONLY
    with exclusive(lock_of(path)):
        yield RedactedStore(MetadataStore(config))
