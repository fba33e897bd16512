"""JSON lines and plain text."""

import json
import random

import pytest
from pydantic import TypeAdapter, ValidationError

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers import csv_records, lines
from fullpass.components.ingest.sources.config import CsvSource, JsonLinesSource, TextSource
from fullpass.components.ingest.sources.formats import Source
from tests.components.ingest.reading_tools import inputs, raw, read_file, read_input

JSONL = JsonLinesSource(format="jsonl", path="x")


def write(tmp_path, content, name="data.jsonl"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else "\n".join(content).encode())
    return path


def test_json_lines_with_their_numbers(tmp_path):
    path = write(tmp_path, ['{"a": 1, "b": "x"}', "", '{"a": 2.0}', "{broken", "[1]", '{"a": null, "b": true}'])
    rows, numbers, bad = read_file(path, JSONL, ["a", "b"])
    assert [a for a, _ in rows] == [1.0, 2.0, None] and [b for _, b in rows] == ["x", None, "true"]
    assert numbers == [1, 3, 6]
    assert [(row.row, row.reason.split(":")[0]) for row in bad] == [(4, "no JSON"), (5, "no JSON object")]


def test_one_odd_value_leaves_the_others_as_they_are(tmp_path):
    path = write(tmp_path, [json.dumps({"a": v}) for v in (1, "free", 2.5, True, [1, 2], None)])
    assert read_file(path, JSONL, ["a"])[0] == [(["1"],), (["free"],), (["2.5"],), (["true"],), (["1", "2"],), (None,)]
    path = write(tmp_path, [json.dumps({"a": v}) for v in (1, "free", 2.5, 3.0)])
    assert read_file(path, JSONL, ["a"])[0] == [("1",), ("free",), ("2.5",), ("3",)]


def test_nested_objects_by_dotted_names_and_names_with_dots_first(tmp_path):
    path = write(tmp_path, ['{"a": {"b": 1, "c": {"d": 2}}, "x.y": 3, "x": {"y": 4}}', '{"a": 5}'])
    assert read_file(path, JSONL, ["a.b", "a.c.d", "x.y"])[0] == [(1, 2, 3), (None, None, None)]


def test_vectors(tmp_path):
    path = write(tmp_path, ['{"v": [1, 2.5]}', '{"v": null}'])
    assert read_file(path, JSONL, raw(v=2))[0] == [([1.0, 2.5],), (None,)]


@pytest.mark.parametrize("line", [b'{"a": "caf\xe9"}', rb'{"a": "\ud800"}', b'{"a": "\xed\xa0\x80"}'])
def test_half_characters_spoil_their_row(tmp_path, line):
    path = write(tmp_path, b'{"a": "x"}\n' + line + b"\n")
    rows, _, bad = read_file(path, JSONL, ["a"])
    assert rows == [("x",)] and [row.row for row in bad] == [2] and "not UTF-8" in bad[0].reason


def test_lines_are_cut_into_parts_that_number_through(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART_BYTES", 64)
    path = write(tmp_path, [json.dumps({"a": i}) if i % 7 else "" for i in range(100)])
    rows, numbers, _ = read_file(path, JSONL, ["a"])
    assert rows == [(i,) for i in range(100) if i % 7]
    assert numbers == [i + 1 for i in range(100) if i % 7]


@pytest.mark.parametrize("chunk", [1, 7, 100, 3000])
@pytest.mark.parametrize("ending", [b"", b'\n{"a": "z"}'])
def test_a_line_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch, chunk, ending):
    monkeypatch.setattr(csv_records, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    path = write(tmp_path, b'{"a": "x"}\n\n{"a": "' + b"y" * 9000 + ending)
    rows, numbers, bad = read_file(path, JSONL, ["a"])
    assert [(row.row, row.reason) for row in bad] == [(3, "a line longer than 64 MB")]
    assert (rows, numbers) == (([("x",), ("z",)], [1, 4]) if ending else ([("x",)], [1]))


@pytest.mark.parametrize("chunk", [1, 7, 100, 3000])
@pytest.mark.parametrize("ending", [b"", b"\n2,z\n"])
def test_a_line_of_csv_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch, chunk, ending):
    monkeypatch.setattr(csv_records, "LONGEST_LINE", 3000)
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    path = write(tmp_path, b"n,a\n1,x\n5," + b"y" * 9000 + ending, "a.csv")
    rows, numbers, bad = read_file(path, CsvSource(format="csv", path="x", max_cell_kb=1), ["n", "a"])
    assert [(row.row, row.reason) for row in bad] == [(3, "a line longer than 64 MB")]
    assert (rows, numbers) == (([("1", "x"), ("2", "z")], [2, 4]) if ending else ([("1", "x")], [2]))
    with pytest.raises(UserError, match="reading stopped: a line longer than 64 MB"):
        read_file(write(tmp_path, b"n" * 9000, "b.csv"), CsvSource(format="csv", path="x", max_cell_kb=1), ["n"])


def test_text_lines(tmp_path):
    path = write(tmp_path, b"one\r\n\ntwo caf\xc3\xa9\n\xff\n", "notes.txt")
    rows, numbers, bad = read_file(path, TextSource(format="text", path="x"), ["text"])
    assert rows == [("one",), ("",), ("two café",)] and numbers == [1, 2, 3]
    assert [(row.row, row.reason) for row in bad] == [(4, "not utf-8")]


def test_text_files_with_their_folder_as_label(tmp_path):
    for name, text in {
        "pos/1.txt": "good\nfilm",
        "neg/2.txt": "bad",
        "neg/.hidden.txt": "x",
        "neg/3.md": "meh",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "neg" / "4.txt").write_bytes(b"\xff")
    source = TextSource(format="text", path=".", rows="files")
    (folder,) = inputs(source, tmp_path)
    rows, numbers, bad = read_input(folder, source, raw(label="string", text="string", file="string"))
    assert rows == [("neg", "bad", "neg/2.txt"), ("neg", "meh", "neg/3.md"), ("pos", "good\nfilm", "pos/1.txt")]
    assert numbers == [1, 2, 4]
    assert [(row.row, row.text) for row in bad] == [(3, str(tmp_path / "neg" / "4.txt"))]


@pytest.mark.parametrize(
    "encoding", ["zip", "rot13", "base64", "hex", "bz2", "idna", "punycode", "undefined", "no\0ne"]
)
@pytest.mark.parametrize("source", [{"format": "csv"}, {"format": "text"}])
def test_encodings_that_are_none_of_text_are_refused(encoding, source):
    with pytest.raises(ValidationError, match="no encoding"):
        TypeAdapter(Source).validate_python({**source, "path": "x", "encoding": encoding})


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-32", "utf-7", "shift_jis", "gb18030", "cp1252", "iso2022_jp"]
)
def test_what_an_encoding_has_no_character_for_spoils_rows_and_not_the_file(tmp_path, encoding):
    rng = random.Random(encoding)
    good = "".join(
        f"line {i} café\n" if encoding not in ("shift_jis", "iso2022_jp") else f"line {i}\n" for i in range(50)
    )
    data = good.encode(encoding)
    read = []
    for _ in range(30):
        spoilt = bytearray(data)
        for _ in range(3):
            spoilt[rng.randrange(4, len(spoilt))] = rng.randrange(256)  # not in the byte order mark
        path = write(tmp_path, bytes(spoilt), "notes.txt")
        rows, _, bad = read_file(path, TextSource(format="text", path="x", encoding=encoding), ["text"])
        read.append((len(rows), len(bad)))
    assert any(bad for _, bad in read) or encoding in ("cp1252",)
    assert sum(rows for rows, _ in read) > 300
