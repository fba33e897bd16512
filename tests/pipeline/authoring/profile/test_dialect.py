import pytest

from fullpass.pipeline.authoring.profile.dialect import guess_dialect, guess_encoding


def guess(text, whole=True):
    return guess_dialect(text.encode() if isinstance(text, str) else text, whole=whole)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n3,4\n", ","),
        ("a\tb\n1,5\t2,5\n3,5\t4,5\n", "\t"),
        ("a;b;c\n1,5;2,25;x\n2,5;4,75;y\n", ";"),
        ("id|tags\n1|x,y\n2|x,z\n", "|"),
        ("a b\n1 2\n3 4\n", " "),
        ('name,text\nx,"one; two; three"\ny,"four; five"\n', ","),
        ("when,x\n2018-01-01 05:07:32,1\n2018-01-02 05:07:32,2\n", ","),
        ('city, size, y\n"Bern", "large, red", 0\n"Biel", "small", 1\n', ","),
        ("a; b; c\nx, y; 1; 2\nz; 3; 4\n", ";"),
    ],
)
def test_the_separator_is_found(text, separator):
    assert guess(text).separator == separator


@pytest.mark.parametrize("text", ["", "\n\n", "one\ntwo\n", "a"])
def test_text_of_one_column_is_no_csv(text):
    assert guess(text) is None


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("name,age\nann,3\nbob,4\n", None),
        ("9,x,5\n8,y,4\n", ("column_1", "column_2", "column_3")),
        ("carrier,name\n9E,Endeavor\nAA,American\n", None),
        ("ham,Go on\nspam,Win now\nham,Ok\n", ("column_1", "column_2")),
        ("a,b\n", None),
        (",a,b\n0,5,6\n1,7,8\n", None),
        ("2020-01-01,x\n2020-01-02,y\n", ("column_1", "column_2")),
    ],
)
def test_names_are_made_up_without_a_header(text, columns):
    found = guess(text)
    assert found.columns == columns
    assert ("columns" in found.why) == (columns is not None)


def test_a_name_that_the_user_knows_shows_a_header():
    text = b"1,2\n3,4\n5,6\n"
    assert guess_dialect(text, whole=True).columns == ("column_1", "column_2")
    assert guess_dialect(text, whole=True, known={"2"}).columns is None


def test_quotes_that_do_not_balance_are_text():
    lines = ['ham\tGo "until', 'spam\t"Free entry', "ham\tOk", 'ham\t"Yes', "spam\tWin"] * 4
    found = guess("\n".join(lines) + "\n")
    assert not found.quoting
    assert "line ends" in found.why["quoting"]


def test_quoted_cells_with_line_breaks_stay_quoted():
    assert guess('a,b\n1,"x\ny"\n2,"z, ""w"""\n').quoting


@pytest.mark.parametrize(
    ("bytes_", "encoding"),
    [
        ("ä".encode(), "utf-8"),
        ("ä".encode("utf-8-sig"), "utf-8"),
        ("ä".encode("utf-16"), "utf-16"),
        ("äx".encode("cp1252"), "cp1252"),
        (b"\x81\x8d", "latin-1"),
        ("ä".encode()[:1], "utf-8"),
    ],
)
def test_the_encoding_is_found(bytes_, encoding):
    assert guess_encoding(bytes_) == encoding


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_separator_and_header_in_another_encoding(encoding):
    found = guess("näme;größe\nä;1\nö;2\n".encode(encoding))
    assert (found.separator, found.columns, found.encoding) == (";", None, encoding)


NUMBERS = "7,Yes,5,6,7\n8,No,4,3,2\n9,Yes,1,2,3\n10,No,2,2,1\n11,No,5,2,1\n"


@pytest.mark.parametrize(
    ("second", "rows"),
    [
        (",Response,one,two,three", 2),
        (",Yes,one,two,three", 1),  # occurs below
        ("2020,Response,one,two,three", 1),
        ("6,Yes,one,two,3", 1),
        (",Yes,one,two,", 1),
    ],
)
def test_no_cell_of_a_further_header_line_looks_like_a_value(second, rows):
    assert guess(f"id,fan,rank,rank2,rank3\n{second}\n{NUMBERS}").header_rows == rows


def test_a_cut_last_line_does_not_count():
    assert guess("a,b\n1,2\n3,4\n5", whole=False).separator == ","
