"""Steps that read, write and compare texts, which are bytes."""

import re

import numpy as np

from fullpass.components.portable.steps.elements import each, object_array, rows_of_lengths
from fullpass.components.portable.steps.farmhash import farm_fingerprint


def _as_string(values, precision=-1, scientific=False, shortest=False, **_):
    if values.dtype.kind == "b":
        return each(lambda value: b"true" if value else b"false")(values)
    if values.dtype.kind in "iu":
        return each(lambda value: b"%d" % value)(values)
    form = "%" + ("" if precision < 0 else f".{precision}") + ("e" if scientific else "g" if shortest else "f")
    return each(lambda value: (form % value).encode())(values)


_DOTLESS = {0x130: "\ud800", 0x131: "\ud801"}
"""Letters that equal i in Python, if case is ignored, but not in RE2 -> what stands for them meanwhile."""
_DOTTED = {ord(stand_in): letter for letter, stand_in in _DOTLESS.items()}


def _characters(text, compiled):
    """Returns bytes as text, with one surrogate for each byte that is not UTF-8."""
    text = text.decode("utf-8", "surrogateescape")
    return text.translate(_DOTLESS) if compiled.flags & re.IGNORECASE else text


def _regex_replace(values, pattern, rewrite, replace_global=True, **_):
    compiled = re.compile(pattern)

    def replaced(value):
        text, made, at, last = _characters(value, compiled), [], 0, -1
        while at <= len(text) and (match := compiled.search(text, at)) is not None:
            if match.end() == last:  # RE2 skips a character where an empty match follows another match.
                made.append(text[at : at + 1])
                at += 1
                continue
            made += [text[at : match.start()], match.expand(rewrite)]
            at = last = match.end()
            if not replace_global:
                break
        return "".join([*made, text[at:]]).translate(_DOTTED).encode("utf-8", "surrogateescape")

    return each(replaced)(values)


def _regex_full_match(values, pattern, **_):
    compiled = re.compile(pattern)
    return each(lambda value: compiled.fullmatch(_characters(value, compiled)) is not None, bool)(values)


def _with_case(change):
    """Returns a step that changes the case as TensorFlow does: the text ends at a zero byte."""

    def changed(text, encoding):
        if not encoding:
            return change(text)
        return change(text.partition(b"\0")[0].decode("utf-8", "replace")).encode()

    return lambda texts, encoding="", **_: each(lambda text: changed(text, encoding))(texts)


def _in_unit(text, unit):
    """Returns the parts of a text that are counted: its bytes, or its characters with their continuation bytes."""
    return re.findall(rb"(?s)^[\x80-\xbf]+|[^\x80-\xbf][\x80-\xbf]*" if unit == "UTF8_CHAR" else b"(?s).", text)


def _substr(texts, first, count, unit="BYTE", **_):
    return each(lambda text, at, n: b"".join(_in_unit(text, unit)[at:][:n]))(texts, first, count)


def _string_length(texts, unit="BYTE", **_):
    def length(text):
        return len(text) if unit == "BYTE" else len(re.findall(rb"(?s)[^\x80-\xbf]", text))

    return each(length, np.int32)(texts)


def _string_split(texts, separator, maxsplit=-1, **_):
    parts = [text.split(separator.item() or None, maxsplit) for text in texts.tolist()]
    return rows_of_lengths([len(part) for part in parts], object_array([text for part in parts for text in part]))


def _decode_csv(records, *defaults, field_delim=",", **_):
    cells = [record.split(field_delim.encode()) for record in records.ravel().tolist()]
    made = []
    for i, default in enumerate(defaults):
        found = [row[i] or default.ravel()[0] for row in cells]
        made.append(
            object_array(found) if default.dtype == object else np.array([int(f) for f in found], default.dtype)
        )
    return made


TEXT_STEPS = {
    "AsString": _as_string,
    "DecodeCSV": _decode_csv,
    "RegexFullMatch": _regex_full_match,
    "RegexReplace": _regex_replace,
    "StringJoin": lambda *parts, separator="", **_: each(lambda *texts: separator.encode().join(texts))(*parts),
    "StringLength": _string_length,
    "StringLower": _with_case(lambda text: text.lower()),
    "StringSplitV2": _string_split,
    "StringStrip": each(lambda text: text.strip(b" \t\n\v\f\r")),
    "StringToHashBucketFast": lambda texts, num_buckets, **_: each(
        lambda t: farm_fingerprint(t) % num_buckets, np.int64
    )(texts),
    "StringToNumber": lambda texts, out_type="float32", **_: each(
        int if out_type.startswith("int") else float, out_type
    )(texts),
    "StringUpper": _with_case(lambda text: text.upper()),
    "Substr": _substr,
}
"""Name of a step, as TensorFlow calls it -> its function from arrays and options to an array, or to several."""
