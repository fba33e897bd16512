"""Ingests one damaged file as a worker does, and counts the written records independently."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import BadRows, HashSplit, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.ingest import ingest_task
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.read_tasks import ReadTask
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, run_in_fork_if_native
from fullpass.preprocessing.columns.raw_columns import RawColumn


@dataclass(frozen=True)
class Outcome:
    """The outcome of one file. refused: the error if the file was not read, else None; with an error, counts are 0.
    chunks: the files of records by split."""

    refused: str | None
    read: int = 0
    written: int = 0
    quarantined: int = 0
    reasons: tuple[str, ...] = ()
    chunks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The outcome in a word or two."""
        return "refused" if self.refused else "rows quarantined" if self.quarantined else "read"


def ingested(
    source: Any,
    columns: Sequence[RawColumn],
    folder: Path,
    seed: int,
    *,
    split: HashSplit | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Outcome:
    """Ingests a source and returns its counts; the written records are counted from their files.

    Args:
        source: the configuration of the source, of one file.
        columns: the columns to read.
        folder: an empty folder for the records.
        seed: decides the method of the split, unless `split` is given.
        split: the split.
        meanwhile: called between planning the parts of the file and reading them.

    Raises:
        AssertionError: A row is lost, or an error does not name its file.
    """
    split = split or (HashSplit(method="hash") if seed % 2 else RandomSplit(method="random"))
    try:
        return run_in_fork_if_native(source, lambda: _outcome(source, columns, folder, split, meanwhile))
    except UserError as error:
        assert str(folder) in str(error), f"the message does not name the file: {error}"
        return Outcome(str(error))


def _outcome(
    source: Any, columns: Sequence[RawColumn], folder: Path, split: Any, meanwhile: Callable[[], None] | None
) -> Outcome:
    config = IngestConfig(source=source, split=split, records=RecordsConfig(), bad_rows=BadRows(max_fraction=1.0))
    files = find_inputs(source, str)
    ingest = Ingestion(config, files, ("train", "eval"), tuple(columns), str(folder / "out"), False)
    parts = parts_of(files[0], source)
    if meanwhile is not None:
        meanwhile()
    rate = ReadRate(files)
    tasks = [ReadTask(((0, part),), i, last=i == len(parts) - 1) for i, part in enumerate(parts)]
    results = [ingest_task(ingest, task, rate) for task in tasks]
    chunks: dict[str, list[str]] = {}
    for r in results:
        for name, of_split in r["chunks"].items():
            chunks.setdefault(name, []).extend(chunk["path"] for chunk in of_split)
    outcome = Outcome(
        refused=None,
        read=sum(count["read"] for r in results for count in r["counts"]),
        written=sum(_count_records(Path(chunk).read_bytes()) for paths in chunks.values() for chunk in paths),
        quarantined=sum(len(r["bad"]) for r in results),
        reasons=tuple(row["reason"] for r in results for row in r["bad"]),
        chunks=chunks,
    )
    assert outcome.read == outcome.written + outcome.quarantined, outcome
    return outcome


def _count_records(data: bytes) -> int:
    count = at = 0
    while at < len(data):
        at += struct.unpack_from("<Q", data, at)[0] + 16
        count += 1
    return count
