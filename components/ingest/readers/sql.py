"""Reads tables and query results of databases through SQLAlchemy, by ranges of a key."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.objects import array_of
from fullpass.components.ingest.readers.readable import check_columns, load_package
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import WHOLE, FilePart, Reading, Rows, numbered_batches, select_rows
from fullpass.components.ingest.sources.config import SqlSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, inputs_by_split, nearby, unknown_version
from fullpass.components.ingest.sources.storage import version_of
from fullpass.preprocessing.values.byte_batches import object_bytes

_NULL_KEYS = "null keys"
_RELATIVE_DATABASE = re.compile(r"((?:sqlite|duckdb)(?:\+\w+)?:///)((?![/:]).+)")
_DATABASE_FILE = re.compile(r"(?:sqlite|duckdb)(?:\+\w+)?:///(/[^?]+)")
_VARYING = re.compile(
    r"\b(now|today|random|rand|uuid|gen_random_uuid|current_\w+|localtime\w*|getenv)\b", re.IGNORECASE
)
"""Functions whose results change though the database does not."""
_OWN_TABLE = re.compile(r"^\s*(SEQ_SCAN|TABLE_SCAN|INDEX_SCAN|DUMMY_SCAN|EMPTY_RESULT|CTE_SCAN|DELIM_SCAN)\s*$")
"""Operators of DuckDB's plans that read nothing outside the database."""
_FETCHED_ROWS = 256
"""Number of rows that the database sends at a time. It is small because their size is not known in advance."""


class SqlReader(Reader[SqlSource]):
    """Rows are numbered in the order of the key; rows without a key come last.

    A part begins at a key and ends before another; None is open. Without a key column there is one part.
    """

    def __init__(self, file: SourceFile, source: SqlSource):
        super().__init__(file, source)
        self._sql = load_package("sqlalchemy", package="sqlalchemy", needed_by="format: sql")

    @classmethod
    def inputs(cls, source: SqlSource, resolve: Resolve) -> list[SourceFile]:
        """Returns the queries. The version of a query of a local database changes with the database."""
        relative = _RELATIVE_DATABASE.fullmatch(source.url)
        url = f"{relative[1]}{resolve(relative[2])}" if relative else source.url
        local = _DATABASE_FILE.match(url)
        if local and not Path(local[1]).is_file():
            raise UserError(
                f"data.source.url: no file {local[1]}.{nearby(local[1])} The database file must already exist."
            )
        size = Path(local[1]).stat().st_size if local else 0
        files = []
        for split, query in inputs_by_split(source.query):
            varies = _VARYING.search(query) or (local and url.startswith("duckdb") and reads_files(local[1], query))
            version = _file_version(Path(local[1])) if local and not varies else unknown_version()
            files.append(SourceFile(query, split, size, version, url))
        return files

    def columns(self) -> list[str]:
        with self._connection() as connection:
            result = connection.execute(self._sql.select("*").select_from(self._rows_of_query()).limit(0))
            return list(result.keys())

    def parts(self) -> list[FilePart]:
        """Ranges hold `rows_per_range` rows, by the rank of their first key."""
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
        present = self.columns()
        check_columns(self._name, list(reading.columns), present)
        selected = list(dict.fromkeys([*reading.columns, *(present if reading.all_columns else ())]))
        with self._connection() as connection:
            result = connection.execution_options(stream_results=True, yield_per=_FETCHED_ROWS).execute(
                self._range(selected, reading.part)
            )
            for batch, numbers in numbered_batches(map(tuple, result), object_bytes, reading.part.first_row):
                table = pa.table([array_of(values) for values in zip(*batch, strict=True)], names=selected)
                yield select_rows(table, numbers, reading)

    @property
    def _name(self) -> str:
        return f"data.source.query {self._path!r}"

    @property
    def _key(self) -> Any:
        return self._sql.column(self._source.key)

    def _rows_of_query(self) -> Any:
        """Returns the operand of FROM: the table, or the query in parentheses."""
        query = self._path.strip().rstrip(";")
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


def reads_files(database: str, query: str) -> bool:
    """Returns whether a query of a DuckDB database may read more than the tables in it, such as files through a view.

    DuckDB plans the query. The answer is True, too, if it cannot, because another process writes to the database.
    """
    from_ = f"({query.strip().rstrip(';')}) AS source_rows" if re.search(r"\s", query.strip()) else query
    try:
        import duckdb

        with duckdb.connect(database, read_only=True) as connection:
            [(_, plan)] = connection.execute(f"EXPLAIN (FORMAT json) SELECT * FROM {from_}").fetchall()
    except Exception:  # errors of any kind are reported when the rows are read
        return True
    return any(not _OWN_TABLE.search(name) for name in _leaves(json.loads(plan)))


def _leaves(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        if node["children"]:
            yield from _leaves(node["children"])
        else:
            yield node["name"]


def _file_version(path: Path) -> str:
    """Returns the versions of a database and of its write-ahead log (SQLite and DuckDB), which is beside the file that
    a link leads to."""
    path = path.resolve()
    logs = [path.with_name(path.name + ending) for ending in ("-wal", ".wal")]
    return " ".join(f"{p.stat().st_size} {version_of(p, p.stat())}" for p in (path, *logs) if p.exists())
