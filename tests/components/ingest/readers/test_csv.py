import bz2
import gzip
import lzma
import zipfile

import pyarrow as pa
import pytest
from pydantic import ValidationError

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers import lines
from fullpass.components.ingest.readers.csv import CsvReader
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile
from tests.components.ingest.reading_tools import raw, read_file

CSV = CsvSource(format="csv", path="x")


def source(**options):
    return CsvSource(format="csv", path="x", **options)


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_in_the_order_asked_with_line_numbers(tmp_path):
    path = write(tmp_path, "a,b,c\n1,x,\n2,y,7\n")
    assert read_file(path, CSV, ["c", "a"])[:2] == ([("", "1"), ("7", "2")], [2, 3])


def test_number_columns_come_parsed_and_one_bad_cell_spoils_no_other(tmp_path):
    path = write(tmp_path, "a,b\n1,x\nNA,y\n2.5,z\n")
    assert read_file(path, CSV, raw(a="number"))[0] == [(1.0,), (None,), (2.5,)]
    path = write(tmp_path, "a,b\n1,x\nNA,y\nfree,z\n")
    assert read_file(path, CSV, raw(a="number"))[0] == [("1",), ("NA",), ("free",)]


def test_rows_with_too_many_or_few_cells_are_kept_aside(tmp_path):
    path = write(tmp_path, "a,b\n1,2\n3\n5,6\n7,8,9\n10,11\n")
    rows, numbers, bad = read_file(path, CSV, ["a"])
    assert rows == [("1",), ("5",), ("10",)] and numbers == [2, 4, 6]
    assert [(row.row, row.reason, row.text) for row in bad] == [
        (3, "1 cells, expected 2", "3"),
        (5, "3 cells, expected 2", "7,8,9"),
    ]


