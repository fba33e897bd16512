import pyarrow as pa
import pytest

from fullpass.preprocessing.values.arrow_text import joined_rows


@pytest.mark.parametrize("columns", [1, 2, 63, 64, 65, 200, 5000])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_rows_of_any_number_of_columns_are_joined(columns, kind):
    cells = [[None if (row + column) % 3 == 0 else f"é{column}" for row in range(4)] for column in range(columns)]
    found = joined_rows([pa.array(column, pa.string()).cast(kind) for column in cells], "|", null="-")
    rows = zip(*cells, strict=True)
    assert found.cast(pa.string()).to_pylist() == ["|".join("-" if c is None else c for c in row) for row in rows]


def test_scalars_stand_in_every_row():
    fields = [pa.scalar(b"a="), pa.array([b"1", None], pa.binary()), pa.scalar(b";b="), pa.array([b"", b"\xff"])]
    assert joined_rows(fields, "", null="").to_pylist() == [b"a=1;b=", b"a=;b=\xff"]
