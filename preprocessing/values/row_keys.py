"""What Ingest, the Trainer and the served graph agree on about joined tables, which a model may contain."""

import pyarrow as pa

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import is_binary
from fullpass.preprocessing.values.raw_text import RawText

TABLES = "joined_tables"
"""Folder of a file JOIN.arrow per table, beside examples and in the transform graph: its keys and its columns."""
KEY = "key"
"""Column of the keys."""
KEY_MARK = "\x1f"
"""Character between the tokens of a key of several columns."""
_TEXT_RULES = b"text_rules"


def is_key_text(cells: pa.Array, column: RawColumn) -> bool:
    """Returns whether the cells of a number are text still, because another join finds rows by their spelling."""
    return column.type == "number" and is_binary(cells.type)


def with_text_rules(schema: pa.Schema, text: RawText) -> pa.Schema:
    """Returns the schema of a table with the rules by which its text is read as values."""
    return schema.with_metadata({_TEXT_RULES: text.model_dump_json()})


def text_rules(schema: pa.Schema) -> RawText:
    """Returns the rules that `with_text_rules` added to a schema; the default ones if there are none."""
    return RawText.model_validate_json((schema.metadata or {}).get(_TEXT_RULES, b"{}"))
