"""Folders of images, damaged or with a wrong suffix, and manifests with arbitrary file names."""

import io
import random
from functools import lru_cache
from pathlib import Path

from PIL import Image

from fullpass.components.ingest.sources.config import Decoded, ImagesSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.damage import cut_file, damaged, flip, overwrite, remove

_COLUMNS = (RawColumn("image", "string"), RawColumn("width", "number"), RawColumn("label", "string"))
_FORMS = (
    *(("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "I;16"), ("PNG", "1")),
    *(("GIF", "P"), ("BMP", "RGB"), ("BMP", "P"), ("TIFF", "RGB"), ("EPS", "RGB"), ("WEBP", "RGB"), ("DDS", "RGB")),
    *(("ICO", "RGB"), ("PPM", "RGB"), ("TGA", "RGB"), ("MPO", "RGB")),
)
_WAYS = (flip, flip, overwrite, overwrite, cut_file, remove)
_NAMES = (
    *("/etc/hostname", "../../x.png", "file:///etc/hostname", "memory://x", "s3://x/y", "a" * 5000, "", ".", "0.jpg/x"),
    *("~/x.png", "$HOME", "\\x", "zip://a::b", "0.jpg\x00", "//etc/hostname", "http://127.0.0.1:9/x.png"),
)


@lru_cache
def _sample(form: str, mode: str) -> bytes:
    data = io.BytesIO()
    noise = Image.effect_noise((37, 29), 60)
    picture = noise.convert("I").convert("I;16") if mode == "I;16" else noise.convert("RGB").convert(mode)
    picture.save(data, form)
    return data.getvalue()


def try_one(seed: int, folder: Path) -> str:
    """Ingests a dozen files; each is a row, either written or quarantined."""
    rng = random.Random(seed)
    images = folder / "images" / "cat"
    images.mkdir(parents=True)
    for i in range(12):
        (images / f"{i}.jpg").write_bytes(damaged(_sample(*rng.choice(_FORMS)), rng, _WAYS, least=0))
    decode = Decoded(height=5, width=4) if seed % 2 else None
    columns = [*_COLUMNS, *([RawColumn("pixels", "vector", 60)] if decode else [])]
    if seed % 3:
        source = ImagesSource(format="images", path=str(folder / "images"), decode=decode)
        expected = 12
    else:
        names = [f"{i}.jpg" for i in range(12)] + rng.sample(_NAMES, 6)
        (images / "list.csv").write_text("file,label\n" + "".join(f'"{name}",x\n' for name in names))
        source = ImagesSource(format="images", path=str(images / "list.csv"), labels="manifest", decode=decode)
        expected = len(names)
    outcome = ingested(source, columns, folder, seed)
    assert outcome.refused is None and outcome.read == expected, outcome
    return outcome.kind
