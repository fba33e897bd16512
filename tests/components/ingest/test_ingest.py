"""Whole ingestions through Beam, read back by TensorFlow."""

import shutil

import numpy as np
import pytest
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.ingest.component import SpansOfWindow
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.ingest import finish_ingestion, ingest_files
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.readers import lines
from fullpass.components.ingest.sources.files import find_files, resolve_path
from fullpass.components.ingest.writing import record_writer, shards
from fullpass.components.ingest.writing.manifest import COUNTS, RowCounts, read_manifest
from fullpass.preprocessing.columns.raw_columns import ROW_BITS, RawColumn
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from tests.components.ingest import ingesting
from tests.components.ingest.ingesting import HASH, RANDOM, RATIOS, quarantined, row_id
from tests.components.ingest.reading_tools import inputs
from tests.components.ingest.row_files import OF_COLUMNS, write_rows

pytestmark = pytest.mark.integration
COLUMNS = (RawColumn("fare", "number"), RawColumn("zone", "string"))


def ingest(folder, path, columns=COLUMNS, **options):
    return ingesting.ingest(folder, {"format": "csv", "path": path}, columns, **options)


def examples(folder, split):
    """Returns (row id, fare, zone) of each row."""
    rows = []
    for feature in ingesting.examples(folder, split):
        fare, zone = (
            next(iter(values), None) for values in (feature["fare"].float_list.value, feature["zone"].bytes_list.value)
        )
        rows.append((row_id(feature), fare, zone and zone.decode()))
    return rows


def test_every_row_is_in_one_split_or_in_quarantine(tmp_path):
    rows = [f"{i},z{i % 3}" for i in range(100)]
    rows[10], rows[20], rows[30], rows[40] = "1,2,3", "free,z1", "NA,z2", "5,"
    (tmp_path / "a.csv").write_text("fare,zone\n" + "\n".join(rows) + "\n")
    manifest = ingest(tmp_path, "a.csv", bad_rows=1.0)

    found = sorted(examples(tmp_path, "train") + examples(tmp_path, "eval"))
    expected = [(i + 2, float(i), f"z{i % 3}") for i in range(100) if i not in (10, 20, 30, 40)]
    assert found == sorted([*expected, (32, None, "z2"), (42, 5.0, None)])
    assert manifest.read == 100 and sum(manifest.written.values()) == 98
    assert manifest.quarantined == {"3 cells, expected 2": 1, "not a number": 1}
    kept = quarantined(tmp_path)
    assert [(row["row"], row["column"], row["text"]) for row in kept] == [(12, None, "1,2,3"), (22, "fare", "free")]
    assert read_manifest(str(tmp_path / "examples")) == manifest


def test_rows_whose_key_is_missing_in_the_file_are_spread(tmp_path):
    """They were all in one split: an empty cell and NA are texts until the columns are converted."""
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},{('', 'NA', 'z')[i % 3]}\n" for i in range(300)))
    ingest(tmp_path, "a.csv", split={"method": "hash", "column": "zone"})
    zones = [zone for _, _, zone in examples(tmp_path, "eval")]
    assert zones.count("z") in (0, 100) and 20 < zones.count(None) < 60


def test_lists_in_quarantine_and_lists_that_no_row_has(tmp_path):
    lines = ['{"a": ["x", "y"], "w": [1, 2]}', '{"a": ["x"], "w": [1, 2]}', "{}", '{"a": [["x", "y"]], "w": [1]}']
    lines += ['{"a": ["x"], "w": ["one"]}', *['{"a": ["z", null], "w": [null, 3]}'] * 20]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    columns = (
        RawColumn("a", "string", many=True, group="features.a"),
        RawColumn("w", "number", many=True, group="features.a"),
    )
    source = {"format": "jsonl", "path": "a.jsonl"}
    manifest = ingesting.ingest(tmp_path, source, columns, bad_rows=1.0)
    assert (manifest.read, sum(manifest.written.values())) == (25, 22)
    assert manifest.quarantined == {
        "another length than the other lists of features.a": 1, "a list of lists": 1, "in a list: not a number": 1
    }  # fmt: skip
    kept = quarantined(tmp_path)
    assert {row["row"]: row["text"] for row in kept}[2] == "a 1, w 2"
    with pytest.raises(UserError, match="no row of .*a.jsonl has a list 'ww'"):
        ingesting.ingest(tmp_path, source, (*columns[:1], RawColumn("ww", "number", many=True)), bad_rows=1.0)
    with pytest.raises(UserError, match="no row of .*a.jsonl has a column 'ww'.*Did you mean"):
        ingesting.ingest(tmp_path, source, (*columns[:1], RawColumn("ww", "number")), bad_rows=1.0)


