"""Finds the cells of a column of encoded images that cannot be decoded, and the reasons.

The size in the header is checked against a limit first, because a small file can hold an image of gigabytes of pixels.
Then TensorFlow decodes the image, as it does later in training and serving: an image that passes here does not fail
there.
"""

import io
import re
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

MOST_MEGAPIXELS = 64
"""Largest image, in millions of pixels: 192 MB decoded in color. Cameras make up to 60."""
_MEGA = 10**6
_MOST_MEGAPIXELS_IN_ALL = 4 * MOST_MEGAPIXELS
"""Most pixels of all frames of a GIF: TensorFlow decodes each to a byte per pixel, before it takes the first."""
_MOST_MEGAPIXELS_OF_SCANS = 16 * MOST_MEGAPIXELS
"""Most pixels of all scans of a progressive JPEG; encoders write about ten scans."""
_PNG, _GIF, _BMP, _JPEG = b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"BM", b"\xff\xd8\xff"
_PLACE = re.compile(r"\{\{.*?\}\}")
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""PNG color type -> number of channels."""
_NO_SIZE = frozenset({0x01, *range(0xD0, 0xDA)})
"""Markers of a JPEG that stand alone, without a length (ITU T.81, table B.1)."""
_SCAN = b"\xff\xda"
_GIF_FRAME, _GIF_EXTENSION, _GIF_END = 0x2C, 0x21, 0x3B
"""First bytes of the blocks of a GIF (GIF89a, appendix A)."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of the frame headers of a JPEG (ITU T.81, table B.1)."""
_REDUCED = 8
"""The smallest size at which libjpeg decodes: an eighth."""
_MOST_CHANNELS = 4
_SHOWN = 200
"""Characters of TensorFlow's message, whose end says what is wrong."""


def image_problems(cells: pa.Array) -> tuple[tuple[np.ndarray, str], ...]:
    """Returns one pair per problem: bool [rows], true where an image has the problem, and its message.

    Args:
        cells: Binary, null for missing; a missing image is no problem.
    """
    rows: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        problem = image_problem(cell.as_py()) if cell.is_valid else None
        if problem is not None:
            rows.setdefault(problem, []).append(row)
    return tuple((np.isin(np.arange(len(cells)), found), problem) for problem, found in rows.items())


def image_problem(content: bytes) -> str | None:
    """Returns the reason why an image cannot be used, or None if it can."""
    return header_problem(content) or _decoding_problem(content)


def header_problem(content: bytes) -> str | None:
    """Returns the reason why an image cannot be used, from its header and without TensorFlow, or None."""
    if not content:
        return "an image of 0 bytes"
    try:
        shape = image_shape(content)
    except (struct.error, IndexError):
        return "an image with a truncated header"
    if shape is None:
        return "no JPEG, PNG, GIF or BMP image"
    height, width, _ = shape
    if not height or not width:
        return f"an image of {width:,} x {height:,} pixels"
    if height * width > MOST_MEGAPIXELS * _MEGA:
        return f"an image of {width:,} x {height:,} pixels, above {MOST_MEGAPIXELS} million"
    return bomb_problem(content)


def bomb_problem(content: bytes) -> str | None:
    """Returns the reason why decoding an image takes far more memory or time than the size in its header, or None.

    Raises:
        struct.error: The header is truncated.
        IndexError: The header is truncated.
    """
    if content.startswith(_GIF):
        return _frames_problem([width * height for width, height in _gif_frames(content)])
    if content.startswith(_JPEG):
        scans, (height, width, _) = content.count(_SCAN), _jpeg_shape(content)
        if scans * height * width > _MOST_MEGAPIXELS_OF_SCANS * _MEGA:
            return f"a JPEG of {scans:,} scans, in all above {_MOST_MEGAPIXELS_OF_SCANS:,} million pixels"
    return None


