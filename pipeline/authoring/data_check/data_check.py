"""`fullpass check FILE --data`: checks the file against a sample of its data, in seconds and without TensorFlow."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO

import numpy as np
import pyarrow as pa
from rich.table import Table

from fullpass.base.errors import did_you_mean, listed
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.joins.config import is_joined
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file
from fullpass.components.ingest.readers.readable import EmptyFileError
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source
from fullpass.components.ingest.spans.span_column import span_numbers
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.ingest.splitting.assign import raw_split_columns, reads_whole_rows
from fullpass.pipeline.authoring.data_check import column_findings, label_findings, row_findings
from fullpass.pipeline.authoring.data_check.row_findings import SOURCE_PATH
from fullpass.pipeline.authoring.data_check.sampled_data import (
    SampledData,
    first_reader,
    sampled_data,
    with_joined_columns,
)
from fullpass.pipeline.authoring.defaults import SAMPLE_ROWS
from fullpass.pipeline.authoring.derived_columns import known_raw_columns
from fullpass.pipeline.authoring.loading.load import Finding, Loaded
from fullpass.pipeline.authoring.loading.problems import Problem, in_file_order
from fullpass.pipeline.authoring.profile.column_profile import counted, shown
from fullpass.pipeline.authoring.profile.sample import Sample, read_sample
from fullpass.pipeline.printing import console
from fullpass.preprocessing.features.history import history_of

_MOST_FILES = 100
"""Files whose columns are compared: their names are read one by one."""
_WIDTH = 120
"""Characters of a line of the table."""

Check = Callable[[SampledData], Iterator[Finding]]

CHECKS: tuple[Check, ...] = tuple(
    rule
    for subject in (column_findings, row_findings, label_findings)
    for name, rule in vars(subject).items()
    if name.startswith("check_")
)
"""Every function `check_*` of the modules."""


@dataclass(frozen=True)
class DataReport:
    """The findings of a data check, in file order.

    Attributes:
        sampled: The rows that were looked at; None if there are none.
    """

    problems: tuple[Problem, ...]
    sampled: SampledData | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """The number of rows that were looked at."""
        return self.sampled.sample.rows if self.sampled else 0

    @property
    def of_rows(self) -> str:
        """The number of rows from which they are, for people."""
        return self.sampled.sample.of_rows if self.sampled else "0"

    @property
    def has_errors(self) -> bool:
        """Whether a run would fail, or train on nothing."""
        return any(problem.severity == "error" for problem in self.problems)


def check_data(loaded: Loaded, *, rows: int = SAMPLE_ROWS, every_column: bool = False) -> DataReport:
    """Returns the errors and warnings of a sample of the data, in file order.

    Example:
        >>> report = check_data(load("examples/taxi/pipeline.yaml"))
        >>> report.has_errors
        False

    Args:
        loaded: A file that passes `checks.require`.
        every_column: As in `sample_data`.

    Raises:
        UserError: The data cannot be read at all.
    """
    use_modules_of(loaded.folder)
    sampled, findings = sample_data(loaded, rows=rows, every_column=every_column)
    problems = _problems(loaded, findings)
    return DataReport(in_file_order([*problems, *_checked(sampled)]) if sampled else problems, sampled)


def sample_data(loaded: Loaded, *, rows: int, every_column: bool = False) -> tuple[SampledData | None, list[Finding]]:
    """Returns sampled rows as the file reads them, None without any; and what is wrong with the source as a whole.

    Args:
        every_column: Whether to read the columns that the file does not read, too.

    Raises:
        UserError: The data cannot be read at all.
    """
    source = loaded.config.data.source
    window = find_window(loaded.config.data, loaded.resolve, loaded.span)
    once = {(file.path, file.split): file for file in window.files}  # with spans of a column, a file is in many
    files = tuple(file for file in once.values() if window.unit is None or not _is_empty(file, source))
    if not files:
        return None, [Finding(SOURCE_PATH, "no row in any span of the window; the files are empty.")]
    if loaded.config.data.span is None and any(tables.spans is not None for tables in window.tables.values()):
        # One span, since a row of a sample does not tell its span.
        newest = next(span for span in reversed(window.spans) if not {*span.files}.isdisjoint(files))
        window, files = replace(window, spans=(newest,)), tuple(file for file in files if file in newest.files)
    needed = _needed(loaded)
    joined = [name for name in needed if is_joined(name, loaded.config.data.joins)]
    needed = [name for name in needed if name not in joined]
    absent = dict(_absent(loaded, files, needed))
    present, findings = [name for name in needed if name not in absent], list(absent.values())
    if not present:
        return None, findings
    declared = known_raw_columns(loaded.config)
    images = [name for name, column in declared.items() if column.image]
    by_content = reads_whole_rows(loaded.config.data.split) and not source.given_splits and not absent
    more = _columns_of_rows(loaded, files) if by_content or every_column else []
    names = list(dict.fromkeys([*present, *more]))
    sample = read_sample(files, source, names, rows=rows, images=images, declared=declared)
    if (by := loaded.config.data.span) is not None and by.column in sample.seen_columns:
        spans = span_numbers(pa.table({by.column: sample.seen_columns[by.column]}), by)
        sample = sample.where(np.isin(spans, [span.number for span in window.spans]), rows)
    if not sample.rows:
        return None, [*findings, Finding(SOURCE_PATH, _why_no_row(sample))]
    if not absent:
        sample, of_joins = with_joined_columns(loaded, sample, joined, window)
        findings += of_joins
    return sampled_data(loaded, sample), findings


def check_sample(loaded: Loaded, sample: Sample, *, leaks: bool = True) -> tuple[Problem, ...]:
    """Returns the errors and warnings of a sample that holds at least one row, in file order."""
    return _checked(sampled_data(loaded, sample), leaks=leaks)


def _checked(sampled: SampledData, *, leaks: bool = True) -> tuple[Problem, ...]:
    checks = CHECKS if leaks else [check for check in CHECKS if check is not label_findings.check_leaks]
    return _problems(sampled.loaded, [finding for check in checks for finding in check(sampled)])


def _is_empty(file: SourceFile, source: Source) -> bool:
    if not isinstance(source, CsvSource):
        return False
    try:
        columns_of(file, source)
    except EmptyFileError:
        return True
    return False


def _why_no_row(sample: Sample) -> str:
    if not sample.bad:
        return "no row that can be read; only a header line, or nothing."
    first = sample.bad[0]
    return f"no row that can be read. The first, row {first.row} of {first.file}: {first.reason}: {shown(first.text)}."


def _problems(loaded: Loaded, findings: Sequence[Finding]) -> tuple[Problem, ...]:
    return in_file_order(finding.problem(loaded) for finding in findings)


def _needed(loaded: Loaded) -> list[str]:
    histories, label = loaded.config.data.history, loaded.config.label
    known = [name for name in known_raw_columns(loaded.config) if name not in label.added]
    names = [name for name in known if history_of(name, histories) is None]
    if label.shifted is not None:
        names += [name for name in (label.name, *label.shifted.keys, label.shifted.at)]
    of_events = [name for history in histories.values() for name in (*history.keys, history.at, *history.columns)]
    names = [name for name in (*names, *of_events) if name not in loaded.config.data.derive]
    if not loaded.config.data.source.given_splits:
        names += raw_split_columns(loaded.config.data.split)
    names += [name for join in loaded.config.data.joins.values() for name in join.left_columns]
    if loaded.config.data.span is not None:
        names.append(loaded.config.data.span.column)
    return list(dict.fromkeys(names))


def _columns_of_rows(loaded: Loaded, files: Sequence[SourceFile]) -> list[str]:
    """Returns the columns that every file has once: a split by content depends on all of them, whether read or not."""
    source = loaded.config.data.source
    if len(files) > _MOST_FILES:
        return []
    columns = [columns_of(file, source) or [] for file in files if file.size]
    return [name for name in (columns[0] if columns else []) if name and all(of.count(name) == 1 for of in columns)]


def _absent(loaded: Loaded, files: Sequence[SourceFile], needed: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    """Yields each needed column that a file lacks, with a finding at the first key that reads it.

    A file of a format whose rows alone have columns may lack one that others have.
    """
    source = loaded.config.data.source
    known: dict[str, tuple[list[str], str]] = {}
    of_rows: dict[str, None] = {}
    for file in files[:_MOST_FILES]:
        columns = columns_of_file(file, source)
        if columns is not None and columns_of(file, source) is None:
            of_rows |= dict.fromkeys(columns)
            continue
        for name in needed:
            if columns is not None and name not in columns:
                known.setdefault(name, (columns, file.path))
    known |= {name: (list(of_rows), files[0].path) for name in needed if of_rows and name not in of_rows}
    for name, (columns, path) in known.items():
        where = f"{path} has no column {name!r}" if len(files) > 1 else f"no column {name!r} in the data"
        message = f"{where}.{did_you_mean(name, columns)} Columns: {listed(columns)}."
        yield name, Finding(first_reader(loaded, name), message)


def findings_table(report: DataReport) -> str:
    """Returns the findings as a table: severity, line, path, message."""
    if not report.problems:
        return f"{report.rows:,} of {report.of_rows} rows looked at: nothing to report."
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold", max_width=36)
    table.add_column("what", overflow="fold")
    for problem in report.problems:
        table.add_row(problem.severity, str(problem.line or ""), problem.path, problem.message)
    text = StringIO()
    console(text, width=_WIDTH, highlight=False).print(table)
    errors = sum(problem.severity == "error" for problem in report.problems)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    counts = f"{counted(errors, 'error')}, {counted(len(report.problems) - errors, 'warning')}"
    return "\n".join([*lines, f"{report.rows:,} of {report.of_rows} rows looked at: {counts}."])
