"""Reads the bytes, the size and, if requested, the pixels of one image file. Its header and name are not trusted."""

import io
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fullpass.base.files import is_address
from fullpass.components.ingest.readers.reader import load_package
from fullpass.components.ingest.sources.config import Decoded, ImagesSource
from fullpass.components.ingest.sources.storage import open_raw
from fullpass.preprocessing.values.encoded_images import bomb_problem

PIXELS = "pixels"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP")
_CHANNELS = {"1": 1, "P": 3, "I;16": 1}
_OTHERS = (
    (0, b"%!PS", "EPS"),
    (0, b"\xc5\xd0\xd3\xc6", "EPS"),
    (8, b"WEBP", "WEBP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftyphei", "HEIC"),
    (0, b"%PDF", "PDF"),
)
"""Offset and magic bytes of formats that are not read, to name them in messages."""


def pillow() -> Any:
    """Returns Pillow's module Image.

    Raises:
        UserError: Pillow is not installed.
    """
    return load_package("PIL.Image", package="pillow", needed_by="format: images")


def read_image(path: str, source: ImagesSource, *, decoded: bool) -> dict[str, Any]:
    """Returns the columns of an image: image (its bytes), height, width, channels, and pixels if requested.

    Pillow opens an EPS file by starting Ghostscript, whatever the file's name is. Therefore the formats to try are
    passed to Pillow, and the size of an image is compared with the limits before its pixels are decoded.

    Args:
        path: Path or address of the file.
        source: The section of the YAML, with the limits.
        decoded: Whether to return `pixels`, uint8 [height * width * channels] of `source.decode`.

    Raises:
        ValueError: The file has none of the formats that TensorFlow decodes, is truncated or too large, or a decoder
            or driver cannot read it for another reason.
    """
    try:
        data = _content(path, source.max_file_mb)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the limit of pixels is checked below
            with pillow().open(io.BytesIO(data), formats=_FORMATS) as image:
                return {"image": data, **_columns(image, data, source, decoded=decoded)}
    except pillow().UnidentifiedImageError:
        raise ValueError(f"{_form_of(data)}not {', '.join(_FORMATS)}") from None
    except (OSError, ValueError):
        raise
    except Exception as error:  # decoders raise many types of errors
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _content(path: str, limit_mb: int) -> bytes:
    if not is_address(path) and not stat.S_ISREG(Path(path).stat().st_mode):
        raise ValueError("no regular file")
    with open_raw(path) as stream:
        data = stream.read((limit_mb << 20) + 1)
    if len(data) > limit_mb << 20:
        raise ValueError(f"larger than {limit_mb:,} MB (data.source.max_file_mb)")
    return data


def _columns(image: Any, data: bytes, source: ImagesSource, *, decoded: bool) -> dict[str, Any]:
    width, height = image.size
    if width * height > source.max_megapixels * 10**6:
        raise ValueError(f"{width:,} x {height:,} pixels, above {source.max_megapixels:,} million (max_megapixels)")
    if (problem := bomb_problem(data)) is not None:
        raise ValueError(problem)
    channels = _CHANNELS.get(image.mode, len(image.getbands()))
    pixels = _pixels(image, source.decode if decoded else None)
    return {"height": height, "width": width, "channels": channels, **pixels}


def _pixels(image: Any, decoded: Decoded | None) -> dict[str, np.ndarray]:
    """Reads the whole image, to check it; returns it as uint8 [height * width * channels] if requested."""
    if decoded is None:
        image.draft("L", (1, 1))  # the fastest full read of a JPEG: at an eighth of its size
        image.load()
        return {}
    mode, size = "L" if decoded.channels == 1 else "RGB", (decoded.width, decoded.height)
    image.draft(mode, size)  # reads a large JPEG at half its size or less, never below the target
    return {PIXELS: np.asarray(image.convert(mode).resize(size, pillow().Resampling.BILINEAR)).ravel()}


def _form_of(data: bytes) -> str:
    """Returns `EPS, ` (for example) for a format that is recognized and not supported, else an empty string."""
    return next((f"{name}, " for at, start, name in _OTHERS if data[at : at + len(start)] == start), "")
