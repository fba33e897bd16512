"""Finds the files of joined tables: one table for all rows, or one for each span of the source."""

from collections.abc import Mapping

from fullpass.base.errors import UserError
from fullpass.components.ingest.joins.config import Joins
from fullpass.components.ingest.joins.tables import Tables, of_join
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.sources.files import Resolve
from fullpass.components.ingest.spans.span_files import find_spans, names_spans, unit_of
from fullpass.components.ingest.spans.span_pattern import Unit, label_of, spans_before


def find_tables(joins: Joins, resolve: Resolve, unit: Unit | None) -> dict[str, Tables]:
    """Returns the files of every joined table by the name of its join.

    Args:
        unit: Length of a span of the rows; None if their source has no spans.

    Raises:
        UserError: Files are missing, or named twice, or the path has a span that the rows do not have.
    """
    found = {}
    for name, join in joins.items():
        with of_join(name):
            source = join.source
            if not isinstance(source, FileSource) or not names_spans(source):
                found[name] = Tables(find_inputs(source, resolve))
                continue
            _check_unit(unit_of(source), unit)
            if join.serve == "lookup":
                raise UserError(
                    "serve: lookup has one table for all rows, but data.source.path has a span. A model contains one "
                    "table, and would answer rows of other spans as they were not trained. Give one path, or write "
                    "`serve: given`."
                )
            _, spans = find_spans(source, resolve)
            files = [(span.number, file) for _, span in sorted(spans.items()) for file in span.files]
            before = spans_before(unit, join.as_of.oldest) if join.as_of else 0
            found[name] = Tables(tuple(file for _, file in files), tuple(number for number, _ in files), before)
    return found


def require_tables(tables: Mapping[str, Tables], unit: Unit | None, number: int) -> None:
    """Checks that every table per span has one of a span.

    Raises:
        UserError: A table is missing; it may not have arrived yet.
    """
    for name, of in tables.items():
        if of.spans is not None and number not in of.spans:
            raise UserError(
                f"data.joins.{name}.source.path: no table of span {label_of(unit or 'number', number)}, which "
                "data.source has. Wait for it; if that span has no rows of the table, write a file without rows."
            )


def _check_unit(own: Unit, unit: Unit | None) -> None:
    if own != unit:
        of_rows = "has no spans" if unit is None else f"has one per {unit}"
        raise UserError(
            f"data.source.path has a span per {own}, but the source of the rows {of_rows}. Give both the same fields, "
            "or the table one path for all rows, such as a glob."
        )
