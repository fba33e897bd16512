"""Damaged files of the analyzer cache: every flipped bit is detected."""

import random

import pytest

from fullpass.components.transform.analyzer_cache import AnalyzerCache, pack_states, unpack_states

ENTRIES = {b"a" * 64: [b"[1.5, 2]", b""], b"b" * 64: [bytes(range(256)) * 4], b"c" * 64: []}


def test_what_was_written_is_read():
    assert unpack_states("f", pack_states("f", ENTRIES)) == ENTRIES
    assert unpack_states("f", pack_states("f", {})) == {}


def test_no_flipped_bit_is_unnoticed():
    content = pack_states("f", ENTRIES)
    for bit in range(8 * len(content)):
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        assert unpack_states("f", bytes(spoilt)) is None


def test_what_is_cut_short_or_anything_else_or_of_another_span_has_no_states():
    content = pack_states("f", ENTRIES)
    assert all(unpack_states("f", content[:size]) is None for size in range(len(content)))
    rng = random.Random(0)
    for size in (0, 1, 30, 500):
        assert (
            unpack_states("f", rng.randbytes(size)) is None
            and unpack_states("f", content[:24] + rng.randbytes(size)) is None
        )
    assert unpack_states("g", content) is None


def test_a_damaged_file_is_logged_and_its_span_is_analysed_again(tmp_path, caplog):
    cache = AnalyzerCache(str(tmp_path))
    cache.write("f", ENTRIES)
    (path,) = tmp_path.rglob("*.accumulators")
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.read("f") == {}
    assert f"{path} is damaged. Its content is computed again." in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"d": 1}', b'{"d": 1, "checksum": "0"}'])
def test_a_damaged_list_of_uses_is_begun_anew(tmp_path, caplog, content):
    cache = AnalyzerCache(str(tmp_path))
    for fingerprint in "abd":
        cache.write(fingerprint, ENTRIES)
    assert cache.keep("abd", others=2) == []
    (path,) = tmp_path.rglob("uses.json")
    path.write_bytes(content)
    assert cache.keep(["d"], others=2) == ["a.accumulators", "b.accumulators"]
    assert str(path) in caplog.text and cache.read("d") == ENTRIES
