"""Tests of the first bytes of a file, for formats that begin with no fixed bytes."""

import codecs
import json
import re
import struct

from fullpass.trainer.records.frames import masked_crc

LINES = 50
"""Number of lines that are looked at."""
PLAIN = re.compile(rb"[\t\n\r -~]{20}")
"""The beginning of a text, such as a header line whose first name begins like a binary format: `ORC_count,...`."""


def begins_with_record(start: bytes, whole: bool = False) -> bool:
    """Returns whether decompressed bytes begin like a TFRecord file: with a length and its checksum."""
    return len(start) >= 12 and masked_crc(start[:8]) == struct.unpack("<I", start[8:12])[0]


def begins_with_object(start: bytes, whole: bool) -> bool:
    """Returns whether text begins with a JSON object per line; `whole` is whether it is the whole file."""
    start = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if start[:1] != b"{":
        return False
    lines = start.split(b"\n", LINES)
    if len(lines) == 1 and not whole:
        return True
    return any(is_json(line, dict) for line in lines[:LINES])


def is_json(text: bytes, kind: type) -> bool:
    """Returns whether text is JSON of a type, `dict` or `list`."""
    try:
        return isinstance(json.loads(text), kind)
    except (ValueError, RecursionError):
        return False
