"""Reads tables and query results of databases through SQLAlchemy, by ranges of a key."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.extras import load_package
from fullpass.components.ingest.readers.objects import array_of
from fullpass.components.ingest.readers.reader import BATCH_ROWS, WHOLE, FilePart, Reading, Rows, check_columns
from fullpass.components.ingest.sources.source_config import SqlSource
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.preprocessing.values.byte_batches import gather, object_bytes

_NULL_KEYS = "null keys"
_FETCHED_ROWS = 256
"""Number of rows that the database sends at a time. It is small because their size is not known in advance."""


class SqlReader:
    """See `Reader`. Rows are numbered in the order of the key; rows without a key come last.

    A part begins at a key and ends before another; None is open. Without a key column there is one part.
    """

    def __init__(self, file: SourceFile, source: SqlSource):
        self._sql = load_package("sqlalchemy", package="sqlalchemy", needed_by="format: sql")
        self._file = file
        self._source = source

    def columns(self) -> list[str]:
        """See base class."""
        with self._connection() as connection:
            result = connection.execute(self._sql.select("*").select_from(self._rows_of_query()).limit(0))
            return list(result.keys())

    def parts(self) -> list[FilePart]:
        """See base class. Ranges hold `rows_per_range` rows, by the rank of their first key."""
        if self._source.key is None:
            return [WHOLE]
        check_columns(self._name, [self._source.key], self.columns())
        with self._connection() as connection:
            firsts = connection.execute(self._first_keys()).all()
            nulls = connection.execute(self._count(self._key.is_(None))).scalar_one()
            present = connection.execute(self._count(self._key.is_not(None))).scalar_one()
        starts = dict.fromkeys((key, int(rank)) for key, rank in firsts)
        keys = [key for key, _ in starts]
        parts = [FilePart(k, end, rank) for (k, rank), end in zip(starts, [*keys[1:], None], strict=True)]
        return parts + ([FilePart(_NULL_KEYS, None, present + 1)] if nulls else []) or [WHOLE]

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        present = self.columns()
        check_columns(self._name, list(reading.columns), present)
        selected = list(dict.fromkeys([*reading.columns, *(present if reading.all_columns else ())]))
        first = reading.part.first_row
        with self._connection() as connection:
            result = connection.execution_options(stream_results=True, yield_per=_FETCHED_ROWS).execute(
                self._range(selected, reading.part)
            )
            for batch in gather(map(tuple, result), object_bytes, rows=BATCH_ROWS):
                all_columns = pa.table([array_of(values) for values in zip(*batch, strict=True)], names=selected)
                numbers = np.arange(first, first + len(batch), dtype=np.int64)
                yield Rows(
                    all_columns.select(list(reading.columns)), numbers, all_columns if reading.all_columns else None
                )
                first += len(batch)

    @property
    def _name(self) -> str:
        return f"data.source.query {self._file.path!r}"

    @property
    def _key(self) -> Any:
        return self._sql.column(self._source.key)

    def _rows_of_query(self) -> Any:
        """Returns the operand of FROM: the table, or the query in parentheses."""
        query = self._file.path.strip().rstrip(";")
        if any(character.isspace() for character in query):
            return self._sql.text(f"({query}) AS source_rows")
        schema, _, table = query.rpartition(".")
        return self._sql.table(table, schema=schema or None)

    def _first_keys(self) -> Any:
        sql, key = self._sql, self._key
        numbered = (
            sql.select(
                key.label("first_key"),
                sql.func.rank().over(order_by=key).label("key_rank"),
                sql.func.row_number().over(order_by=key).label("key_number"),
            )
            .select_from(self._rows_of_query())
            .where(key.is_not(None))
            .subquery()
        )
        starts = (numbered.c.key_number - 1) % self._source.rows_per_range == 0
        return sql.select(numbered.c.first_key, numbered.c.key_rank).where(starts).order_by(numbered.c.key_number)

    def _count(self, condition: Any) -> Any:
        return self._sql.select(self._sql.func.count()).select_from(self._rows_of_query()).where(condition)

    def _range(self, columns: list[str], part: FilePart) -> Any:
        query = self._sql.select(*[self._sql.column(name) for name in columns]).select_from(self._rows_of_query())
        if self._source.key is None:
            return query
        if part.begin == _NULL_KEYS:
            return query.where(self._key.is_(None))
        if part.begin is not None:
            query = query.where(self._key >= part.begin)
        if part.end is not None:
            query = query.where(self._key < part.end)
        return query.order_by(self._key)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        url = self._url()
        try:
            engine = self._sql.create_engine(url, poolclass=self._sql.pool.NullPool)
        except (self._sql.exc.NoSuchModuleError, ImportError) as error:
            raise UserError(f"data.source.url: {error}. Install its driver, or correct the address.") from error
        try:
            with engine.connect() as connection:
                if hasattr(connection.connection.dbapi_connection, "text_factory"):  # SQLite checks no encoding
                    connection.connection.dbapi_connection.text_factory = _text_or_bytes
                yield connection
        except self._sql.exc.SQLAlchemyError as error:
            raise UserError(f"{self._name}: {_reason(error)}. Database: {url.render_as_string()}.") from error
        finally:
            engine.dispose()

    def _url(self) -> Any:
        try:
            url = self._sql.engine.make_url(self._file.address)
        except self._sql.exc.ArgumentError as error:
            raise UserError(f"data.source.url: {error}. Write it as dialect://user@host/database.") from error
        variable = self._source.password_env
        if variable is None:
            return url
        password = os.environ.get(variable)
        if password is None:
            raise UserError(
                f"data.source.password_env: the environment variable {variable} is not set, so there is no password "
                f"for {url.render_as_string()}. Set it where the pipeline runs."
            )
        return url.set(password=password)


def _text_or_bytes(cell: bytes) -> str | bytes:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell


def _reason(error: Exception) -> str:
    """Returns the database's message, without the statement and SQLAlchemy's links."""
    return str(getattr(error, "orig", None) or error).split("\n")[0]
