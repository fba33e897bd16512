"""Images with a wrong suffix, and manifests with wrong paths: each error costs one row."""

import io
import os
import random
import struct
import zlib

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from PIL import EpsImagePlugin, Image, UnidentifiedImageError
from pydantic import ValidationError

from fullpass.components.ingest.readers import images
from fullpass.components.ingest.sources.config import ImagesSource
from tests.components.ingest.reading_tools import inputs, raw, read_input
from tests.image_files import encode_image

FOLDERS = ImagesSource(format="images", path="images")


def image(form="PNG", size=(7, 5), **options):
    pixels = np.broadcast_to(np.array([255, 0, 0], np.uint8), (size[1], size[0], 3))
    return encode_image(pixels, form, **options)


def read_folder(tmp_path, source=FOLDERS, **files):
    for name, data in {"good": image(), **files}.items():
        path = tmp_path / "images" / "a" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder,) = inputs(source, tmp_path)
    return read_input(folder, source, raw(file="string", width="number"))


def empty_png(width, height):
    """A PNG of a few bytes whose header declares this size."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
        (b"IEND", b""),
    )
    packed = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def test_no_eps_is_opened_whatever_its_name(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *args, **kwargs: started.append(args))
    eps = io.BytesIO()
    Image.new("RGB", (7, 5)).save(eps, "EPS")
    rows, numbers, bad = read_folder(tmp_path, eps=eps.getvalue())
    assert not started
    assert rows == [("a/good.jpg", 7)]
    assert [row.reason for row in bad] == ["cannot be read: EPS, not JPEG, PNG, GIF, BMP"]


@pytest.mark.parametrize("form", ["TIFF", "DDS", "ICNS", "WEBP", "PPM", "TGA", "PCX", "SGI"])
def test_formats_that_are_not_named_are_not_opened(tmp_path, form):
    size = (16, 16) if form == "ICNS" else (7, 5)
    rows, _, bad = read_folder(tmp_path, other=image(form, size))
    assert len(rows) == 1 and len(bad) == 1
    assert bad[0].reason.endswith("not JPEG, PNG, GIF, BMP")


class OwnError(Exception):
    """An exception that no caller expects."""


@pytest.mark.parametrize("error", [SyntaxError, struct.error, IndexError, MemoryError, RecursionError, OwnError])
def test_whatever_a_decoder_raises_costs_one_row(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error("broken inside")

    (tmp_path / "images" / "a").mkdir(parents=True)
    monkeypatch.setattr(images, "_pixels", fail)
    rows, _, bad = read_folder(tmp_path)
    assert rows == [] and [row.row for row in bad] == [1]
    assert "broken inside" in bad[0].reason


def test_pixels_are_limited_before_they_are_decoded(tmp_path):
    sources = [ImagesSource(format="images", path="images", max_megapixels=n) for n in (1, 2)]
    files = {"bomb": empty_png(100_000, 100_000), "large": image("GIF", (1500, 1000))}
    rows, _, bad = read_folder(tmp_path, sources[0], **files)
    assert len(rows) == 1
    assert bad[1].reason == "cannot be read: 1,500 x 1,000 pixels, above 1 million (max_megapixels)"
    assert "pixels" in bad[0].reason
    assert len(read_folder(tmp_path, sources[1], **files)[0]) == 2
    with pytest.raises(ValidationError, match="178"):
        ImagesSource(format="images", path="images", max_megapixels=200)


def test_bytes_are_limited_before_they_are_read(tmp_path):
    source = ImagesSource(format="images", path="images", max_file_mb=1)
    padded = {"small": image() + bytes(100), "large": image() + bytes(1 << 20)}
    rows, _, bad = read_folder(tmp_path, source, **padded)
    assert [name for name, _ in rows] == ["a/good.jpg", "a/small.jpg"]
    assert [row.reason for row in bad] == ["cannot be read: larger than 1 MB (data.source.max_file_mb)"]


def test_photos_of_several_pictures_are_read_as_tensorflow_does(tmp_path):
    mpo = io.BytesIO()
    first, second = Image.new("RGB", (8, 6), "red"), Image.new("RGB", (4, 4), "blue")
    first.save(mpo, "MPO", save_all=True, append_images=[second])
    rows, _, bad = read_folder(tmp_path, photo=mpo.getvalue())
    assert rows == [("a/good.jpg", 7), ("a/photo.jpg", 8)] and not bad
    assert tf.io.decode_image(mpo.getvalue()).shape == (6, 8, 3)


def test_damaged_images_cost_their_rows_only(tmp_path):
    rng = random.Random(5)
    files = {}
    for form in ("JPEG", "PNG", "GIF", "BMP"):
        for n in range(40):
            data = bytearray(image(form, (33, 21)))
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            files[f"{form}{n:02}"] = bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))])
    rows, numbers, bad = read_folder(tmp_path, **files)
    assert sorted([*numbers, *(row.row for row in bad)]) == list(range(1, 162))
    assert len(rows) > 20 and len(bad) > 20


def read_manifest(tmp_path, *names, source=None):
    for folder in ("data/photos", "elsewhere", "data2"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "a.png").write_bytes(image())
    (tmp_path / "data" / "list.csv").write_text("file\n" + "".join(f'"{name}"\n' for name in names))
    source = source or ImagesSource(format="images", path="data/list.csv", labels="manifest")
    (manifest,) = inputs(source, tmp_path)
    return read_input(manifest, source, raw(file="string"))


def test_a_manifest_names_files_of_its_own_folder_only(tmp_path):
    with fsspec.open("memory://photos/a.png", "wb") as file:
        file.write(image())
    outside = [
        f"{tmp_path}/elsewhere/a.png",
        "../elsewhere/a.png",
        "photos/../../elsewhere/a.png",
        f"{tmp_path}/data2/a.png",
        "memory://photos/a.png",
        f"file://{tmp_path}/elsewhere/a.png",
        f"simplecache::file://{tmp_path}/elsewhere/a.png",
        "%2e%2e/elsewhere/a.png",
    ]
    rows, _, bad = read_manifest(tmp_path, "photos/a.png", *outside)
    assert rows == [("photos/a.png",)]
    assert [row.text for row in bad] == outside
    assert {row.reason for row in bad} == {"outside the manifest's folder and those of data.source.folders"}
    allowed = ImagesSource(
        format="images", path="data/list.csv", labels="manifest", folders=("elsewhere", "memory://photos")
    )
    rows, _, bad = read_manifest(tmp_path, *outside, source=allowed)
    assert rows == [(name,) for name in outside if name in (*outside[:3], "memory://photos/a.png")]
    assert len(bad) == len(outside) - 4


def test_a_parquet_manifest_names_files_from_a_folder_of_the_yaml(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_bytes(image())
    table = pa.table({"file": ["a.png", "none.png", None], "price": [1.5, 2.0, None]})
    pa.parquet.write_table(table, tmp_path / "list.parquet")
    source = ImagesSource(format="images", path="list.parquet", labels="manifest", folders=("elsewhere",))
    (manifest,) = inputs(source, tmp_path)
    rows, numbers, bad = read_input(manifest, source, raw(image="string", price="number"))
    assert rows == [(image(), 1.5)] and numbers == [1]
    assert [row.row for row in bad] == [2, 3]


def test_what_is_no_file_is_a_bad_row(tmp_path):
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / "pipe.png")  # opening it blocks until there is a writer
    rows, _, bad = read_manifest(tmp_path, "pipe.png", "photos", "", "no\0file.png", "x" * 5000, "none.png")
    assert rows == [] and [row.row for row in bad] == [2, 3, 4, 5, 6, 7]
    assert bad[0].reason == "cannot be read: no regular file"


def test_pillow_itself_refuses_what_it_is_not_told_to_open():
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(image("TIFF")), formats=("JPEG", "PNG", "GIF", "BMP"))
