"""Reads the charts of a page as data."""

import json
import re
from typing import Any

import vl_convert

from fullpass.components.pages.vega import THEME, VEGA_LITE

NATIVE = "5.8"
"""The oldest version of Vega-Lite that vl-convert has, for notebooks, which draw by their own."""


def specs_of(page: str) -> list[dict[str, Any]]:
    """Returns the specifications of a page or a chart, each of which both versions of Vega-Lite must compile."""
    found = [
        json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    ]
    for spec in found:
        for number in (VEGA_LITE, NATIVE):
            assert vl_convert.vegalite_to_vega({**spec, "config": THEME}, vl_version=number)["marks"]
    return found


def values_of(spec: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    """Returns some fields of the rows of a specification."""
    return [tuple(row.get(name) for name in names) for row in spec["data"]["values"]]
