import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import SplitLeakage
from fullpass.components.ingest.splitting.hash_runs import RunWriter, check_overlaps, count_overlaps, read_ranges

HASHES = st.lists(st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1])), max_size=80)


def runs(folder, name, hashes, first_id=0, pieces=3):
    """Writes hashes as several runs, as the parts of a source do."""
    found = []
    for i, piece in enumerate(np.array_split(np.array(hashes, dtype=np.uint64), pieces)):
        writer = RunWriter(f"{folder}/{name}/{i:05d}")
        writer.write(piece, np.arange(first_id, first_id + len(piece)))
        writer.close()
        first_id += len(piece)
        found += writer.runs
    return found


@settings(max_examples=40, deadline=None)
@given(first=HASHES, second=HASHES, range_rows=st.integers(1, 50))
def test_ranges_hold_every_entry_once_and_in_order(tmp_path_factory, first, second, range_rows):
    folder = tmp_path_factory.mktemp("runs")
    groups = [runs(folder, "a", first), runs(folder, "b", second)]
    pieces = list(read_ranges(groups, range_rows))
    for group, written in enumerate((first, second)):
        found = np.concatenate([np.empty(0, np.uint64), *(piece[group]["hash"] for piece in pieces)])
        assert found.tolist() == sorted(written)
    seen = [{h for group in piece for h in group["hash"].tolist()} for piece in pieces]
    assert sum(len(hashes) for hashes in seen) == len(set(first) | set(second))


def test_a_range_is_about_as_large_as_asked(tmp_path):
    hashes = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    sizes = [len(piece[0]) for piece in read_ranges([runs(tmp_path, "a", hashes)], 10_000)]
    assert len(sizes) == 10 and max(sizes) < 11_000


def test_overlap_is_counted_per_pair_with_train_first(tmp_path):
    overlaps = count_overlaps(
        {
            "eval": runs(tmp_path, "eval", [1, 2, 2, 9], first_id=100),
            "train": runs(tmp_path, "train", [2, 2, 3, 4, 5], first_id=0),
            "test": runs(tmp_path, "test", [9, 9, 4], first_id=200),
        }
    )
    found = {(o.first, o.second): (o.rows, o.of) for o in overlaps}
    assert found == {("train", "eval"): (2, 4), ("train", "test"): (1, 3), ("eval", "test"): (2, 3)}
    assert [o.example for o in overlaps] == [(0, 101), (3, 202), (103, 200)]


def test_overlap_of_large_splits_is_that_of_sets(tmp_path):
    random = np.random.default_rng(7)
    train, other = random.integers(0, 5000, 20_000), random.integers(2500, 9000, 3_000)
    spread = random.permutation(2**20)[:9000].astype(np.uint64) << np.uint64(44)
    (overlap,) = count_overlaps(
        {"train": runs(tmp_path, "t", spread[train]), "eval": runs(tmp_path, "e", spread[other])}
    )
    assert overlap.rows == int(np.isin(other, train).sum()) > 500


def test_a_limit_says_which_rows_and_what_to_do(tmp_path):
    overlaps = count_overlaps({"train": runs(tmp_path, "t", [1, 2]), "eval": runs(tmp_path, "e", [2, 3, 4, 5], 9)})
    locate = {1: "a.csv, row 3", 9: "b.csv, row 7"}
    check_overlaps(overlaps, SplitLeakage(max_fraction=0.25, max_rows=1), locate)
    with pytest.raises(UserError) as error:
        check_overlaps(overlaps, SplitLeakage(max_fraction=0.2), locate)
    assert "1 of 4 rows of eval (25.00%) are also in train" in str(error.value)
    assert "for example b.csv, row 7 = a.csv, row 3" in str(error.value)
    with pytest.raises(UserError, match="allows 100.00% and 0 rows of a split's rows"):
        check_overlaps(overlaps, SplitLeakage(max_rows=0), locate)