def test_quoted_line_breaks_bom_crlf_and_blank_lines_keep_line_numbers(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbfa,b\r\n1,"x\r\ny"\r\n\r\n2,"say ""hi"", ok"\r\n3,z')
    rows, numbers, _ = read_file(path, CSV, ["a", "b"])
    assert rows == [("1", "x\r\ny"), ("2", 'say "hi", ok'), ("3", "z")]
    assert numbers == [2, 5, 6]


def test_carriage_returns_alone_end_lines(tmp_path):
    path = write(tmp_path, b"a,b\r1,x\r2,y\r")
    assert read_file(path, CSV, ["a"])[:2] == ([("1",), ("2",)], [2, 3])


@pytest.mark.parametrize(
    ("text", "rows", "spoilt"),
    [
        ('a,b\n1,"x\n2,y\n3,z\n', [("2",), ("3",)], [2]),
        ('a,b\n1,"x\n2,"y"\n3,z\n', [("2",), ("3",)], [2]),
        ('a,b\n1,5" pipe\n2,6" pipe\n', [("1",), ("2",)], []),
        ('a,b\n1,"two\nlines"\n2,"x"y\n', [("1",), ("2",)], []),
        ('a,b\n1,"two\nlines" and more\n2,y\n', [("2",)], [2, 3]),
    ],
)
def test_a_stray_quote_spoils_its_line_only(tmp_path, text, rows, spoilt):
    found, _, bad = read_file(write(tmp_path, text), CSV, ["a"])
    assert found == rows
    assert [row.row for row in bad] == spoilt


def test_a_stray_quote_is_found_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK_BYTES", 64)
    body = [f"{i},{'x' * (i % 30)}" for i in range(200)]
    body[50] = '50,"never closed'
    rows, numbers, bad = read_file(
        write(tmp_path, "a,b\n" + "\n".join(body) + "\n"), source(max_cell_kb=1), raw(a="string")
    )
    assert [int(row[0]) for row in rows] == [i for i in range(200) if i != 50]
    assert numbers == [i + 2 for i in range(200) if i != 50]
    assert [(row.row, row.text) for row in bad] == [(52, '50,"never closed')]


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_the_size_of_chunks_changes_nothing(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    path = write(tmp_path, b'a,b\r\n1,"x\r\n,""y"""\r\n\r\n2,b"c\r\n3,"z"\r\n4\r\n5,"\xff"\r\n6,"end"')
    rows, numbers, bad = read_file(path, CSV, ["a", "b"])
    assert rows == [("1", 'x\r\n,"y"'), ("2", 'b"c'), ("3", "z"), ("6", "end")]
    assert numbers == [2, 5, 6, 9]
    assert [(row.row, row.column) for row in bad] == [(7, None), (8, "b")]


def test_names_given_separator_and_quoting_off(tmp_path):
    path = write(tmp_path, 'ham\tGo "until\nspam\tFree\n')
    options = source(separator="\t", columns=("label", "text"), quoting=False)
    rows, numbers, _ = read_file(path, options, ["text", "label"])
    assert rows == [('Go "until', "ham"), ("Free", "spam")] and numbers == [1, 2]


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize(
    ("text", "rows", "bad"),
    [
        ('a, b\n"x", "y, z"\n1, \t "2, ""3"""\n', [("x", "y, z"), ("1", '2, "3"')], []),
        ('"a" , "b"\n "x" , "y"\n', [("x ", "y")], []),
        ('a, b\n1, "x\n, ""y"""\n2, z\n', [("1", 'x\n, "y"'), ("2", "z")], []),
        ('a,b\n"He said, ""hi""","x, ""y"""\n', [('He said, "hi"', 'x, "y"')], []),
        ('a,b\n1, "Al" Capone\n2, 5" pipe\n', [("1", '"Al" Capone'), ("2", '5" pipe')], []),
        ('a,b\n3, "open\n4, "\n', [("3", '"open'), ("4", '"')], []),
        ('a, b\n1, "x\ny" z\n2, "v"\n', [("1", '"x'), ("2", "v")], [(3, "1 cells, expected 2")]),
        ('a, b\n1, "x, y\n2, "z"\n', [("2", "z")], [(2, "3 cells, expected 2")]),
    ],
    ids=["quoted", "both_sides", "line_breaks", "inner_quotes", "text", "stray", "not_closed", "unclosed"],
)  # fmt: skip
def test_blanks_before_a_quoted_cell_are_dropped(tmp_path, monkeypatch, text, rows, bad, chunk):
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    found, _, bad_rows = read_file(write(tmp_path, text), CSV, ["a", "b"])
    assert ([(a, b.strip()) for a, b in found], [(row.row, row.reason) for row in bad_rows]) == (rows, bad)


def test_a_large_file_of_blanks_and_quotes_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART_BYTES", 100)
    path = write(tmp_path, "a, b\n" + "".join(f'{i}, "x, {i}"\n' for i in range(100)))
    assert len(CsvReader(SourceFile(str(path), None, path.stat().st_size, ""), CSV).parts()) > 5
    assert read_file(path, CSV, ["b", "a"])[0] == [(f"x, {i}", str(i)) for i in range(100)]


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_lines_of_separators_are_skipped_if_asked(tmp_path, monkeypatch, end, chunk):
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    path = write(tmp_path, end.join([",,", "a,b,c", ",,", "1,,", " , ,", ',"",', ",,3", '4,"x', ",,", 'y",5', ",", ""]))
    rows, numbers, bad = read_file(path, source(skip_empty=True), ["a", "b", "c"])
    assert rows == [("1", "", ""), ("", "", ""), ("", "", "3"), ("4", f"x{end},,{end}y", "5")]
    assert (numbers, bad) == ([4, 6, 7, 8], [])
    rows, numbers, bad = read_file(path, source(skip_rows=1), ["a", "b", "c"])
    assert rows[:2] == [("", "", ""), ("1", "", "")] and numbers[:2] == [3, 4]
    assert [row.reason for row in bad] == ["2 cells, expected 3"]


def zst(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


@pytest.mark.parametrize("name", ["data.csv.{}", "data.csv", "data.csv.gz"])
@pytest.mark.parametrize(
    ("ending", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zst), ("zip", None), ("", bytes)],
)
def test_compression_is_recognized_by_content(tmp_path, ending, compress, name):
    path = tmp_path / name.format(ending)
    if compress:
        path.write_bytes(compress(b"a\n1\n"))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", "a\n1\n")
    assert read_file(path, CSV, ["a"])[0] == [("1",)]


def test_header_with_blanks_and_quotes_is_found_by_its_name(tmp_path):
    path = write(tmp_path, '\n a , b ,"c,\nd"\n1,2,3\n')
    assert read_file(path, CSV, ["b", "c,\nd"])[:2] == ([("2", "3")], [4])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis"])
def test_encodings(tmp_path, encoding):
    word = "ネコ" if encoding == "shift_jis" else "São"
    path = write(tmp_path, f"a,b\n1,{word}\n2,x\n".encode(encoding))
    assert read_file(path, source(encoding=encoding), ["b"])[0] == [(word,), ("x",)]


@pytest.mark.parametrize(("encoding", "byte"), [("utf-8", b"\xe9"), ("cp1252", b"\x81")])
def test_a_cell_in_another_encoding_spoils_its_row(tmp_path, encoding, byte):
    path = write(tmp_path, b"a,b\n1,caf" + byte + b"\n2,x\n")
    rows, numbers, bad = read_file(path, source(encoding=encoding), ["a", "b"])
    assert rows == [("2", "x")] and numbers == [3]
    assert [(row.row, row.column, row.reason) for row in bad] == [(2, "b", f"not {encoding}")]
    assert read_file(path, source(encoding=encoding), ["a"])[0] == [("1",), ("2",)]


@pytest.mark.parametrize("chunk", [16, 1 << 20])
def test_blocks_with_and_without_bytes_that_are_no_text(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    words = [b"plain", "Z\u00fcrich".encode(), b"caf\xe9", "\u6771\u4eac".encode(), b"\xff", b"end"]
    path = write(tmp_path, b"n,word\n" + b"".join(b"%d,%s\n" % row for row in enumerate(words)))
    rows, numbers, bad = read_file(path, CSV, ["word", "n"])
    assert rows == [("plain", "0"), ("Z\u00fcrich", "1"), ("\u6771\u4eac", "3"), ("end", "5")]
    assert numbers == [2, 3, 5, 7]
    assert [(row.row, row.column, row.text) for row in bad] == [(4, "word", "caf\ufffd"), (6, "word", "\ufffd")]


def test_decimal_comma(tmp_path):
    path = write(tmp_path, "a;b\n1,5;x\n-2;y\n")
    assert read_file(path, source(separator=";", decimal=","), raw(a="number"))[0] == [(1.5,), (-2.0,)]


def test_a_cell_over_the_limit_is_a_bad_row(tmp_path):
    path = write(tmp_path, f"a,b\n1,{'x' * 2000}\n2,y\n")
    rows, _, bad = read_file(path, source(max_cell_kb=1), ["a", "b"])
    assert rows == [("2", "y")]
    assert [(row.row, row.column, row.reason) for row in bad] == [(2, "b", "a cell longer than 1 kB")]


def test_cells_are_within_the_limit_in_a_column_that_is_longer(tmp_path):
    path = write(tmp_path, "a,b\n" + f"1,{'é' * 500}\n" * 20 + f"2,{'é' * 513}\n3,y\n")
    rows, _, bad = read_file(path, source(max_cell_kb=1), ["b"])
    assert rows == [("é" * 500,)] * 20 + [("y",)]
    assert [(row.row, row.text[:2]) for row in bad] == [(22, "éé")]


def test_large_files_are_cut_at_lines_and_numbered_through(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART_BYTES", 100)
    path = write(tmp_path, "a,b\n" + "".join(f'{i},"x{i}"\n' for i in range(100)))
    parts = CsvReader(SourceFile(str(path), None, path.stat().st_size, ""), CSV).parts()
    assert len(parts) > 5 and parts[0].begin == 0 and parts[-1].end == path.stat().st_size
    rows, numbers, _ = read_file(path, CSV, ["a", "b"])
    assert rows == [(str(i), f"x{i}") for i in range(100)]
    assert numbers == list(range(2, 102))


@pytest.mark.parametrize("line", ['7,"two\nlines"', '7,stray"', '7,"open', "7,x\r8,y"])
def test_a_file_is_kept_whole_where_quotes_or_breaks_forbid_a_cut(tmp_path, monkeypatch, line):
    monkeypatch.setattr(lines, "PART_BYTES", 100)
    path = write(tmp_path, "a,b\n" + "".join(f"{i},x\n" for i in range(100)) + line + "\n")
    assert len(CsvReader(SourceFile(str(path), None, path.stat().st_size, ""), CSV).parts()) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"fare,tips\n1,2\n", "no column 'far'. Did you mean \"fare\"? Columns of the file: fare, tips."),
        (b"far,far\n1,2\n", "column 'far' appears twice"),
        (b"a,b\xff\n1,2\n", "the header line is not utf-8"),
        (b"a,b\xff\n1,2\n", "data.source.encoding, such as latin-1"),
        (b"a,b\xff\n1,2\n", "for a file given to a command such as predict, by --encoding or --columns"),
    ],
)
def test_unusable_csv_says_why(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_file(path, CSV, ["far"])
    assert says in str(error.value) and str(path) in str(error.value)


def test_a_column_not_needed_may_stand_twice(tmp_path):
    path = write(tmp_path, "a,b,b\n1,2,3\n")
    assert read_file(path, CSV, ["a"])[0] == [("1",)]


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_a_truncated_file_says_so(tmp_path, ending):
    data = b"a\n" + b"".join(b"%d\n" % (i * 7919) for i in range(50_000))
    whole = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zst}[ending](data)
    path = write(tmp_path, whole[: len(whole) // 2], f"cut.csv.{ending}")
    with pytest.raises(UserError, match="cut.csv.*: reading stopped.*cut short"):
        read_file(path, CSV, ["a"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoding": "utf8x"}, 'no encoding "utf8x". Did you mean "utf-8"?'),
        ({"separator": ";", "decimal": ";"}, "Input should be"),
        ({"decimal": ","}, 'separator and decimal are both ","'),
        ({"separator": '"'}, "no quote or line break"),
        ({"separator": "§"}, "ASCII"),
    ],
)
def test_impossible_options_are_refused(options, says):
    with pytest.raises(ValidationError) as error:
        source(**options)
    assert says in str(error.value)


# Arrow itself decodes such a row for its callback, and drops the error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_row_of_too_many_cells_that_is_not_utf8_spoils_itself_only(tmp_path):
    path = write(tmp_path, b"a,b\n1,x\n2,\xff,y\n3,z\n\xfe\n4,w\n")
    rows, numbers, bad = read_file(path, CSV, raw(a="number", b="string"))
    assert [(str(a).removesuffix(".0"), b) for a, b in rows] == [("1", "x"), ("3", "z"), ("4", "w")]
    assert numbers == [2, 4, 6]
    assert [(row.row, row.reason) for row in bad] == [(3, "3 cells, expected 2"), (5, "1 cells, expected 2")]


def test_what_reads_raw_text_is_said_once():
    options = {"decimal": ",", "separator": ";", "missing": ["-"], "missing_in": {"a": ["-9"]}, "strip": False}
    given = source(**options)
    text = {key: options[key] for key in ("decimal", "missing", "missing_in", "strip")}
    assert given.raw_text.model_dump(mode="json") == text
    assert given.description() == options | {
        "format": "csv",
        "encoding": "utf-8",
        "quoting": True,
        "columns": None,
        "max_cell_kb": 1024,
        "header_rows": 1,
        "skip_rows": 0,
        "skip_lines": [],
        "skip_empty": False,
    }


SKIPPED = ["# a,b,c", '#"x", "y', "1,x,7", "", '# later, "', "2,y,8", "Total,15,"]


@pytest.mark.parametrize("begin", [[], ["Report of May; by, hand", "", "(in cm)"]], ids=["", "title"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_that_are_no_rows_are_skipped_and_rows_keep_their_line_numbers(tmp_path, begin, end, encoding):
    text = end.join([*begin, *SKIPPED[:2], "a,b,c", *SKIPPED[2:], "3,z,oops,"])
    path = write(tmp_path, text.encode(encoding))
    options = {"skip_rows": len(begin), "skip_lines": ["#", "Total,"], "encoding": encoding}
    rows, numbers, bad = read_file(path, source(**options), ["c", "a"])
    assert (rows, numbers) == ([("7", "1"), ("8", "2")], [len(begin) + 4, len(begin) + 7])
    assert [(row.row, row.reason) for row in bad] == [(len(begin) + 9, "4 cells, expected 3")]
    named = source(columns=["a", "b", "c"], **{**options, "skip_rows": len(begin) + 3})
    assert read_file(path, named, ["c", "a"])[:2] == (rows, numbers)


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (
            ["id,fan,rank,,", ",Response,Film 1,Film 2,Film 3"],
            ["id", "fan", "rank Film 1", "rank Film 2", "rank Film 3"],
        ),
        (["city,weight,height", ",kg,cm"], ["city", "weight", "height"]),
        (["size,size,age", '"mean\nvalue",sd,'], ["size mean\nvalue", "size sd", "age"]),
        ([",2020,,2021,", "city,mean,sd,mean,sd"], ["city", "2020 mean", "2020 sd", "2021 mean", "2021 sd"]),
        (["all,,,,", "a,,b,,", ",x,y,z,w"], ["all a", "all a x", "all b y", "all b z", "all b w"]),
    ],
)
def test_several_header_lines_make_one_name_per_column(tmp_path, lines, names):
    path = write(tmp_path, "\n".join([*lines, ",".join("12345"[: len(names)])]) + "\n")
    options = source(header_rows=len(lines))
    assert CsvReader(SourceFile(str(path), None, 0, ""), options).columns() == names
    line = 1 + len(lines) + any('"' in line for line in lines)
    assert read_file(path, options, names)[:2] == ([tuple("12345"[: len(names)])], [line])


def test_header_lines_and_skipped_lines_of_a_file_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 1 << 12)
    body = "".join(f"# {i}\n{i},x\n" for i in range(20_000))
    path = write(tmp_path, "title\nn,t\n,kg\n" + body + "Total,3\n")
    options = source(skip_rows=1, header_rows=2, skip_lines=["#", "Total"])
    rows, numbers, bad = read_file(path, options, ["n"])
    assert (rows, bad) == ([(str(i),) for i in range(20_000)], []) and numbers == list(range(5, 40_005, 2))


@pytest.mark.parametrize("before", ["", "# remark\n" * 9000, "\n" * 70_000], ids=["first", "remarks", "blank"])
@pytest.mark.parametrize("columns", [2, 9000])
def test_a_header_is_found_wherever_it_begins_and_ends(tmp_path, before, columns):
    """9,000 quoted names are longer than the beginning of the file in which the header is looked for first."""
    names = [f"column {number}" for number in range(columns)]
    header, row = ",".join(f'"{name}"' for name in names), ",".join("7" for _ in names)
    path = write(tmp_path, f"{before}{header}\n{f'{row}{chr(10)}' * (100_000 // columns)}")
    options = source(skip_lines=["#"])
    assert CsvReader(SourceFile(str(path), None, path.stat().st_size, ""), options).columns() == names
