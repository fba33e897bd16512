"""Every row of every source is in one split or in quarantine, for every split method."""

import pytest

from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.ingesting import HASH, examples, ingest, quarantined
from tests.components.ingest.row_files import OF_COLUMNS, write_rows

pytestmark = pytest.mark.integration
COLUMNS = (RawColumn("fare", "number"), RawColumn("zone", "string"))
BAD = (7, 23, 41)
ROWS = [
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


def check(folder, source, file, split):
    manifest = ingest(folder, source, COLUMNS, split=split, bad_rows=0.1, files=[file])
    written = {
        split: [feature["fare"].float_list.value[0] for feature in examples(folder, split)]
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
    check(tmp_path, *write_rows(tmp_path, format, ROWS), HASH)


@pytest.mark.parametrize("method", SPLITS)
def test_however_rows_are_split(tmp_path, method):
    written = check(tmp_path, *write_rows(tmp_path, "csv", ROWS), SPLITS[method])
    if method == "time":
        assert sorted(written["eval"]) == [fare for fare in GOOD_FARES if int(fare) % 28 + 1 >= 20]
    if method == "column":
        assert sorted(written["train"]) == [fare for fare in GOOD_FARES if int(fare) % 2 == 0]
