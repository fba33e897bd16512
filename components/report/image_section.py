"""The section of the report with images of the eval split."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 40
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


@dataclass(frozen=True)
class ShownImage:
    """An image and its prediction. png: the image in base64. probability: probability of the predicted class."""

    png: str
    label: str
    prediction: str
    probability: float
    right: bool


@dataclass(frozen=True)
class Images:
    """The images of the section; none for a model without images."""

    wrong: tuple[ShownImage, ...] = ()
    right: tuple[ShownImage, ...] = ()


def image_section(record: Mapping[str, Any]) -> Images:
    """Returns the images in `training.json`; names of classes are cut after 40 characters."""
    images = [
        ShownImage(e["png"], _short(e["label"]), _short(e["prediction"]), float(e["probability"]), bool(e["right"]))
        for e in record.get("images", ())
        if _BASE64.fullmatch(e["png"])
    ]
    return Images(tuple(i for i in images if not i.right), tuple(i for i in images if i.right))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
