import itertools
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fullpass.components.ingest.readers import lines, rows
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.pipeline.authoring.profile import sample
from fullpass.pipeline.authoring.profile.sample import row_keys
from tests.pipeline.authoring.profile.csv_file import sample_of, write


def test_sample_is_text_as_ingest_reads_it(tmp_path):
    seen = sample_of(write(tmp_path / "a.csv", "a, b\n 1 ,x\n2\n3,\n"), tmp_path)
    assert {name: array.to_pylist() for name, array in seen.columns.items()} == {"a": ["1", "3"], "b": ["x", ""]}
    assert (seen.rows, seen.seen, seen.malformed, seen.whole) == (2, 2, 1, True)
    assert row_keys(seen, ["a", "b"]).to_pylist() == ["1\x1fx", "3\x1f"]


def test_types_of_parquet_become_text_lists_stay(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1.0, None]),
            "b": pa.array([True, False]),
            "v": pa.array([[1.0], [2.0]]),
            "s": pa.array([{"k": 1}, None]),
            "t": pa.array([0, 1], pa.timestamp("s")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    seen = sample_of(tmp_path / "a.parquet", tmp_path)
    assert seen.columns["n"].to_pylist() == ["1", None]
    assert seen.columns["b"].to_pylist() == ["true", "false"]
    assert seen.columns["t"].to_pylist() == ["1970-01-01T00:00:00", "1970-01-01T00:00:01"]
    assert seen.columns["v"].to_pylist() == [[1.0], [2.0]]
    assert seen.columns["s.k"].to_pylist() == ["1", None]
    assert list(seen.unreadable) == ["s"]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_a_wide_file_in_many_blocks_is_sampled_whole(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    rows = [[f"{row}.{column}" if (row + column) % 5 else "" for column in range(30)] for row in range(40)]
    names = [f"c{column}" for column in range(30)]
    data = write(tmp_path / "a.csv", "\n".join(",".join(cells) for cells in [names, *rows]))
    seen = sample_of(data, tmp_path)
    assert seen.has_all_seen and seen.columns is seen.seen_columns
    assert [array.to_pylist() for array in seen.columns.values()] == [
        list(column) for column in zip(*rows, strict=True)
    ]
    counts = seen.counts["c3"]
    assert [counts.texts[code] for code in counts.codes.tolist()] == [cells[3] for cells in rows]
    assert not sample_of(data, tmp_path, rows=10).has_all_seen


def test_a_column_whose_type_changes_between_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    monkeypatch.setattr(lines, "BATCH_ROWS", 2)
    cells = ["1", "2", '"x"', '"y"', "2.5", "null", "true", "false"]
    data = write(tmp_path / "a.jsonl", "".join(f'{{"a": {cell}, "b": 0}}\n' for cell in cells))
    assert sample_of(data, tmp_path).columns["a"].to_pylist() == ["1", "2", "x", "y", "2.5", None, "true", "false"]


def test_a_sample_of_fewer_rows_is_spread_over_the_file(tmp_path):
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{i},x\n" for i in range(10_000)))
    seen = sample_of(data, tmp_path, rows=100)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert (seen.rows, seen.seen) == (100, 10_000)
    assert numbers == sorted(numbers) and len(set(numbers)) == 100
    assert 3500 < sum(numbers) / 100 < 6500


@pytest.mark.integration
def test_a_large_file_is_read_in_pieces_from_all_over_it(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], sampled_bytes=1 << 16))
    data = write(tmp_path / "a.csv", "n,label\n" + "".join(f"{i:06d},{i // 50_000}\n" for i in range(100_000)))
    seen = sample_of(data, tmp_path)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert numbers[0] == 0 and numbers[-1] == 99_999
    assert len(set(numbers)) == len(numbers) < 10_000
    assert set(seen.columns["label"].to_pylist()) == {"0", "1"}
    assert not seen.whole and seen.evenly_spread and seen.malformed == 0


@pytest.mark.parametrize(("most", "pieces"), [(200, 16), (60, 6), (1, 2)])
def test_a_wide_file_is_read_in_fewer_pieces(tmp_path, monkeypatch, most, pieces):
    """Of ten columns each. A piece begins at a line that does not follow the line before it."""
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], sampled_bytes=1 << 14))
    monkeypatch.setattr(sample, "_MOST_ARRAYS", most)
    names = ",".join(["n", *"abcdefghi"])
    data = write(tmp_path / "a.csv", f"{names}\n" + "".join(f"{i}{',1' * 9}\n" for i in range(10_000)))
    numbers = [int(text) for text in sample_of(data, tmp_path).columns["n"].to_pylist()]
    assert sum(b != a + 1 for a, b in itertools.pairwise(numbers)) == pieces - 1
    assert (numbers[0], numbers[-1]) == (0, 9_999)


@pytest.mark.integration
def test_a_parquet_file_of_one_row_group_is_sampled_over_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_MOST_ROWS", 50_000)
    label = ["low"] * 150_000 + ["high"] * 150_000
    pq.write_table(pa.table({"n": range(300_000), "label": label}), tmp_path / "a.parquet", row_group_size=1 << 26)
    seen = sample_of(tmp_path / "a.parquet", tmp_path)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert 20_000 < len(numbers) <= 50_000 and numbers[0] == 0 and numbers[-1] > 250_000
    assert set(seen.columns["label"].to_pylist()) == {"low", "high"}
    assert (seen.whole, seen.evenly_spread, seen.total) == (False, True, 300_000)


def test_a_large_file_with_line_breaks_in_cells_is_read_from_its_start(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], sampled_bytes=1 << 16))
    data = write(tmp_path / "a.csv", "n,t\n" + "".join(f'{i},"x\ny"\n' for i in range(20_000)))
    seen = sample_of(data, tmp_path)
    assert set(seen.columns["t"].to_pylist()) == {"x\ny"}
    assert not seen.whole and not seen.evenly_spread


def test_the_rows_of_a_file_within_the_budget_are_all_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_MOST_ROWS", 40_000)
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{i},x\n" for i in range(100_000)))
    seen = sample_of(data, tmp_path, rows=100)
    numbers = [int(text) for text in seen.seen_columns["n"].to_pylist()]
    assert (seen.total, seen.of_rows, seen.whole) == (100_000, "100,000", False)
    assert seen.seen <= 40_000 and numbers[0] == 0 and numbers[-1] > 80_000


@pytest.mark.integration
def test_the_rows_of_a_larger_file_are_estimated_and_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], sampled_bytes=1 << 16))
    data = write(tmp_path / "a.csv", "n,label\n" + "".join(f"{i:06d},1\n" for i in range(100_000)))
    assert re.fullmatch(r"about (99,9\d\d|100,0\d\d)", sample_of(data, tmp_path).of_rows)