def _frames_problem(pixels: list[int]) -> str | None:
    if max(pixels, default=0) > MOST_MEGAPIXELS * _MEGA:
        return f"a GIF with a frame of {max(pixels):,} pixels, above {MOST_MEGAPIXELS} million"
    if sum(pixels) > _MOST_MEGAPIXELS_IN_ALL * _MEGA:
        return f"a GIF of {len(pixels):,} frames, in all above {_MOST_MEGAPIXELS_IN_ALL} million pixels"
    return None


def _gif_frames(content: bytes) -> Iterator[tuple[int, int]]:
    """Yields the columns and rows of each frame of a GIF, which may be larger than its screen.

    The offsets are those of GIF89a, sections 18 to 24: 13 bytes of header and screen, 10 of a frame.
    """
    at = 13 + _palette_bytes(content[10])
    while at + 10 <= len(content) and content[at] != _GIF_END:
        if content[at] == _GIF_FRAME:
            yield struct.unpack_from("<HH", content, at + 5)
            at += 11 + _palette_bytes(content[at + 9])
        elif content[at] == _GIF_EXTENSION:
            at += 2
        else:
            at += 1  # decoders skip what is between blocks
            continue
        while at < len(content) and content[at]:
            at += 1 + content[at]
        at += 1


def _palette_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def image_shape(content: bytes) -> tuple[int, int, int] | None:
    """Returns rows, columns and channels from the header of an image; None if TensorFlow cannot decode the format.

    The offsets are those of the PNG specification (11.2.2), GIF89a (18), BITMAPINFOHEADER and ITU T.81 (B.2.2).

    Raises:
        struct.error: The header is truncated.
        IndexError: The header is truncated.
    """
    if content.startswith(_PNG):
        width, height = struct.unpack_from(">II", content, 16)
        return height, width, _PNG_CHANNELS.get(content[25], 3)
    if content.startswith(_GIF):
        width, height = struct.unpack_from("<HH", content, 6)
        return height, width, 3
    if content.startswith(_BMP):
        width, height = struct.unpack_from("<ii", content, 18)
        return abs(height), abs(width), 3
    return _jpeg_shape(content) if content.startswith(_JPEG) else None


def _jpeg_shape(content: bytes) -> tuple[int, int, int]:
    for marker, at in _segments(content):
        if marker in _FRAMES:
            height, width, channels = struct.unpack_from(">HHB", content, at + 3)
            return height, width, channels
    raise IndexError("no frame")


def _segments(content: bytes) -> Iterator[tuple[int, int]]:
    """Yields the marker of each segment of a JPEG, and the offset of its length field."""
    stream = io.BytesIO(content)
    stream.seek(2)
    while byte := stream.read(1):
        if byte != b"\xff":
            continue
        while byte == b"\xff":
            byte = stream.read(1)
        if not byte or byte == b"\0" or byte[0] in _NO_SIZE:
            continue
        at = stream.tell()
        yield byte[0], at
        stream.seek(at + struct.unpack_from(">H", content, at)[0])


def _decoding_problem(content: bytes) -> str | None:
    import tensorflow as tf  # Imported only if there are images, as importing takes seconds.

    with tf.device("CPU"):
        try:
            if content.startswith(_JPEG):
                # Decoding at an eighth of the size reads the whole file in half the time and detects the same damage.
                pixels = tf.io.decode_jpeg(content, channels=0, ratio=_REDUCED)
            else:
                pixels = tf.io.decode_image(content, channels=0, dtype=tf.uint8, expand_animations=False)
        except (tf.errors.OpError, ValueError) as error:
            return f"an image that cannot be decoded: {_reason(error)}"
    channels = pixels.shape[2] if pixels.shape.rank == 3 else 0
    return None if 1 <= channels <= _MOST_CHANNELS else f"an image of {channels} channels"


def _reason(error: Exception) -> str:
    """Returns TensorFlow's message without its references to ops and nodes."""
    words = _PLACE.sub("", str(getattr(error, "message", error)).splitlines()[0])
    return words.split("[Op:", 1)[0].strip().rstrip(".:")[-_SHOWN:]
