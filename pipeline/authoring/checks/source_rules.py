"""Checks of `data.source`: the files exist, have the declared format, and can be opened."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.joins.config import joined_columns
from fullpass.components.ingest.joins.tables import of_join
from fullpass.components.ingest.readers.bigquery import has_credentials
from fullpass.components.ingest.readers.read_source import columns_of
from fullpass.components.ingest.readers.readable import EmptyFileError
from fullpass.components.ingest.readers.recognize import contradiction, look_at
from fullpass.components.ingest.sources.config import BigQuerySource, CsvSource, FileSource, Paths
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.components.ingest.spans.span_pattern import Unit, parse_span, ranges
from fullpass.components.ingest.spans.spans import LATEST, Window, find_window, has_spans, span_unit
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.expressions.syntax_tree import AGE

_PATH: Keys = ("data", "source", "path")
_SEPARATORS = ("\t", ";", "|", ",")


def window_of(loaded: Loaded, data: DataConfig) -> Window:
    """Returns the spans and files that a command will read, and those of the newest window if it names no span.

    Data that is newer than the requested span may still be arriving. A span that is not there is told by the command.

    Raises:
        UserError: Files are missing, or patterns contradict each other.
    """
    if loaded.span is not None:
        with suppress(UserError):
            return find_window(data, loaded.resolve, loaded.span)
    return find_window(data, loaded.resolve)


def check_source(loaded: Loaded) -> Iterator[Finding]:
    """Every path matches files of the declared format, no file matches twice, and file names contain their spans."""
    data = _without_column(loaded)
    source = data.source
    missing = False
    for keys, path in _paths(loaded):
        try:
            one = data.model_copy(update={"source": source.model_copy(update={"path": path})})
            yield from _format_findings(source, window_of(loaded, one).files[0])
        except UserError as error:
            missing = True
            yield Finding(keys, _without_place(error))
    if not source.per_split:
        yield Finding(_PATH, "Received: nothing. Accepted: a path, a list of paths, or paths per split.")
    elif not missing:
        try:
            window_of(loaded, data)
        except UserError as error:
            yield Finding(_PATH if isinstance(source, FileSource) else _PATH[:-1], _without_place(error))


def check_credentials(loaded: Loaded) -> Iterator[Finding]:
    """Sources on Google Cloud have credentials on this machine."""
    config = loaded.config
    if isinstance(config.data.source, BigQuerySource) and config.beam.runner == "direct" and not has_credentials():
        yield Finding(
            _PATH[:-1],
            "bigquery needs credentials, and this machine has none. Log in with `gcloud auth application-default "
            "login`, or name a key file by the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
        )


def check_first_file(loaded: Loaded) -> Iterator[Finding]:
    """The first file can be read with the declared format and separator."""
    source, file = loaded.config.data.source, _first_file(loaded)
    if file is None:
        return
    try:
        columns = columns_of(file, source)
    except EmptyFileError as error:
        if not has_spans(loaded.config.data):  # a span may have no rows
            yield Finding(_PATH, str(error))
        return
    except UserError as error:
        yield Finding(_PATH if isinstance(source, FileSource) else _PATH[:-1], str(error))
        return
    separator = _other_separator(source, columns)
    if columns and separator is not None:
        written = separator.replace("\t", "\\t")
        yield Finding(_PATH[:-1], f'{file.path} has one column only, "{columns[0]}". Add separator: "{written}".')


def check_window(loaded: Loaded) -> Iterator[Finding]:
    """A window consists of spans that the source has; a warning names the missing ones."""
    data = loaded.config.data
    if not has_spans(data):
        if "spans" in data.window.model_fields_set and data.window.spans != 1:
            yield Finding(
                ("data", "window", "spans"),
                "data.source has no spans, so there is no window of them. Put a span field in its path, such as "
                "trips/{YYYY}-{MM}-{DD}.csv, or name the column of spans (data.span), or remove window.",
            )
        return
    try:
        window = window_of(loaded, data.model_copy(update={"joins": {}}))
    except UserError as error:
        present = columns_present(loaded)
        # Other checks report problems of the source and absent columns.
        if data.span is not None and loaded.reads_data and (present is None or data.span.column in present):
            yield Finding(("data", "span"), str(error).removeprefix("data.span: "))
        return
    size = data.window.spans
    last = window.spans[-1].number
    if size != "all" and size > last - window.all_spans[0] + 1:
        there = sum(number <= last for number in window.all_spans)
        until = "so far" if there == len(window.all_spans) else f"up to {window.label(last)}"
        yield warning(("data", "window", "spans"), f"the window has {size} spans, but the source has {there} {until}.")
    if window.missing and window.unit is not None:
        lacking = ranges(window.unit, window.missing)
        yield warning(("data", "window"), f"these spans of the window are missing: {lacking}.")


def still_arrives(loaded: Loaded) -> Finding | None:
    """Returns a warning if the first file tells no columns yet: it is empty, ends in its header, or cannot be read."""
    source, file, why = loaded.config.data.source, _first_file(loaded), "it has no whole line yet"
    if file is None:
        return None
    try:
        columns_of(file, source)
        content = look_at(file.path) if isinstance(source, CsvSource) else None
        if content is None or not content.whole or b"\n" in content.start:
            return None
    except UserError as error:
        why = str(error).removeprefix(f"{file.path}: ").rstrip(".")
    return warning(_PATH, f"{file.path} is still arriving, or is cut off: {why}. Its columns are not checked.")


def columns_present(loaded: Loaded) -> list[str] | None:
    """Returns the columns of the first file, the joined columns, and the lists of histories.

    None if finding them needs rows to be read, or the separator seems wrong.
    """
    source, file = loaded.config.data.source, _first_file(loaded)
    if file is None:
        return None
    try:
        columns = columns_of(file, source)
        tables = {name: columns_of_table(loaded, name) for name in loaded.config.data.joins}
    except UserError:
        return None
    if columns is None or None in tables.values() or _other_separator(source, columns) is not None:
        return None
    lists = [f"{name}.{column}" for name, of in loaded.config.data.history.items() for column in (AGE, *of.columns)]
    return [*columns, *(f"{name}.{column}" for name, of in tables.items() for column in of or ()), *lists]


def check_own_columns(loaded: Loaded) -> Iterator[Finding]:
    """The rows have no column with the name of one that a join or a history adds."""
    data, present = loaded.config.data, columns_present(loaded) or []
    for section, names in (("joins", data.joins), ("history", data.history)):
        for name in names:
            twice = [column for column in joined_columns(name, present) if present.count(column) > 1]
            if twice:
                yield Finding(
                    ("data", section, name),
                    f"adds {twice[0]}, but the rows have a column {twice[0]} of their own. Give it another name, or "
                    "remove it and read the column of the rows.",
                )


def columns_of_table(loaded: Loaded, name: str) -> list[str] | None:
    """Returns the columns of the newest file of a joined table that a command will read.

    None if they need rows to be read.

    Raises:
        UserError: There is no such file, or it is empty or has another format.
    """
    join = loaded.config.data.joins[name]
    unit = span_unit(loaded.config.data)
    tables = find_tables({name: join}, loaded.resolve, unit)[name]
    if unit is not None and tables.spans is not None and (last := _last_span(loaded, unit)) is not None:
        seen = tables.seen_by({last})
        tables = seen if seen.files else tables  # another check names a span that has no table
    whole = [file for file in tables.files if file.size or tables.spans is None]  # a span may have no rows
    file = (whole or tables.files)[-1 if tables.spans else 0]
    if isinstance(join.source, FileSource) and (other := contradiction(file.path, join.source)) is not None:
        raise UserError(f"data.joins.{name}.source.format: {join.source.format}, but {file.path} is {other}.")
    with of_join(name):
        return columns_of(file, join.source) if isinstance(join.source, FileSource) or file.size else None


def _last_span(loaded: Loaded, unit: Unit) -> int | None:
    """Returns the newest span that a command will read; None if the rows have to be read to find it."""
    with suppress(UserError):  # other checks, or the command, report it
        if loaded.config.data.span is None:
            return window_of(loaded, _without_column(loaded)).spans[-1].number
        last = (loaded.span or "").rpartition(":")[2]
        return parse_span(unit, last) if last not in ("", LATEST) else None
    return None


def _without_column(loaded: Loaded) -> DataConfig:
    """Returns the data section without joins, and without the span column, whose values no found file tells."""
    return loaded.config.data.model_copy(update={"span": None, "joins": {}})


def _first_file(loaded: Loaded) -> SourceFile | None:
    """Returns the first file to read; None if it is not found, or of another format, or a server's or a function's."""
    source = loaded.config.data.source
    try:
        file = next(iter(window_of(loaded, _without_column(loaded)).files), None)
    except UserError:
        return None
    if file is None or (not isinstance(source, FileSource) and not file.size) or list(_format_findings(source, file)):
        return None
    return file if loaded.reads_data else None


def _other_separator(source: Source, columns: list[str] | None) -> str | None:
    """Returns the likely separator of a CSV file that has only one column with the declared separator."""
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
    is_other = contradiction(file.path, source) if isinstance(source, FileSource) else None
    if is_other is not None:
        yield Finding(("data", "source", "format"), f"{source.format}, but {PurePath(file.path).name} is {is_other}.")


def _without_place(error: UserError) -> str:
    return str(error).removeprefix("data.source.path: ")
