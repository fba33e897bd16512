"""Joined rows of whole ingestions through Beam, read back by TensorFlow."""

from pathlib import Path

import pytest
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.ingest.component import IngestExecutor, counts_of
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.ingest.writing.manifest import read_manifest
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.row_keys import TABLES
from tests.components.ingest.ingesting import row_id
from tests.record_files import read_examples

pytestmark = pytest.mark.integration
COLUMNS = (
    RawColumn("plane", "string", token=True),
    RawColumn("planes.seats", "number"),
    RawColumn("planes.maker", "string"),
)


def ingest(folder, *, split, serve="lookup", beam_args=()):
    join = {"source": {"format": "csv", "path": "planes.csv"}, "on": {"plane": "tail"}, "serve": serve}
    config = IngestConfig.model_validate(
        {
            "source": {"format": "csv", "path": "flights*.csv"},
            "split": split,
            "records": {},
            "bad_rows": {},
            "joins": {"planes": join},
        }
    )

    def resolve(path):
        return str(folder / path)

    tables = find_tables(config.joins, resolve, None)
    window = Window(None, (Span(0, find_inputs(config.source, resolve)),), tables=tables)
    request = Request(config, ("train", "eval"), COLUMNS, gzip=False)
    request = request.with_window(window, ())
    artifact = standard_artifacts.Examples()
    artifact.uri = str(folder / f"examples{len(beam_args)}")
    executor = IngestExecutor(IngestExecutor.Context(beam_pipeline_args=list(beam_args), tmp_dir=str(folder)))
    executor.Do({}, {"examples": [artifact]}, {"request": request.to_json()})
    return artifact


def rows(artifact, split):
    found = {}
    for cells in read_examples(*Path(artifact.uri, f"Split-{split}").iterdir()):
        seats, maker = cells["planes.seats"].float_list.value, cells["planes.maker"].bytes_list.value
        plane = cells["plane"].bytes_list.value[0].decode()
        found[row_id(cells)] = (plane, *seats, *(text.decode() for text in maker))
    return found


@pytest.fixture
def flights(tmp_path):
    for number in (1, 2):
        lines = [f"N{(i * number) % 7}" for i in range(40)]
        (tmp_path / f"flights{number}.csv").write_text("plane\n" + "\n".join(lines) + "\n")
    planes = [f"N{i},{100 + i},M{i % 2}" for i in range(5)]
    (tmp_path / "planes.csv").write_text("tail,seats,maker\n" + "\n".join(planes) + "\n")
    return tmp_path


def expected_rows():
    """Returns row id -> cells of the flights of both files."""
    expected = {}
    for file in (0, 1):
        for i in range(40):
            plane = (i * (file + 1)) % 7
            cells = (f"N{plane}", 100.0 + plane, f"M{plane % 2}") if plane < 5 else (f"N{plane}",)
            expected[(file << 36) + i + 2] = cells
    return expected


def test_rows_are_joined_and_counted(flights):
    expected = expected_rows()
    artifact = ingest(flights, split={"method": "random"})
    assert rows(artifact, "train") | rows(artifact, "eval") == expected
    (count,) = read_manifest(artifact.uri).joins
    unmatched = sum(len(cells) == 1 for cells in expected.values())
    assert (count.name, count.table_rows, count.set_aside, count.unmatched) == ("planes", 5, 0, unmatched)
    assert counts_of(artifact).joins == (count,) and count.files == (str(flights / "planes.csv"),)
    assert [path.name for path in Path(artifact.uri, TABLES).iterdir()] == ["planes.arrow"]


def test_rows_can_be_split_by_a_joined_column(flights):
    makers = {"method": "column", "column": "planes.maker", "values": {"train": ["M0"], "eval": ["M1"]}}
    with pytest.raises(UserError, match="rows cannot be used"):
        ingest(flights, split=makers)  # rows without a match have no maker, and so no split


@pytest.mark.long
def test_several_processes_join_the_same_rows(flights):
    workers = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    artifact = ingest(flights, split={"method": "random"}, beam_args=workers)
    assert rows(artifact, "train") | rows(artifact, "eval") == expected_rows()


def test_a_join_without_any_match_fails(flights):
    (flights / "planes.csv").write_text("tail,seats,maker\nn1,1,M\n")
    with pytest.raises(UserError, match=r"data\.joins\.planes: none of the 80 rows has a match"):
        ingest(flights, split={"method": "random"})


def test_a_table_that_is_too_large_for_a_model_is_refused(flights):
    lines = "\n".join(f"N{i},1,M" for i in range(100_001))
    (flights / "planes.csv").write_text(f"tail,seats,maker\n{lines}\n")
    with pytest.raises(UserError, match=r"data\.joins\.planes: a model cannot .*more than 100,000 rows.*serve: given"):
        ingest(flights, split={"method": "random"})
