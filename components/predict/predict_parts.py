"""Predicts the rows of files in parallel on Beam: a worker reads a part of them as in Ingest, and writes a shard.

The output is a folder: a shard per part, whose names sort in the order of the rows, `_bad_rows-*.jsonl` with the rows
that have no prediction, and `_SUCCESS`, which holds the counts and is written last. On a disk, the folder appears when
it is complete; at an address, which has no renaming, `_SUCCESS` does. No row passes through Beam.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apache_beam as beam

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.folders import Folder
from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.read_tasks import ReadTask, check_tasks, spread
from fullpass.components.ingest.readers.crashes import worker_ended_text
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.predict.exported import describe_export, load_export
from fullpass.components.predict.input_rows import InputRows
from fullpass.components.predict.input_source import InputSource, input_files, input_source
from fullpass.components.predict.predict import Predictions
from fullpass.components.predict.tally import Quarantine, Tally
from fullpass.components.predict.write_tables import format_to_write, write_tables
from fullpass.preprocessing.internals.beam_internals import fail_with_workers

DONE = "_SUCCESS"
_SAVED_MODEL = "saved_model.pb"
_SHARD = "part-"
_BAD_ROWS = "_bad_rows-"
_COUNTS = "_counts-"


@dataclass(frozen=True)
class Batch:
    """The rows to predict, and how.

    Attributes:
        model: Folder or address of an export, or of the versions of a model.
        rows: A file, folder, glob or address.
        output: Folder or address of the output; its suffix is the format of the shards.
        read_as: Keys of `data.source` that differ from those of training.
        explained: Whether to compute the effect of each raw column on the score.
        safe: As in `format_to_write`.
    """

    model: str
    rows: str
    output: str
    read_as: Mapping[str, Any]
    explained: bool = False
    safe: bool = False


def predict_parts(batch: Batch, beam_args: Callable[[int], Sequence[str]]) -> Tally:
    """Predicts rows on Beam; an earlier output at the same place is replaced.

    Args:
        beam_args: Returns Beam's arguments, given the size of the files in bytes.

    Raises:
        UserError: The rows cannot be read, none of them can be used, or the output cannot be written.
    """
    file_format = format_to_write(batch.output, safe=batch.safe)
    with _local_copy(batch.model) as folder:
        _, description = describe_export(folder)
    how = input_source(description["source"], batch.rows, batch.read_as)
    files = input_files(how.source, batch.rows)
    fail_with_workers(worker_ended_text)
    with _Output(batch.output) as output:
        with beam.Pipeline(argv=list(beam_args(sum(file.size for file in files)))) as pipeline:
            tasks = spread(pipeline, [files], how.source)
            _ = tasks | "Predict" >> beam.ParDo(_PredictTask(batch, how, files, file_format, output.pending))
        return output.finish(batch, len(files), file_format)


@contextmanager
def _local_copy(model: str) -> Iterator[Path]:
    """Provides a model in a local folder: `model` itself, or for an address a copy of its newest version.

    Raises:
        UserError: There is no model at the address.
    """
    if not is_address(model):
        yield Path(model)
        return
    store = Folder(model)
    numbers = sorted((name for name in store.folders() if name.isdigit()), key=int, reverse=True)
    found = next((name for name in ("", *numbers) if _SAVED_MODEL in store.names(name)), None)
    if found is None:
        raise UserError(f"{model}: no model. Expected a {_SAVED_MODEL} in it, or folders named by version (1, 2 ...).")
    with TemporaryDirectory(prefix="fullpass-model-") as folder:
        store.fetch(found, Path(folder) / "model")
        yield Path(folder) / "model"


class _PredictTask(beam.DoFn):
    def __init__(self, batch: Batch, how: InputSource, files: Sequence[SourceFile], file_format: str, pending: str):
        self._batch, self._how, self._files = batch, how, list(files)
        self._format, self._pending = file_format, pending

    def setup(self) -> None:
        with _local_copy(self._batch.model) as folder:
            self._model = load_export(folder)

    def process(self, task: ReadTask) -> Iterator[int]:
        """Yields the number of rows."""
        model = self._model
        rows = InputRows(self._files, self._how, model.columns, model.training.joins, parts=task.parts)
        predictions = Predictions(model, self._batch.rows, rows, explained=self._batch.explained)
        with TemporaryDirectory(prefix="fullpass-predict-") as folder:
            columns = self._write(folder, task, predictions)
            for file in sorted(Path(folder).iterdir()):
                with file.open("rb") as source:
                    Folder(self._pending).copy(source, file.name)
        counts = {**task.place, **predictions.tally.record(), "columns": columns}
        # Last: a task whose worker died before has no counts.
        Folder(self._pending).write(f"{_COUNTS}{task.name}.json", to_json_text(counts).encode())
        yield predictions.tally.rows

    def _write(self, folder: str, task: ReadTask, predictions: Predictions) -> dict[str, str]:
        """Writes the shard and the bad rows, if there are any, and returns the columns with their types."""
        shard = f"{folder}/{_SHARD}{task.name}{os.path.splitext(self._batch.output)[1]}"
        with Quarantine(f"{folder}/{_BAD_ROWS}{task.name}.jsonl") as quarantine:
            tables = quarantine.keep(predictions.with_bad_rows())
            first = next(tables, None)
            if first is None:
                return {}
            write_tables(shard, self._format, chain([first], tables))
        return {field.name: str(field.type) for field in first.schema}


class _Output:
    """The folder of an output: as context manager, it removes what is unfinished.

    Attributes:
        pending: Folder of the shards while they are written.
    """

    def __init__(self, path: str):
        self._target = path if is_address(path) else os.path.abspath(path)
        folder, name = os.path.split(self._target)
        self._remote = is_address(path)
        self.pending = self._target if self._remote else f"{folder}/.{name}.pending"

    def __enter__(self) -> "_Output":
        self._check_there()
        folder = Folder(self.pending)
        for name in sorted(folder.names(), key=lambda name: name != DONE):
            folder.remove(name)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._remote:
            shutil.rmtree(self.pending, ignore_errors=True)

    def _check_there(self) -> None:
        """Checks that only an earlier output is replaced; at an address, it may be unfinished."""
        there = Folder(self._target).names() if self._remote else _listed(self._target)
        done = Folder(self._target).read(DONE) if DONE in there else None
        ours = all(name.startswith((_SHARD, _BAD_ROWS, _COUNTS, DONE)) for name in there) and done != b""
        if there and not (ours and (done or self._remote)):
            raise UserError(
                f"{self._target} exists and is not the output of an earlier prediction. Remove it, or give another "
                "folder."
            )

    def finish(self, batch: Batch, files: int, file_format: str) -> Tally:
        """Checks and adds the counts of all tasks, and publishes the output."""
        folder = Folder(self.pending)
        names = [name for name in folder.names() if name.startswith(_COUNTS)]
        counts = [json.loads(folder.read(name) or b"{}") for name in names]
        check_tasks(counts, files)
        tally = Tally(batch.rows)
        for count in counts:
            tally.add_record(count)
        tally.quarantine = f"{self._target}/{_BAD_ROWS}*.jsonl" if tally.bad else None
        tally.check()
        _check_columns(batch.rows, file_format, [count["columns"] for count in counts if count["columns"]])
        for name in names:
            folder.remove(name)
        done = {"rows": tally.rows, "bad_rows": tally.bad, "model": batch.model, "input": batch.rows}
        folder.write(DONE, to_json_text(done).encode())
        if not self._remote:
            _replace(self.pending, self._target)
        return tally


def _listed(folder: str) -> list[str]:
    """Returns the names in a folder, or the file's own name; empty if there is nothing."""
    if os.path.isdir(folder):
        return os.listdir(folder)
    return [os.path.basename(folder)] if os.path.lexists(folder) else []


def _check_columns(path: str, file_format: str, shards: Sequence[Mapping[str, str]]) -> None:
    """Checks that all shards of a table have the columns of the first one."""
    if file_format in ("jsonl", "tfrecord"):
        return
    for columns in shards:
        odd = columns.items() ^ shards[0].items() if file_format == "parquet" else columns.keys() ^ shards[0].keys()
        if odd:
            names = ", ".join(sorted({name if isinstance(name, str) else name[0] for name in odd}))
            raise UserError(
                f"{path}: not every part has the columns {names} with the same type. Write JSON lines (.jsonl), where "
                "rows may differ."
            )


def _replace(folder: str, target: str) -> None:
    before = f"{folder}.before"
    shutil.rmtree(before, ignore_errors=True)
    if os.path.exists(target):
        os.rename(target, before)
    os.rename(folder, target)
    shutil.rmtree(before, ignore_errors=True)
