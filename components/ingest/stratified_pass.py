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
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.read_tasks import ReadTask, spread
from fullpass.components.ingest.splitting.hash_runs import HashRun
from fullpass.components.ingest.splitting.stratified import ClassWriter, cuts_of
from fullpass.components.ingest.writing.record_writer import PENDING


def with_cuts(ingestion: Ingestion, make_pipeline: Callable[[], beam.Pipeline]) -> Ingestion:
    """Returns the ingestion with the cuts of its classes if its split is stratified; else returns it unchanged.

    Raises:
        UserError: A file cannot be read, or the column has too many values to be classes.
    """
    split = ingestion.config.split
    if not isinstance(split, StratifiedSplit):
        return ingestion
    with make_pipeline() as pipeline:
        tasks = spread(pipeline, [ingestion.files], ingestion.config.source)
        _ = tasks | "Count" >> beam.ParDo(_CountTask(ingestion))
    parts = []
    for path in sorted(fileio.glob(f"{glob.escape(_folder(ingestion))}/*.json")):
        result = read_json(path)
        parts.append((result["classes"], [HashRun(**run) for run in result["runs"]]))
    return replace(ingestion, cuts=cuts_of(parts, split))


class _CountTask(beam.DoFn):
    """Writes the hash and the class of every usable row of a read task."""

    def __init__(self, ingestion: Ingestion):
        self._ingestion = ingestion

    def process(self, task: ReadTask) -> Iterator[None]:
        ingestion = self._ingestion
        writer = ClassWriter(f"{_folder(ingestion)}/{task.name}")
        count = 0
        for number, part in task.parts:
            reading = ingestion.reading(ingestion.files[number], part)
            for rows, arrays, good in ingestion.batches(reading):
                reading.take_bad()  # the second pass records them
                classes, hashes = ingestion.classes_and_hashes(rows, arrays)
                writer.write(classes.filter(pa.array(good)), hashes[good])
                count += len(rows.numbers)
                report(count, None, "rows", f"classes of {reading.path.rsplit('/', 1)[-1]}")
        runs = [asdict(run) for run in writer.close()]
        fileio.makedirs(_folder(ingestion))
        with fileio.open(f"{_folder(ingestion)}/{task.name}.json", "w") as f:
            f.write(json.dumps({"classes": list(writer.classes), "runs": runs}))
        yield from ()


def _folder(ingestion: Ingestion) -> str:
    return f"{ingestion.folder}/{PENDING}/rows.by-class"
