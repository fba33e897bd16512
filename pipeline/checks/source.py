"""Checks of `data.source`: the files are there, of the format named, and can be opened."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from components.ingest.files import SourceFile, find_inputs
from components.ingest.read import columns_of
from components.ingest.readers.bigquery import has_credentials
from components.ingest.sources import (
    ArrowSource,
    AvroSource,
    BigQuerySource,
    CsvSource,
    FileSource,
    JsonLinesSource,
    NumpySource,
    OrcSource,
    ParquetSource,
    Paths,
    Source,
    SqlSource,
)
from pipeline.checks.findings import Finding
from pipeline.loading.load import Loaded
from pipeline.loading.problems import Keys
from preprocessing.errors import UserError

_PATH: Keys = ("data", "source", "path")
_DATE_FIELD = re.compile(r"\{[A-Z]+[^}]*\}")
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".zip")
_SEPARATORS = ("\t", ";", "|", ",")
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "csv": CsvSource.endings,
    "jsonl": JsonLinesSource.endings,
    "parquet": ParquetSource.endings,
    "arrow": ArrowSource.endings,
    "orc": OrcSource.endings,
    "avro": AvroSource.endings,
    "numpy": NumpySource.endings,
}


def check_source(loaded: Loaded) -> Iterator[Finding]:
    """Every path matches a file, none twice, and the files are of the format named."""
    source = loaded.config.data.source
    missing = False
    for keys, path in _paths(loaded):
        try:
            found = find_inputs(source.model_copy(update={"path": path}), loaded.resolve)
            yield from _format_findings(source, found[0])
        except UserError as error:
            missing = True
            # A date that is not filled in is named by another check.
            if not _DATE_FIELD.search(path):
                yield Finding(keys, _without_place(error))
    if not source.per_split:
        yield Finding(_PATH, "Received: nothing. Accepted: a path, a list of paths, or paths per split.")
    elif not missing:
        try:
            find_inputs(source, loaded.resolve)
        except UserError as error:
            yield Finding(_PATH if isinstance(source, FileSource) else _PATH[:-1], _without_place(error))


def check_credentials(loaded: Loaded) -> Iterator[Finding]:
    """What reads here from Google's cloud can log in to it."""
    config = loaded.config
    if isinstance(config.data.source, BigQuerySource) and config.beam.runner == "direct" and not has_credentials():
        yield Finding(
            _PATH[:-1],
            "bigquery needs credentials, and this machine has none. Log in with `gcloud auth application-default "
            "login`, or name a key file by the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
        )


def check_first_file(loaded: Loaded) -> Iterator[Finding]:
    """The first file can be read as its format, and by the separator named."""
    source, file = loaded.config.data.source, _first_file(loaded)
    if file is None:
        return
    try:
        columns = columns_of(file, source)
    except UserError as error:
        yield Finding(_PATH if isinstance(source, FileSource) else _PATH[:-1], str(error))
        return
    separator = _other_separator(source, columns)
    if columns and separator is not None:
        written = separator.replace("\t", "\\t")
        yield Finding(_PATH[:-1], f'{file.path} has one column only, "{columns[0]}". Add separator: "{written}".')


def check_window(loaded: Loaded) -> Iterator[Finding]:
    """Nothing waits for spans that are not read."""
    if loaded.config.data.window.spans > 1:
        yield Finding(("data", "window", "spans"), "this version reads one span: all files of path. Remove window.")
    for keys, path in _paths(loaded):
        field = _DATE_FIELD.search(path)
        if field:
            yield Finding(keys, f"{field.group()} is not filled in: this version reads one span. Write *, or the date.")


def columns_present(loaded: Loaded) -> list[str] | None:
    """Returns the columns of the first file; None where names are not known without reading rows, or are none."""
    source, file = loaded.config.data.source, _first_file(loaded)
    if file is None:
        return None
    try:
        columns = columns_of(file, source)
    except UserError:
        return None
    return None if _other_separator(source, columns) is not None else columns


def _first_file(loaded: Loaded) -> SourceFile | None:
    """Returns the first thing that is read; None if it is of another format or in a database elsewhere."""
    source = loaded.config.data.source
    try:
        file = next(iter(find_inputs(source, loaded.resolve)), None)
    except UserError:
        return None
    if file is None or (isinstance(source, SqlSource) and not file.size) or list(_format_findings(source, file)):
        return None
    return file


def _other_separator(source: Source, columns: list[str] | None) -> str | None:
    """Returns the separator that a CSV file seems to have, if by the one named it has one column only."""
    if not isinstance(source, CsvSource) or columns is None or len(columns) != 1:
        return None
    return next((separator for separator in _SEPARATORS if separator in columns[0]), None)


def _paths(loaded: Loaded) -> Iterator[tuple[Keys, str]]:
    source = loaded.config.data.source
    if isinstance(source, FileSource):
        yield from _places(_PATH, source.path)


def _places(keys: Keys, paths: Paths) -> Iterator[tuple[Keys, str]]:
    if isinstance(paths, str):
        yield keys, paths
        return
    for key, entry in paths.items() if isinstance(paths, Mapping) else enumerate(paths):
        yield from _places((*keys, key), entry)


def _format_findings(source: Source, file: SourceFile) -> Iterator[Finding]:
    if not isinstance(source, FileSource):
        return
    path = PurePath(file.path)
    ending = (PurePath(path.stem).suffix if path.suffix in _COMPRESSIONS else path.suffix).lower()
    other = next((name for name, endings in _ENDINGS.items() if ending in endings), None)
    if other is not None and ending not in source.endings:
        yield Finding(("data", "source", "format"), f"{source.format}, but {path.name} is {other} by its name.")


def _without_place(error: UserError) -> str:
    return str(error).removeprefix("data.source.path: ")
