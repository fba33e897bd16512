"""The additional pass over the data of a stratified split, before the rows are written."""

import glob
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import apache_beam as beam
import pyarrow as pa
from tfx.dsl.io import fileio

from fullpass.base.files import read_json
from fullpass.base.progress import report
from fullpass.components.ingest.config import StratifiedSplit
from fullpass.components.ingest.ingest import Ingest
from fullpass.components.ingest.readers.prepare_rows import classes_and_hashes, convert_columns, read_rows, reading_of
from fullpass.components.ingest.readers.read_tasks import ReadTask, spread
from fullpass.components.ingest.splitting.hash_runs import Run
from fullpass.components.ingest.splitting.stratified import ClassWriter, cuts_of
from fullpass.components.ingest.writing.record_writer import PENDING


def with_cuts(ingest: Ingest, make_pipeline: Callable[[], beam.Pipeline]) -> Ingest:
    """Returns the ingestion with the cuts of its classes if its split is stratified; else returns it unchanged.

    Raises:
        UserError: A file cannot be read, or the column has too many values to be classes.
    """
    split = ingest.config.split
    if not isinstance(split, StratifiedSplit):
        return ingest
    with make_pipeline() as pipeline:
        tasks = spread(pipeline, [ingest.files], ingest.config.source)
        _ = tasks | "Count" >> beam.ParDo(_CountTask(ingest))
    parts = []
    for path in sorted(fileio.glob(f"{glob.escape(_folder(ingest))}/*.json")):
        result = read_json(path)
        parts.append((result["classes"], [Run(**run) for run in result["runs"]]))
    return replace(ingest, cuts=cuts_of(parts, split))


class _CountTask(beam.DoFn):
    """Writes the hash and the class of every usable row of a read task."""

    def __init__(self, ingest: Ingest):
        self._ingest = ingest

    def process(self, task: ReadTask) -> Iterator[None]:
        writer = ClassWriter(f"{_folder(self._ingest)}/{task.name}")
        count = 0
        for number, part in task.parts:
            reading = reading_of(self._ingest, self._ingest.files[number], part)
            for _, rows in read_rows(self._ingest, reading):
                if not len(rows.numbers):
                    continue
                arrays, good = convert_columns(self._ingest, reading, rows)
                reading.take_bad()  # the second pass records them
                classes, hashes = classes_and_hashes(self._ingest, rows, arrays)
                writer.write(classes.filter(pa.array(good)), hashes[good])
                count += len(rows.numbers)
                report(count, None, "rows", f"classes of {reading.path.rsplit('/', 1)[-1]}")
        runs = [asdict(run) for run in writer.close()]
        fileio.makedirs(_folder(self._ingest))
        with fileio.open(f"{_folder(self._ingest)}/{task.name}.json", "w") as f:
            f.write(json.dumps({"classes": list(writer.classes), "runs": runs}))
        yield from ()


def _folder(ingest: Ingest) -> str:
    return f"{ingest.folder}/{PENDING}/rows.by-class"
