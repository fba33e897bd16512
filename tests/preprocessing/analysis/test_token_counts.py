"""Counts of many tokens are stored in files, and give the same vocabulary as a plain count."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.analysis import token_counts, token_files
from fullpass.preprocessing.analysis.token_counts import TokenCounts, decode, encode, merged, rank
from fullpass.preprocessing.analysis.token_files import TOKENS

WORDS = [f"w{number:x}".encode() for number in range(3000)] + [b"", b"\xff\x00", "日".encode()]


def counted(tokens):
    found = Counter(tokens)
    return pa.table([list(found), list(found.values())], schema=TOKENS)


@pytest.fixture
def bounded(monkeypatch):
    """Limits so small that 3,000 tokens take several files, which are read and merged in many steps."""
    monkeypatch.setattr(token_counts, "MAX_TOKENS_IN_MEMORY", 500)
    monkeypatch.setattr(token_files, "READ_BYTES", 100_000)
    monkeypatch.setattr(token_counts, "_MERGED_ROWS", 64)
    monkeypatch.setattr(token_counts, "_FEWEST_ROWS", 16)


def states_of(drawn, folder, parts=3):
    """Returns the decoded accumulators of parts of the rows, which are added in batches."""
    states = []
    for part in np.array_split(drawn, parts):
        state = TokenCounts()
        for batch in np.array_split(part, 20):
            state.add(counted([WORDS[i] for i in batch]), folder)
        states.append(decode(encode(state, folder)))
    return states


def expected(drawn, min_count, top_k):
    """Returns (count, token) by descending count, then by descending bytes, counted in Python."""
    counts = Counter(WORDS[i] for i in drawn)
    return sorted(((count, token) for token, count in counts.items() if count >= min_count), reverse=True)[:top_k]


@pytest.mark.integration
def test_tokens_in_files_rank_as_those_of_a_plain_count(bounded, tmp_path):
    drawn = np.random.default_rng(3).integers(0, len(WORDS), 9000)
    states = states_of(drawn, str(tmp_path))
    assert all(len(state.files) == 1 and not state.in_memory for state in states)
    assert merged(states, str(tmp_path)).distinct(str(tmp_path)) == len(set(drawn.tolist()))
    for min_count, top_k in ((1, None), (1, 1700), (3, None), (2, 40), (9999, None)):
        ranked = rank(merged(states, str(tmp_path)), min_count=min_count, top_k=top_k, folder=str(tmp_path))
        tables = list(ranked.tables())
        found = [pair for t in tables for pair in zip(t["count"].to_pylist(), t["token"].to_pylist(), strict=True)]
        assert found == expected(drawn, min_count, top_k), (min_count, top_k)
        assert (ranked.num_rows, ranked.total) == (len(found), len(drawn))
        assert len(tables) > 3 or not found or top_k == 40


def test_few_tokens_stay_in_memory(tmp_path):
    drawn = np.random.default_rng(3).integers(0, len(WORDS), 9000)
    ranked = rank(merged(states_of(drawn, str(tmp_path)), str(tmp_path)), min_count=2, top_k=100, folder=str(tmp_path))
    (table,) = ranked.tables()
    assert list(zip(table["count"].to_pylist(), table["token"].to_pylist(), strict=True)) == expected(drawn, 2, 100)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(bounded, tmp_path):
    (state,) = states_of(np.arange(3000), str(tmp_path), parts=1)
    (path,) = state.files
    content = bytearray(open(path, "rb").read())
    content[200] ^= 1
    open(path, "wb").write(content)
    with pytest.raises(UserError, match=f"{path} is damaged"):
        list(state.tables(str(tmp_path)))
    open(path, "wb").write(content[:-3])
    with pytest.raises(UserError, match=f"{path} is damaged"):
        list(state.tables(str(tmp_path)))