def test_row_ids_lead_back_to_file_and_row(tmp_path):
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text(f"fare,zone\n1,{name}\n2,{name}\n")
    manifest = ingest(tmp_path, {"train": "a.csv", "eval": "b.csv"})
    assert [manifest.locate(row) for row, _, _ in examples(tmp_path, "eval")] == [
        f"{tmp_path / 'b.csv'}, row 2",
        f"{tmp_path / 'b.csv'}, row 3",
    ]
    assert {zone for _, _, zone in examples(tmp_path, "train")} == {"a.csv"}


def test_absolute_budget(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n" + "x,z\n" * 3 + "1,z\n" * 97)
    with pytest.raises(UserError, match="allows 50.00% of rows and 2"):
        ingest(tmp_path, "a.csv", bad_rows=0.5, max_rows=2)


def test_rows_in_two_splits_are_counted_with_an_example(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone,id\n" + "".join(f"{i},z,{i}\n" for i in range(10)))
    (tmp_path / "b.csv").write_text("fare,zone,id\n3,z,91\n3.0,z,92\n3,,93\n77,z,94\n")
    manifest = ingest(tmp_path, {"train": "a.csv", "eval": "b.csv"})
    (overlap,) = manifest.overlaps
    assert (overlap.first, overlap.second, overlap.rows, overlap.of) == ("train", "eval", 2, 4)
    assert [manifest.locate(row) for row in overlap.example] == [
        f"{tmp_path / 'a.csv'}, row 5",
        f"{tmp_path / 'b.csv'}, row 2",
    ]
    assert read_manifest(str(tmp_path / "examples")) == manifest
    (tmp_path / "examples").rename(tmp_path / "before")
    with pytest.raises(UserError, match=r"2 of 4 rows of eval \(50.00%\) are also in train"):
        ingest(tmp_path, {"train": "a.csv", "eval": "b.csv"}, split_leakage={"max_fraction": 0.4})
    assert not (tmp_path / "examples" / "Split-train").exists()


def test_a_feature_on_another_column_moves_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone,id\n" + "".join(f"{i % 7}.50,z{i % 3},{i}\n" for i in range(300)))
    split = {"method": "hash", "ratios": RATIOS}
    ingest(tmp_path, "a.csv", split=split)
    before = [row for row, _, _ in examples(tmp_path, "train")]
    (tmp_path / "examples").rename(tmp_path / "before")
    ingest(tmp_path, "a.csv", split=split, columns=(RawColumn("id", "number"), RawColumn("zone", "string")))
    assert [row for row, _, _ in examples(tmp_path, "train")] == before
    assert 100 < len(before) < 200


def test_every_file_is_accounted_for(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n" + "1,z\nx,z\n1,2,3\n" * 10)
    (tmp_path / "b.csv").write_text("fare,zone\n" + "2,z\n" * 30)
    manifest = ingest(tmp_path, "*.csv", bad_rows=1.0)
    found = {s: [row >> ROW_BITS for row, _, _ in examples(tmp_path, s)] for s in ("train", "eval")}
    for i, count in enumerate(manifest.by_file):
        assert count.path == str(tmp_path / "ab"[i]) + ".csv"
        assert count.written == {split: files.count(i) for split, files in found.items()}
        assert (count.read, count.quarantined) == (30, 20 if i == 0 else 0)
        assert count.read == sum(count.written.values()) + count.quarantined


def test_shards_are_cut_by_size_and_hold_every_row_once(tmp_path):
    text = "z" * 2000
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},{text}\n" for i in range(2000)))
    ingest(tmp_path, {"train": "a.csv"}, records={"shard_mb": 1})
    shards = sorted((tmp_path / "examples" / "Split-train").iterdir())
    assert [p.name for p in shards] == [f"examples-{i:05d}-of-{len(shards):05d}.tfrecord" for i in range(len(shards))]
    assert len(shards) >= 4 and max(p.stat().st_size for p in shards) <= 1 << 20
    assert [row for row, _, _ in examples(tmp_path, "train")] == list(range(2, 2002))


def test_gzip_is_told_by_the_suffix(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n1,z\n")
    ingest(tmp_path, {"train": "a.csv"}, gzip=True)
    (shard,) = (tmp_path / "examples" / "Split-train").iterdir()
    assert shard.name.endswith(".tfrecord.gz") and shard.read_bytes()[:2] == b"\x1f\x8b"
    assert examples(tmp_path, "train") == [(2, 1.0, "z")]


def test_many_small_files_become_few_shards_in_their_order(tmp_path):
    for i in range(40):
        (tmp_path / f"{i:02d}.csv").write_text("fare,zone\n" + f"{i},z\n" * 20)
    ingest(tmp_path, {"train": "*.csv"})
    assert len(list((tmp_path / "examples" / "Split-train").iterdir())) == 1
    expected = [(file << ROW_BITS) + row for file in range(40) for row in range(2, 22)]
    assert [row for row, _, _ in examples(tmp_path, "train")] == expected


def test_ten_shards_per_reader_of_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LEAST_BYTES", 10_000)
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},zone {i}\n" for i in range(20_000)))
    ingest(tmp_path, {"train": "a.csv"}, records={"shard_mb": 2, "readers": 2})
    sizes = [path.stat().st_size for path in (tmp_path / "examples" / "Split-train").iterdir()]
    assert len(sizes) == 20
    assert max(sizes) - min(sizes) <= 2 * (2 << 20) // 128
    assert [row for row, _, _ in examples(tmp_path, "train")] == list(range(2, 20_002))


def test_parts_of_a_file_give_the_same_records_as_the_file_in_one(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},z{i}\n" for i in range(3000)))
    ingest(tmp_path, "a.csv")
    whole = {split: examples(tmp_path, split) for split in ("train", "eval")}
    shutil.rmtree(tmp_path / "examples")
    monkeypatch.setattr(lines, "PART_BYTES", 4096)
    ingest(tmp_path, "a.csv", bad_rows=1.0)
    assert {split: examples(tmp_path, split) for split in ("train", "eval")} == whole


def neighbours_apart(rows):
    """Returns the distances in the output between rows adjacent in the source, as shares of all rows."""
    places = np.argsort(rows)
    return np.abs(np.diff(places)) / len(rows)


@pytest.mark.parametrize("gzip", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_global_shuffle_puts_neighbours_far_apart(tmp_path, monkeypatch, gzip):
    monkeypatch.setattr(shards, "LEAST_BYTES", 20_000)
    monkeypatch.setattr(record_writer, "_SHUFFLED_CHUNK_BYTES", 50_000)
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},zone {i}\n" for i in range(5000)))
    ingest(tmp_path, {"train": "a.csv"}, records={"shuffle": True}, gzip=gzip)
    rows = [row for row, _, _ in examples(tmp_path, "train")]
    assert sorted(rows) == list(range(2, 5002))
    assert len(list((tmp_path / "examples" / "Split-train").iterdir())) == 10
    # In a random permutation the mean distance of two rows is 1/3, and 2 % of pairs are closer than 0.01.
    apart = neighbours_apart(rows)
    assert 0.31 < apart.mean() < 0.35 and (apart < 0.01).mean() < 0.04
    # Each file is a sample of the whole source.
    assert [np.mean(part) for part in np.array_split(rows, 10)] == pytest.approx([2500] * 10, abs=350)


@pytest.mark.parametrize("records", [{}, {"shuffle": True}])
def test_files_of_spans_that_are_ingested_together_are_joined_apart(tmp_path, records):
    source = {"format": "csv", "path": "a.csv"}
    config = IngestConfig.model_validate({"source": source, "split": RANDOM, "records": records, "bad_rows": {}})
    folders = [tmp_path / f"span-{span}" for span in range(3)]
    for span, folder in enumerate(folders):
        folder.mkdir()
        (folder / "a.csv").write_text("fare,zone\n" + "".join(f"{100 * span + i},z\n" for i in range(100)))
    ingestions = [
        Ingestion(
            config, tuple(inputs(config.source, folder)), tuple(RATIOS), COLUMNS, f"{folder}/examples", True, span=span
        )
        for span, folder in enumerate(folders)
    ]
    with local_pipeline() as pipeline:
        ingest_files(ingestions, pipeline)
    for span, (folder, ingestion) in enumerate(zip(folders, ingestions, strict=True)):
        assert finish_ingestion(ingestion).read == 100
        fares = sorted(fare for _, fare, _ in examples(folder, "*"))
        assert fares == [100 * span + i for i in range(100)]


def test_a_global_shuffle_repeats_by_its_seed(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},z\n" for i in range(500)))
    orders = []
    for seed in (1, 1, 2):
        shutil.rmtree(tmp_path / "examples", ignore_errors=True)
        ingest(tmp_path, {"train": "a.csv"}, records={"shuffle": True, "seed": seed})
        orders.append([row for row, _, _ in examples(tmp_path, "train")])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(2, 502))


def test_the_same_records_give_the_same_bytes(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n" + "".join(f"{i},z\n" for i in range(500)))
    contents = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "examples", ignore_errors=True)
        ingest(tmp_path, "a.csv", gzip=True)
        contents.append([p.read_bytes() for p in sorted((tmp_path / "examples").glob("Split-*/*"))])
    assert contents[0] == contents[1]


def test_a_split_without_a_row_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("fare,zone\n1,z\n")
    with pytest.raises(UserError, match="no row fell into split"):
        ingest(tmp_path, "a.csv", split=HASH)


def test_no_match_says_what_was_looked_for(tmp_path):
    with pytest.raises(UserError, match=r"'no/\*.csv' is no file. Looked for: .*no/\*.csv"):
        find_files("no/*.csv", lambda p: resolve_path(p, tmp_path))
    (tmp_path / "trips[1]").mkdir()
    (tmp_path / "trips[1]" / "a.csv").write_text("fare,zone\n1,z\n")
    with pytest.raises(UserError, match=r" is no file. \[1\] stands for .*write trips\[\[\]1\]/\*.csv. Looked"):
        find_files("trips[1]/*.csv", lambda p: resolve_path(p, tmp_path))
    assert len(find_files("trips[[]1]/*.csv", lambda p: resolve_path(p, tmp_path))) == 1
    with pytest.raises(UserError, match=r"is a folder; add a pattern"):
        find_files(".", lambda p: resolve_path(p, tmp_path))
    with pytest.raises(UserError, match="package 'no_such_package' is not installed"):
        resolve_path("package:no_such_package/a.csv", tmp_path)


@pytest.mark.parametrize("split", ["hash", "stratified"])
@pytest.mark.parametrize("text", ["fare,zone\n", "", "\n\n", "fare,zone"])
def test_a_span_without_rows_is_published_empty(tmp_path, text, split):
    (tmp_path / "a.csv").write_text(text)
    how = {"method": split, "ratios": RATIOS} | ({"column": "zone"} if split == "stratified" else {})
    columns = (COLUMNS[0], RawColumn("zone", "string", many=True, separator="|"))
    manifest = ingest(tmp_path, "a.csv", split=how, span=3, columns=COLUMNS if split == "stratified" else columns)
    assert (manifest.read, manifest.written) == (0, {"train": 0, "eval": 0})
    assert examples(tmp_path, "train") == examples(tmp_path, "eval") == []


def test_a_window_without_any_row_is_refused():
    def span(number, rows):
        artifact = standard_artifacts.Examples()
        artifact.id = artifact.span = number
        artifact.set_string_custom_property("label", f"day {number}")
        artifact.set_string_custom_property("fingerprint", str(number))
        artifact.set_string_custom_property(COUNTS, RowCounts(read=rows).to_json())
        return artifact

    window = SpansOfWindow({"1": "1", "2": "2"})
    kept = window.resolve_artifacts(None, {"examples": [span(1, 5), span(2, 0)]})["examples"]
    assert [one.span for one in kept] == [1, 2]
    with pytest.raises(UserError, match="no rows in day 1, day 2; only header lines, or nothing"):
        window.resolve_artifacts(None, {"examples": [span(1, 0), span(2, 0)]})


BAD = (7, 23, 41)
TRIPS = [
    {"fare": "oops" if i in BAD else f"{i}.5", "zone": "ab"[i % 2], "day": f"2024-01-{i % 28 + 1:02}"}
    for i in range(60)
]
GOOD_FARES = sorted(i + 0.5 for i in range(60) if i not in BAD)


SPLITS = {
    "hash": HASH,
    "hash of a column": {"method": "hash", "column": "fare"},
    "random": {"method": "random"},
    "time": {"method": "time", "column": "day", "until": {"train": "2024-01-20"}},
    "column": {"method": "column", "column": "zone", "values": {"train": "a", "eval": "b"}},
}


def check_accounts(folder, source, file, split):
    manifest = ingesting.ingest(folder, source, COLUMNS, split=split, bad_rows=0.1, files=[file])
    written = {
        split: [feature["fare"].float_list.value[0] for feature in ingesting.examples(folder, split)]
        for split in ("train", "eval")
    }
    assert sorted(written["train"] + written["eval"]) == GOOD_FARES
    assert manifest.written == {split: len(fares) for split, fares in written.items()} and all(written.values())
    assert (manifest.read, manifest.rows_quarantined) == (60, 3)
    (file,) = manifest.by_file
    assert (file.read, file.written, file.quarantined) == (60, manifest.written, 3)
    assert [(row["column"], row["text"]) for row in quarantined(folder)] == [("fare", "oops")] * 3
    return written


@pytest.mark.parametrize("format", OF_COLUMNS)
def test_of_every_kind_of_source(tmp_path, format):
    check_accounts(tmp_path, *write_rows(tmp_path, format, TRIPS), HASH)


@pytest.mark.parametrize("method", SPLITS)
def test_however_rows_are_split(tmp_path, method):
    written = check_accounts(tmp_path, *write_rows(tmp_path, "csv", TRIPS), SPLITS[method])
    if method == "time":
        assert sorted(written["eval"]) == [fare for fare in GOOD_FARES if int(fare) % 28 + 1 >= 20]
    if method == "column":
        assert sorted(written["train"]) == [fare for fare in GOOD_FARES if int(fare) % 2 == 0]
