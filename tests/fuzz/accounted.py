"""Ingests one damaged file as a worker does, and counts the written records independently."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullpass.components.ingest.config import BadRows, HashSplit, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.ingest import Ingest, ingest_task
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.readers.open_source import parts_of
from fullpass.components.ingest.readers.read_tasks import ReadTask
from fullpass.components.ingest.sources.source_files import find_inputs
from fullpass.preprocessing.errors import UserError
from fullpass.preprocessing.features.raw_columns import RawColumn


@dataclass(frozen=True)
class Outcome:
    """The outcome of one file. refused: the error if the file was not read, else None; with an error, counts are 0."""

    refused: str | None
    read: int = 0
    written: int = 0
    quarantined: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The outcome in a word or two."""
        return "refused" if self.refused else "rows quarantined" if self.quarantined else "read"


def ingested(source: Any, columns: Sequence[RawColumn], folder: Path, seed: int) -> Outcome:
    """Ingests a source and returns its counts; the written records are counted from their files.

    Raises:
        AssertionError: A row is lost, or an error does not name its file.
    """
    split = HashSplit(method="hash") if seed % 2 else RandomSplit(method="random")
    config = IngestConfig(source=source, split=split, records=RecordsConfig(), bad_rows=BadRows(max_fraction=1.0))
    try:
        files = find_inputs(source, str)
        ingest = Ingest(config, files, ("train", "eval"), tuple(columns), str(folder / "out"), False)
        parts = parts_of(files[0], source)
        rate = ReadRate(files)
        tasks = [ReadTask(((0, part),), i, last=i == len(parts) - 1) for i, part in enumerate(parts)]
        results = [ingest_task(ingest, task, rate) for task in tasks]
    except UserError as error:
        assert str(folder) in str(error), f"the message does not name the file: {error}"
        return Outcome(str(error))
    chunks = [chunk["path"] for r in results for of_split in r["chunks"].values() for chunk in of_split]
    outcome = Outcome(
        refused=None,
        read=sum(count["read"] for r in results for count in r["counts"]),
        written=sum(_count_records(Path(chunk).read_bytes()) for chunk in chunks),
        quarantined=sum(len(r["bad"]) for r in results),
        reasons=tuple(row["reason"] for r in results for row in r["bad"]),
    )
    assert outcome.read == outcome.written + outcome.quarantined, outcome
    return outcome


def _count_records(data: bytes) -> int:
    count = at = 0
    while at < len(data):
        at += struct.unpack_from("<Q", data, at)[0] + 16
        count += 1
    return count
