import re

import pytest

from fullpass.base.errors import UserError
from fullpass.components.serving_log import columns
from tests import REPOSITORY


def test_the_logs_own_columns_share_a_beginning_that_no_raw_column_may_have():
    assert all(column.name.startswith("log_") for column in columns.COLUMNS)
    columns.refuse_own_names(["logs", "log", "fare", "LOG_id"])
    with pytest.raises(UserError, match=re.escape("cannot hold the columns log_fare of the model: names that begin")):
        columns.refuse_own_names(["fare", "log_fare"])


def test_the_page_lists_every_column_with_its_type():
    page = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    told = re.findall(r"(?m)^\| `(log_\w+)` \| (?:list of )?(\w+) \| (.*?) \|$", page)
    assert [one[:2] for one in told] == [(column.name, column.type) for column in columns.COLUMNS]
    assert all(text.startswith(column.meaning) for (_, _, text), column in zip(told, columns.COLUMNS, strict=True))
