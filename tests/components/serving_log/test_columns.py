import re

import pytest

from fullpass.base.errors import UserError
from fullpass.components.serving_log import columns


def test_the_logs_own_columns_share_a_beginning_that_no_raw_column_may_have():
    assert all(column.name.startswith("log_") for column in columns.COLUMNS)
    columns.refuse_own_names(["logs", "log", "fare", "LOG_id"])
    with pytest.raises(UserError, match=re.escape("cannot hold the columns log_fare of the model: names that begin")):
        columns.refuse_own_names(["fare", "log_fare"])
