"""Damaged files of the analyzer cache: every flipped bit is detected, and only the entry with the bit is lost."""

import random

import pytest

from fullpass.components.transform.accumulator_file import DamagedEntries, pack, unpack
from fullpass.components.transform.analyzer_cache import AnalyzerCache

ENTRIES = {b"a" * 64: [b"[1.5, 2]", b""], b"b" * 64: [bytes(range(256)) * 4], b"c" * 64: []}


def read(content: bytes, fingerprint: str = "f") -> dict[bytes, list[bytes]]:
    try:
        return unpack(fingerprint, content)
    except DamagedEntries as error:
        return error.states


def test_what_was_written_is_read():
    assert unpack("f", pack("f", ENTRIES)) == ENTRIES
    assert unpack("f", pack("f", {})) == {}


def test_no_flipped_bit_changes_a_value_unnoticed():
    content = pack("f", ENTRIES)
    for bit in range(8 * len(content)):
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedEntries):
            unpack("f", bytes(spoilt))
        assert read(bytes(spoilt)).items() < ENTRIES.items()


def test_a_flipped_value_costs_its_own_entry_alone():
    content = bytearray(pack("f", ENTRIES))
    content[content.index(b"b" * 64)] ^= 1
    assert read(bytes(content)).keys() == {b"a" * 64, b"c" * 64}


def test_what_is_cut_short_or_anything_else_gives_no_wrong_value():
    content = pack("f", ENTRIES)
    for size in range(len(content)):
        assert read(content[:size]).items() < ENTRIES.items()
    rng = random.Random(0)
    for size in (0, 1, 30, 500):
        assert read(rng.randbytes(size)) == read(content[:24] + rng.randbytes(size)) == {}


def test_the_file_of_another_span_is_noticed():
    assert read(pack("f", ENTRIES), "g") == {}


def test_damage_is_logged_by_file_and_entry(tmp_path, caplog):
    cache = AnalyzerCache(str(tmp_path))
    cache.write("f", ENTRIES)
    (path,) = tmp_path.rglob("*.accumulators")
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.read_with_status("f") == ({key: ENTRIES[key] for key in (b"a" * 64, b"b" * 64)}, False)
    assert str(path) in caplog.text and "entries 2 of 3" in caplog.text


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
