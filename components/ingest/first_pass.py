"""The pass over the data that a stratified split takes before the rows are written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import apache_beam as beam
import pyarrow as pa
from tfx.dsl.io import fileio

from components.ingest.config import StratifiedSplit
from components.ingest.hash_runs import Run
from components.ingest.ingest import Ingest
from components.ingest.portions import Portion, spread
from components.ingest.rows import classes_and_hashes, convert_columns, read_rows, reading_of
from components.ingest.strata import ClassWriter, cuts_of
from components.ingest.write import PENDING
from preprocessing.progress import report


def with_cuts(ingest: Ingest, make_pipeline: Callable[[], beam.Pipeline]) -> Ingest:
    """Returns the ingestion with the cuts of its classes, if its split is stratified; else as it is.

    Raises:
        UserError: A file cannot be read, or the column has too many values to be classes.
    """
    split = ingest.config.split
    if not isinstance(split, StratifiedSplit):
        return ingest
    with make_pipeline() as pipeline:
        portions = spread(pipeline, [ingest.files], ingest.config.source)
        _ = portions | "Count" >> beam.ParDo(_CountPortion(ingest))
    parts = []
    for path in sorted(fileio.glob(f"{_folder(ingest)}/*.json")):
        with fileio.open(path, "r") as f:
            result = json.loads(f.read())
        parts.append((result["classes"], [Run(**run) for run in result["runs"]]))
    return replace(ingest, cuts=cuts_of(parts, split))


class _CountPortion(beam.DoFn):
    """Notes hash and class of every usable row of a portion."""

    def __init__(self, ingest: Ingest):
        self._ingest = ingest

    def process(self, portion: Portion) -> Iterator[None]:
        writer = ClassWriter(f"{_folder(self._ingest)}/{portion.name}")
        count = 0
        for number, part in portion.parts:
            reading = reading_of(self._ingest, self._ingest.files[number], part)
            for _, rows in read_rows(self._ingest, reading):
                if not len(rows.numbers):
                    continue
                arrays, good = convert_columns(self._ingest, reading, rows)
                reading.take_bad()  # they are kept when the rows are written
                classes, hashes = classes_and_hashes(self._ingest, rows, arrays)
                writer.write(classes.filter(pa.array(good)), hashes[good])
                count += len(rows.numbers)
                report(count, None, "rows", f"classes of {reading.path.rsplit('/', 1)[-1]}")
        runs = [asdict(run) for run in writer.close()]
        fileio.makedirs(_folder(self._ingest))
        with fileio.open(f"{_folder(self._ingest)}/{portion.name}.json", "w") as f:
            f.write(json.dumps({"classes": list(writer.classes), "runs": runs}))
        yield from ()


def _folder(ingest: Ingest) -> str:
    return f"{ingest.folder}/{PENDING}/rows.by-class"
