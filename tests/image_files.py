"""Image files for tests: whole ones of given pixels, and a header that promises any size."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encode_image(pixels: np.ndarray, form: str, mode: str, **options: object) -> bytes:
    """Returns `pixels`, uint8 [height, width] or [height, width, 3], in a mode of PIL as a file of a format of PIL."""
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, form, **options)
    return stream.getvalue()


def png_header(width: int, height: int) -> bytes:
    """Returns a PNG that ends behind a header of so many pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + b"IHDR" + head + checksum
