"""Whole ingestions through Beam in this process, read back by TensorFlow."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq

from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.ingest import finish_ingestion, ingest_files
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.stratified_pass import with_cuts
from fullpass.components.ingest.writing.manifest import QUARANTINE, Manifest
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.components.ingest.reading_tools import inputs
from tests.record_files import read_examples

RATIOS = {"train": 1, "eval": 1}
RANDOM = {"method": "random", "ratios": RATIOS}
HASH = {"method": "hash"}


def ingest(
    folder: Path,
    source: Any,
    columns: Sequence[RawColumn],
    *,
    split: Mapping[str, Any] = RANDOM,
    bad_rows: float = 0.0,
    max_rows: int | None = None,
    files: Sequence[Any] = (),
    gzip: bool = False,
    span: int | None = None,
    **sections: Any,
) -> Manifest:
    """Ingests a source into `folder / "examples"` and returns the manifest.

    Args:
        source: The section `source`, or the model of it; relative paths start at `folder`.
        split: The section `split`.
        bad_rows: The largest share of bad rows.
        max_rows: The largest number of bad rows.
        files: The files to read; by default those that the source names.
        sections: Further sections of `IngestConfig`.
    """
    allowed = {"max_fraction": bad_rows, "max_rows": max_rows}
    given = {"source": source, "split": split, "records": {}, "bad_rows": allowed, **sections}
    config = IngestConfig.model_validate(given)
    files = tuple(files or inputs(config.source, folder))
    splits = config.source.given_splits or tuple(getattr(config.split, "ratios", RATIOS))
    ingestion = Ingestion(config, files, splits, tuple(columns), str(folder / "examples"), gzip, span=span)
    ingestion = with_cuts(ingestion, beam.Pipeline)
    with local_pipeline() as pipeline:
        ingest_files([ingestion], pipeline)
    return finish_ingestion(ingestion)


def examples(folder: Path, split: str = "*") -> Iterator[Any]:
    """Yields the features of each record of a split, or of all splits, in the order of files and records."""
    return read_examples(*sorted((folder / "examples").glob(f"Split-{split}/*")))


def row_id(features: Any) -> int:
    """Returns the row id of a record."""
    return features["fullpass_row"].int64_list.value[0]


def quarantined(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows in quarantine."""
    return pq.read_table(folder / "examples" / QUARANTINE).to_pylist()
