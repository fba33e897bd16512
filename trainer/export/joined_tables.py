"""Joined tables inside an export: a request gives the key, and the graph looks up the columns (`serve: lookup`).

Ingest writes such a table beside its examples, and Transform copies it to the transform graph, from which the Trainer
exports it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import number_as_text
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.expressions.tensor_ops import token_tensor
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.row_keys import KEY, KEY_MARK, TABLES, is_key_text, text_rules
from fullpass.trainer.input.raw_tensors import DTYPES, missing_value, to_dense, to_sparse


def copy_tables(examples: str, transform_output: str) -> None:
    """Copies the tables of an Examples artifact to the folder of a transform graph."""
    for path in tf.io.gfile.glob(f"{examples}/{TABLES}/*.arrow"):
        tf.io.gfile.makedirs(f"{transform_output}/{TABLES}")
        tf.io.gfile.copy(path, f"{transform_output}/{TABLES}/{path.rpartition('/')[2]}", overwrite=True)


def read_tables(transform_output: str, config: PreprocessingConfig) -> "list[JoinedTable]":
    """Returns the tables that an export of a configuration contains, in the order of the YAML."""
    tables, known = [], raw_columns(config)
    for name, keys in config.lookups.items():
        table = read_table(f"{transform_output}/{TABLES}/{name}.arrow")
        tables.append(JoinedTable(name, [known[key] for key in keys], table, known, config.decimal))
    return tables


def read_table(path: str) -> pa.Table:
    """Returns the keys and columns of a table, as Ingest wrote them."""
    with tf.io.gfile.GFile(path, "rb") as file:
        return pa.ipc.open_file(pa.BufferReader(file.read())).read_all()


class JoinedTable(tf.Module):
    """The rows of a joined table, found by key."""

    def __init__(
        self,
        name: str,
        keys: Sequence[RawColumn],
        table: pa.Table,
        columns: Mapping[str, RawColumn],
        decimal: str = ".",
    ):
        """Constructs the hash table.

        Args:
            keys: Key columns of a request.
            table: `KEY` and the columns, of which `columns` describes those that exist in the graph.
            decimal: Decimal sign of numbers in the texts of a request.
        """
        super().__init__(name=name)
        self._keys, self._decimal, self._count = list(keys), decimal, table.num_rows
        self._digest = hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()[:16]
        self._columns = {column: columns[column] for column in table.column_names if column in columns}
        rows = tf.lookup.KeyValueTensorInitializer(
            tf.constant(table.column(KEY).to_pylist(), tf.string), tf.range(table.num_rows, dtype=tf.int64)
        )
        self._rows = tf.lookup.StaticHashTable(rows, default_value=table.num_rows)
        # The last value is that of an unknown key.
        self._values: dict[str, tf.Tensor] = {}
        for name, column in self._columns.items():
            array = table.column(name).combine_chunks()
            if is_key_text(array, column):
                self._values[_key(name)] = _values(array, RawColumn(name, "string"))
                array = convert_raw(array, column, text_rules(table.schema)).flat
            self._values[name] = _values(array, column)

    def described(self) -> dict[str, Any]:
        """Returns keys, columns, number of rows and digest of the content as JSON, for `fullpass.json`."""
        keys, columns = ([asdict(column) for column in of] for of in (self._keys, self._columns.values()))
        return {"keys": keys, "columns": columns, "rows": self._count, "digest": self._digest}

    def look_up(self, raw: Mapping[str, tf.SparseTensor], batch: tf.Tensor) -> dict[str, tf.SparseTensor]:
        """Returns the columns of the table for the keys of some rows, and numbers that are keys as text, too.

        Args:
            raw: Raw columns as parsed from examples, and those of tables above this one; an absent key column is
                missing in every row.
            batch: Number of rows, int64 [].
        """
        keys = [_tokens(raw, column, self._decimal) for column in self._keys if column.name in raw]
        if len(keys) < len(self._keys):
            return {}
        complete = tf.reduce_all(tf.stack([tf.not_equal(key, "") for key in keys]), axis=0)
        found = self._rows.lookup(tf.where(complete, tf.strings.join(keys, KEY_MARK), ""))
        rows = tf.where(complete, found, self._rows.default_value)
        return to_sparse({column: tf.gather(values, rows) for column, values in self._values.items()}, batch)


def _values(cells: pa.Array, column: RawColumn) -> tf.Tensor:
    """Returns the values of all rows, and a missing one."""
    missing = missing_value(column).numpy()
    values = np.array([missing if cell is None else cell for cell in cells.to_pylist()] + [missing], object)
    return tf.constant(values if column.type == "string" else values.astype(np.float32), DTYPES[column.type])


def _key(column: str) -> str:
    """Returns the name of the text of a number by which another table finds rows."""
    return f"{column}{KEY_MARK}"


def _tokens(raw: Mapping[str, tf.SparseTensor], column: RawColumn, decimal: str) -> tf.Tensor:
    """Returns a key column as tokens, string [rows], "" for missing."""
    if _key(column.name) in raw:
        column = RawColumn(_key(column.name), "string")
    dense = to_dense(raw[column.name], column)
    return token_tensor(dense, decimal) if column.type == "string" else number_as_text(dense).values
