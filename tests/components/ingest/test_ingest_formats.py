"""A new data format is a model, a reader and a row: nothing else of the source is touched."""

import pytest

from fullpass.components.ingest.sources.formats import FORMATS
from tests.changed_source import answers_of, copy_source
from tests.components.ingest.row_files import SAMPLES, SERVICES, WRITTEN, sample_of

MODEL = '''

class FixedSource(FileSource):
    """Text in columns of fixed width."""

    endings = (".fixed",)
    described_by = ("widths",)

    format: Literal["fixed"]
    widths: tuple[Count, ...] = (4, 4)
    """Width of each column, in characters."""
'''
READER = '''"""Reads text in columns of fixed width."""

from fullpass.components.ingest.readers.lines import parsed_lines
from fullpass.components.ingest.readers.objects import rows_from_dicts
from fullpass.components.ingest.readers.readable import check_columns, readable
from fullpass.components.ingest.readers.reader import Reader


class FixedReader(Reader):
    """Rows are numbered by line."""

    def columns(self):
        return [f"c{i}" for i in range(len(self._source.widths))]

    def rows(self, reading):
        check_columns(self._path, list(reading.columns), self.columns())
        with readable(self._path, reading):
            for rows, numbers in parsed_lines(self._path, reading, "utf-8", self._cells):
                yield rows_from_dicts(rows, numbers, reading)

    def _cells(self, number, line):
        cells, begin = {}, 0
        if line.startswith(b"\\x7f"):
            return None
        for name, width in zip(self.columns(), self._source.widths, strict=True):
            cells[name] = line[begin : begin + width].decode().strip()
            begin += width
        return cells
'''
ROW = 'Format(config.FixedSource, "fixed.FixedReader", starts=b"\\x7fFIXED", proposed_as="fixed width"),'
YAML = """
name: fixed
data:
  source: {format: FORMAT, path: rows.fixed}
label: {name: c1, task: regression}
features:
  c0: number
"""
PROGRAM = """
import json
from pathlib import Path

from fullpass.components.ingest.readers.read_source import find_inputs, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.predict.input_source import input_source
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.profile.source_profile import profile_source
from fullpass.pipeline.reference.reference import config_page
from fullpass.preprocessing.columns.raw_columns import RawColumn

loaded = load(Path("good.yaml"))
source = loaded.config.data.source
file, = find_inputs(source, loaded.resolve)
page = config_page()
profile = profile_source("rows.fixed", Path("."), rows=100)
trained = source.description()
print(json.dumps({
    "rows": [row for rows in read_rows(Reading(file, {"c0": RawColumn("c0", "number")}), source)
             for row in rows.table.to_pylist()],
    "problems": [problem.message for problem in check(loaded)],
    "of csv": [problem.message for problem in check(load(Path("other.yaml")))],
    "sampled": check_data(loaded, rows=100).rows,
    "schema": "FixedSource" in json_schema()["$defs"],
    "page": "| `fixed` | Text in columns of fixed width. `widths`: list of integer" in page,
    "init": profile.found.settings["format"],
    "predict": input_source(trained, "rows.fixed", {}).source.format,
}))
"""


def add_format(source) -> list[str]:
    """Adds a format to a copy of the source, and returns the files that it touches."""
    ingest = source / "components" / "ingest"
    model, reader, table = ingest / "sources/config.py", ingest / "readers/fixed.py", ingest / "sources/formats.py"
    model.write_text(model.read_text() + MODEL)
    reader.write_text(READER)
    table.write_text(table.read_text().replace("_ROWS = (\n", f"_ROWS = (\n    {ROW}\n"))
    return [str(path) for path in (model, reader, table)]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the product says of data in a format that is added to a copy of its source."""
    folder = tmp_path_factory.mktemp("added")
    touched = add_format(copy_source(folder))
    (folder / "rows.fixed").write_text("\x7fFIXED\n" + "".join(f"{i:<4}{2 * i:<4}\n" for i in range(50)))
    for name, written in (("good", "fixed"), ("other", "csv")):
        (folder / f"{name}.yaml").write_text(YAML.replace("FORMAT", written))
    return {"touched": touched, **answers_of(PROGRAM, folder)}


@pytest.mark.integration
def test_a_format_is_added_in_three_places(told):
    assert len(told["touched"]) == 3
    assert told["rows"] == [{"c0": str(i)} for i in range(50)]


@pytest.mark.integration
def test_an_added_format_is_in_the_schema_and_the_reference_page(told):
    assert told["schema"] and told["page"]


def test_an_added_format_is_checked_and_sampled(told):
    assert told["problems"] == [] and told["sampled"] == 50


def test_an_added_format_is_told_by_its_content(told):
    assert "csv, but rows.fixed is fixed." in told["of csv"]
    assert told["init"] == told["predict"] == "fixed"


@pytest.mark.parametrize("name", WRITTEN)
def test_each_format_is_written_by_the_tests(name):
    assert sample_of(name)


def test_a_format_that_no_test_writes_fails_with_what_to_add():
    with pytest.raises(AssertionError, match="'fixed'. Add a row 'fixed' to SAMPLES in .*row_files.py: a function"):
        sample_of("fixed")


def test_the_tests_write_no_format_that_is_gone():
    assert SAMPLES.keys() | SERVICES == FORMATS.keys()


@pytest.mark.parametrize("row", FORMATS.values(), ids=FORMATS)
def test_each_format_names_a_reader(row):
    assert row.load_reader().__module__.startswith("fullpass.components.ingest.readers.")
