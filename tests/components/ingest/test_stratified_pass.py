"""The guarantees of the stratified split, checked by counts and by an independent ordering of the hashes."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import StratifiedSplit
from fullpass.components.ingest.splitting.stratified import MAX_CLASSES, ClassWriter, cuts_of, splits_by_cuts
from fullpass.preprocessing.columns.raw_columns import ROW_BITS, RawColumn
from tests.components.ingest.ingesting import examples, ingest, row_id

SPLIT = StratifiedSplit(method="stratified", column="class", ratios={"train": 7, "eval": 2, "test": 1})


def dealt(folder, classes, hashes, split=SPLIT, pieces=4):
    """Returns the split of each row, with the rows counted in `pieces` parts."""
    parts = []
    for i, chosen in enumerate(np.array_split(np.arange(len(classes)), pieces)):
        writer = ClassWriter(f"{folder}/{i:05d}")
        writer.write(pa.array(np.array(classes, dtype=object)[chosen].tolist(), pa.string()), hashes[chosen])
        runs = writer.close()
        parts.append((list(writer.classes), runs))
    return splits_by_cuts(pa.array(classes, pa.string()), hashes, cuts_of(parts, split))


def test_every_class_is_cut_at_the_ratios_to_within_a_row(tmp_path):
    random = np.random.default_rng(3)
    classes = random.choice(["a", "b", "c", "", "rare"], 20_000, p=[0.6, 0.25, 0.1, 0.0495, 0.0005]).tolist()
    hashes = random.permutation(2**20)[:20_000].astype(np.uint64) << np.uint64(44)
    found = dealt(tmp_path, classes, hashes)
    for name, rows in Counter(classes).items():
        mine = found[np.array(classes) == name]
        for place, share in enumerate((0.7, 0.2, 0.1)):
            assert abs((mine == place).sum() - rows * share) <= 1, (name, place)
    # Within a class, rows are ordered by hash: no train row comes after an eval row.
    for name in set(classes):
        of_class = np.array(classes) == name
        ordered = found[of_class][np.argsort(hashes[of_class])]
        assert (np.diff(ordered) >= 0).all()


@pytest.mark.parametrize(("rows", "train", "evaluated"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (10, 7, 2)])
def test_small_classes_are_rounded(tmp_path, rows, train, evaluated):
    hashes = np.arange(1, rows + 1, dtype=np.uint64) << np.uint64(50)
    found = dealt(tmp_path, ["x"] * rows, hashes, pieces=1)
    assert Counter(found.tolist())[0] == train and Counter(found.tolist())[1] == evaluated


def test_few_rows_move_as_data_grows(tmp_path):
    random = np.random.default_rng(5)
    hashes = random.integers(0, 2**64, 11_000, dtype=np.uint64)
    classes = random.choice(["a", "b"], 11_000).tolist()
    before = dealt(tmp_path / "before", classes[:10_000], hashes[:10_000])
    after = dealt(tmp_path / "after", classes, hashes)[:10_000]
    assert 0 < (before != after).sum() < 200  # 2 %; a new assignment would move 46 %


def test_equal_rows_stay_together(tmp_path):
    hashes = np.repeat(np.arange(1, 101, dtype=np.uint64) << np.uint64(50), 3)
    found = dealt(tmp_path, ["x"] * 300, hashes).reshape(100, 3)
    assert (found == found[:, :1]).all()


def test_a_column_of_too_many_values_is_refused(tmp_path):
    count = MAX_CLASSES + 1
    with pytest.raises(UserError, match=r"more than 10,000 different values, so they are probably not classes"):
        dealt(tmp_path, [str(i) for i in range(count)], np.arange(count, dtype=np.uint64))


COLUMNS = (RawColumn("fare", "number"), RawColumn("tips", "number"))
DERIVE = {"rate": "tips / fare", "generous": "rate > 0.2"}


def table_of_trips(rows=3_000):
    random = np.random.default_rng(11)
    fare = random.integers(1, 100, rows).astype(float)
    tips = np.where(random.random(rows) < 0.1, np.nan, random.integers(0, 30, rows))
    return pa.table({"id": np.arange(rows), "fare": fare, "tips": tips, "zone": random.choice(["n", "s", None], rows)})


def ingested(tmp_path, split, derive):
    """Ingests two files of trips; returns the rows of each split as (fare, tips), and the manifest."""
    trips = table_of_trips()
    for name, piece in (("a", trips.slice(0, 1_000)), ("b", trips.slice(1_000))):
        pq.write_table(piece, tmp_path / f"{name}.parquet")
    source = {"format": "parquet", "path": "*.parquet"}
    manifest = ingest(tmp_path, source, COLUMNS, split=split, derive=derive)
    offsets, found = {0: 0, 1: 1_000}, {}
    for name in split["ratios"]:
        ids = map(row_id, examples(tmp_path, name))
        found[name] = trips.take(pa.array(offsets[row >> ROW_BITS] + (row & (1 << ROW_BITS) - 1) - 1 for row in ids))
    return found, manifest


def shares_hold(found, name_of, ratios):
    counts = {split: Counter(name_of(row) for row in table.to_pylist()) for split, table in found.items()}
    for name in set().union(*counts.values()):
        rows = sum(count[name] for count in counts.values())
        for split, ratio in ratios.items():
            assert abs(counts[split][name] - rows * ratio / sum(ratios.values())) <= 1, (name, split)
    return set().union(*counts.values())


def generous(row):
    return None if np.isnan(row["tips"]) else row["tips"] / row["fare"] > 0.2


@pytest.mark.integration
def test_by_a_derived_label(tmp_path):
    split = {"method": "stratified", "column": "generous", "ratios": {"train": 8, "eval": 2}}
    found, manifest = ingested(tmp_path, split, DERIVE)
    assert shares_hold(found, generous, split["ratios"]) == {True, False, None}
    assert manifest.read == sum(manifest.written.values()) == 3_000
    assert all(o.rows < 600 for o in manifest.overlaps)
    assert not list((tmp_path / "examples").glob("_pending*"))


@pytest.mark.integration
def test_by_a_raw_column_that_no_feature_reads(tmp_path):
    split = {"method": "stratified", "column": "zone", "ratios": {"train": 8, "eval": 1, "test": 1}}
    found, _ = ingested(tmp_path, split, {})
    assert shares_hold(found, lambda row: row["zone"], split["ratios"]) == {"n", "s", None}
