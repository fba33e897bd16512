"""Recognizes the format of a file by its content, whatever its name says. `check`, `predict` and `init` use it."""

import codecs
import re
from dataclasses import dataclass

from fullpass.components.ingest.readers.excel import is_workbook
from fullpass.components.ingest.readers.readable import readable
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.sources.formats import FORMATS, LINES, TOLD_FORMATS, is_json
from fullpass.components.ingest.sources.storage import open_binary, open_raw, suffix_of

_LOOK = 64 << 10
"""Bytes of a file that tell its format: a wide header line and some rows."""
_SHOWN = 20
"""First bytes of unknown content in messages."""
_JSON_LINES = "Write JSON lines: one object per line, without [ and ]"
_OTHERS = (
    (rb"SQLite format 3", "an SQLite database; read it with format: sql"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "an image"),
    (rb"%PDF", "a PDF"),
    (rb"\x89HDF\r\n", "an HDF5 file; write its tables to Parquet"),
    (rb"\x80[\x02-\x05][\x95c(}\]]", "a Python pickle; write its table to Parquet"),
    (rb"\$FL2|<stata_dta>|HEADER RECORD\*{7}|RDX[23]\n", "a file of SPSS, Stata, SAS or R; write its table to Parquet"),
    (rb"(?i)\s*<(\?xml|!doctype|html)", "XML or a web page; save its table as CSV"),
    (rb"(?i)(\s*%[^\n]*\n)*\s*@relation\s", "ARFF; save it as CSV, for example with scipy.io.arff"),
    (rb"%%MatrixMarket", "a sparse matrix of Matrix Market; write its table to Parquet"),
    (rb"\s*\[\s*[\[{\]]", f"one JSON array. {_JSON_LINES}"),
    (rb"\s*\{\s*\n", f"one JSON object over several lines. {_JSON_LINES}"),
)
_LIBSVM = re.compile(rb"[-+\d.,eE]+([ \t]+qid:\d+)?(?P<cells>([ \t]+\d+:[^\s:]+)*)[ \t]*(#.*)?")
_LIBSVM_IS = (
    "LibSVM text (a label, then index:value); write it to Parquet with a column per index, for example with "
    "sklearn.datasets.load_svmlight_file"
)


@dataclass(frozen=True)
class Content:
    """The beginning of a file.

    Attributes:
        start: Its first bytes, decompressed.
        whole: Whether `start` is the whole file.
        format: Its format, as a value of `data.source.format`; None for text that may be CSV, and for unknown content.
        other: What it is, and what to do, if no source reads it; else None.
    """

    start: bytes
    whole: bool
    format: str | None = None
    other: str | None = None


def look_at(path: str, size: int = _LOOK) -> Content:
    """Returns the beginning of a file, up to `size` bytes.

    Raises:
        UserError: The file cannot be read or decompressed, or is an archive of several files.
    """
    if suffix_of(path) == ".npz":
        return Content(b"", False, "numpy")
    with readable(path):
        if is_workbook(path):
            with open_raw(path) as raw:
                return Content(raw.read(_SHOWN), False, "excel")
    with readable(path), open_binary(path) as stream:
        start = stream.read(size)
        whole = not stream.read(1)
    format_ = next((name for name, row in TOLD_FORMATS.items() if row.fits(start, whole=whole)), None)
    return Content(start, whole, format_, None if format_ else _other(start, whole=whole))


def contradiction(path: str, source: FileSource) -> str | None:
    """Returns what the content of a file is, if it cannot be what the source declares; else None."""
    declared = FORMATS[source.format]
    if not declared.starts and not declared.is_told:
        return None
    content = look_at(path)
    if not content.start.strip() or declared.fits(content.start, whole=content.whole):
        return None
    if content.format or content.other:
        return content.format or content.other
    return None if declared.streams or not declared.starts else f"not: it begins with {content.start[:_SHOWN]!r}"


def _other(start: bytes, *, whole: bool) -> str | None:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = start[: len(start) // 2 * 2].decode("utf-16", "replace").lstrip()
        return "JSON in UTF-16; save it as UTF-8" if text[:1] in ("{", "[") else None
    start = start.removeprefix(codecs.BOM_UTF8)
    if whole and start.lstrip()[:1] == b"[" and is_json(start, list):
        return f"one JSON array. {_JSON_LINES}"
    known = next((what for pattern, what in _OTHERS if re.match(pattern, start)), None)
    return known or (_LIBSVM_IS if _is_libsvm(start, whole=whole) else None)


def _is_libsvm(start: bytes, *, whole: bool) -> bool:
    """Returns whether all lines are a label and pairs of an index and a value, and most have pairs."""
    lines = [line.strip() for line in start.split(b"\n")[: None if whole else -1][:LINES]]
    rows = [_LIBSVM.fullmatch(line) for line in lines if line and not line.startswith(b"#")]
    return bool(rows) and all(rows) and sum(bool(row and row["cells"]) for row in rows) > len(rows) / 2
