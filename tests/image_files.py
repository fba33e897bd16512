"""Image files for tests: complete files with given pixels, and a PNG header that declares any size."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encode_image(pixels: np.ndarray, form: str = "PNG", mode: str | None = None, **options: object) -> bytes:
    """Returns `pixels`, uint8 [height, width] or [height, width, channels], as a file of PIL format `form`.

    mode: PIL's mode of the file; by default that of the pixels.
    """
    stream, image = io.BytesIO(), Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(stream, form, **options)
    return stream.getvalue()


def png_header(width: int, height: int) -> bytes:
    """Returns a PNG that ends after a header with this width and height."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + b"IHDR" + head + checksum
