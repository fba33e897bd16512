"""Finds the files of joined tables."""

from collections.abc import Iterator
from contextlib import contextmanager

from fullpass.base.errors import UserError
from fullpass.components.ingest.joins.config import Joins
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.files import Resolve, SourceFile


def find_tables(joins: Joins, resolve: Resolve) -> dict[str, tuple[SourceFile, ...]]:
    """Returns the files of every joined table by the name of its join.

    Raises:
        UserError: Files are missing, or named twice.
    """
    found = {}
    for name, join in joins.items():
        with of_join(name):
            found[name] = find_inputs(join.source, resolve)
    return found


@contextmanager
def of_join(name: str) -> Iterator[None]:
    """Names the join in the errors of a block: `data.source` becomes `data.joins.NAME.source`."""
    try:
        yield
    except UserError as error:
        path = f"data.joins.{name}"
        text = str(error).replace("data.source", f"{path}.source")
        raise UserError(text if text.startswith(path) else f"{path}: {text}") from error
