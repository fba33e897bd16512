"""A pipeline that reads a table instead of its source."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.show_config import with_table


def test_only_the_source_differs_and_no_file_stays(edited, tmp_path):
    """The YAML's own file of rows is gone, so that it cannot be what is read."""
    table = tmp_path / "elsewhere" / "t.parquet"
    table.parent.mkdir()
    pq.write_table(pa.table({"fare": [1.0], "company": ["a"], "started": ["2024-01-01"], "tips": [1.0]}), table)
    written = load(edited())
    (written.folder / "trips.csv").unlink()
    before = sorted(written.folder.iterdir())
    with with_table(written, table) as changed:
        read = load_checked(changed.file)
        assert read.config == changed.config and changed.folder == written.folder
        source = read.config.data.source
        assert (source.format, source.path, source.missing) == (
            "parquet", str(table), written.config.data.source.missing
        )  # fmt: skip
        assert read.config.model_copy(update={"data": None}) == written.config.model_copy(update={"data": None})
        assert read.config.data.split == written.config.data.split
    assert sorted(written.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("path", "why"),
    [("{train: trips.csv, eval: trips.csv}", "a source per split"), ('"{YYYY}-{MM}-{DD}.csv"', "spans")],
)
def test_data_that_one_table_cannot_replace_is_refused(tmp_path, path, why):
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: t\ndata:\n  source: {{format: csv, path: {path}}}\nlabel: {{name: a, task: binary}}\n"
        "features: {b: number}\n"
    )
    with pytest.raises(UserError, match=f"its data has {why}, and a table has not"), with_table(load(file), tmp_path):
        pass
