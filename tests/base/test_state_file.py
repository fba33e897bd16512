"""State files: written content is read back, and any other content is an error that names the file."""

import json
import math
from dataclasses import dataclass

import pytest

from fullpass.base import state_file
from fullpass.base.state_file import DamagedState

FIELDS = {"pid": 4711, "host": "a", "list": [1, {"b": 2.5}], "text": "ü\n", "none": None}


@dataclass(frozen=True)
class Shape:
    pid: int
    host: str


def test_any_tool_reads_what_is_written(tmp_path):
    file = tmp_path / "state.json"
    state_file.write(file, FIELDS, indent=1)
    stored = json.loads(file.read_text())
    assert len(stored.pop("checksum")) == 16 and stored == FIELDS == state_file.read(file, "")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_no_flipped_bit_changes_a_value():
    content = state_file.encode(FIELDS)
    for bit in range(8 * len(content)):
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        try:  # A hex digit of an escaped character may be upper or lower case.
            assert state_file.decode(bytes(spoilt), "x.json", "Mend it.") == FIELDS
        except DamagedState as error:
            assert str(error).startswith("x.json is damaged: ") and str(error).endswith(". Mend it.")


def test_json_has_no_nan():
    for content in ({"auc": math.nan}, {"list": [1, (math.inf, {"b": -math.inf})]}):
        stored = state_file.encode(content)
        json.loads(stored, parse_constant=lambda name: pytest.fail(name))
        assert state_file.decode(stored, "x.json", "") is not None
    assert state_file.decode(state_file.encode({"auc": math.nan}), "x.json", "") == {"auc": None}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"pid": 1}'])
def test_anything_else_is_refused_by_name(content, tmp_path):
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(DamagedState, match=r"state\.json is damaged: .* Mend it\."):
        state_file.read(file, "Mend it.")


def test_a_file_is_read_by_its_schema(tmp_path):
    file = tmp_path / "state.json"
    state_file.write(file, {"pid": 1, "host": "a"})
    assert state_file.read_as(Shape, file, "") == Shape(1, "a")
    for fields in (
        {"pid": "1", "host": "a"},
        {"pid": 1},
        {"pid": 1, "host": "a", "more": 2},
        {"pid": True, "host": "a"},
    ):
        state_file.write(file, fields)
        with pytest.raises(DamagedState, match=r"state\.json is damaged: (pid|host|more): "):
            state_file.read_as(Shape, file, "")


def test_what_is_no_file_is_refused_and_what_is_not_there_is_said_so(tmp_path):
    with pytest.raises(DamagedState, match="cannot be read: Is a directory"):
        state_file.read(tmp_path, "")
    with pytest.raises(FileNotFoundError):
        state_file.read(tmp_path / "none", "")
