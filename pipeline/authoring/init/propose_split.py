"""`fullpass init`: proposes how to split rows, and alternatives that fit the data."""

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import PERSON_WORDS, ColumnProfile, words_of
from fullpass.pipeline.authoring.profile.sample import MOST_PARTED, parted_by_label, row_keys
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.rules import rule
from fullpass.trainer.config import VALIDATION

_FEWEST_PERSONS = 10
"""Persons from which on each split gets some."""
_MOST_PERSONS = 0.7
"""Persons per row below which rows of a person repeat."""
_FEW_DIFFERENT = 50
"""Different rows below which a split by content may be empty."""
_VALIDATION_FROM = 500
"""Rows from which on a part ends the training and another one judges it."""
_TENTH_FROM = 3_000
"""Rows of which a tenth judges well enough."""
_TEST_ABOVE = 20_000
"""Rows of which a twentieth can be kept for a test."""
_UNTIL = (0.8, 0.9)
"""The shares of the rows that are older than validation and than eval, in a split by time."""
_WEEKS = 28 * 86_400
"""Seconds of four weeks, from which on the newest rows differ from the others."""
_NEWEST = "instead: measures on the newest rows"
_WITHOUT_EPOCH = "; then without the part epoch, of which train has no such values"


def split_line(profile: SourceProfile, names: Sequence[str], label: Collection[str]) -> YamlLine:
    """Returns the split of rows: by content, unless eval could be empty, or rows be parted by their label.

    Args:
        names: The columns that the run reads.
        label: Those of them that only the label reads.
    """
    ratios = ratios_of(profile)
    different = len(row_keys(profile.sample, names).unique())
    of_images = any(column.kind == "image" for column in profile.columns)
    if of_images:
        different = profile.sample.seen
    if different < _FEW_DIFFERENT and different < profile.sample.seen:
        why = f"by chance: there are only {different} different rows, too few to be split by content"
        return YamlLine("split", {"method": "random", "ratios": ratios}, why)
    if not of_images and (parted := parted_by_label(profile.sample, label)) > MOST_PARTED:
        why = f"by chance: {parted:.0%} of the rows repeat, with several labels; a split by content would part these"
        return YamlLine("split", {"method": "random", "ratios": ratios}, why)
    why = "by content: equal rows never fall into different splits"
    if VALIDATION in ratios:
        why += "; validation ends and chooses, eval judges"
    return YamlLine("split", {"method": "hash", "ratios": ratios}, why)


def ratios_of(profile: SourceProfile) -> dict[str, int]:
    """Returns the shares of the splits. Few rows give no validation, many a test part that no node looks at."""
    rows = profile.sample.total or profile.sample.seen
    if rows < _VALIDATION_FROM:
        return {"train": 8, "eval": 2}
    if rows < _TENTH_FROM:
        return {"train": 14, VALIDATION: 3, "eval": 3}
    if rows <= _TEST_ABOVE:
        return {"train": 8, VALIDATION: 1, "eval": 1}
    return {"train": 16, VALIDATION: 2, "eval": 1, "test": 1}


@rule("other splits", otherwise=[])
def other_splits(profile: SourceProfile, *, has_epoch: bool) -> list[YamlLine]:
    """Returns other ways to split that fit the data; `has_epoch` is whether a feature is the time itself."""
    if profile.found.source.given_splits:
        return []
    notes: list[YamlLine] = []
    for column in profile.columns:
        values = column.values
        words = words_of(column.name)
        person = words & PERSON_WORDS and (words <= PERSON_WORDS or words & {"id", "key", "no", "number", "name"})
        repeats = _FEWEST_PERSONS <= values.distinct < _MOST_PERSONS * values.present
        if person and column.kind == "category" and repeats:
            split = {"method": "hash", "column": column.name, "ratios": ratios_of(profile)}
            notes.append(YamlLine("split", split, f"instead: keeps all rows of one {column.name} in one split"))
    dated = next((column for column in profile.columns if _spans_weeks(column)), None)
    newest: dict[str, Any] | None = None
    if dated is not None and dated.dates is not None:
        moments = dated.dates.moments
        ends = np.nanquantile(dated.values.per_row(moments), _UNTIL)
        limits = [dated.values.texts[int(np.nanargmin(np.abs(moments - end)))] for end in ends]
        if dated.dates.format == "iso":  # the day is enough, and shorter
            limits = [re.split("[ T]", limit)[0] for limit in limits]
        newest = {"method": "time", "column": dated.name, "format": dated.dates.format, "until": _until(limits)}
    why = _NEWEST + (_WITHOUT_EPOCH if has_epoch else "")
    return [*notes, YamlLine("split", newest, why)] if newest is not None else notes


def _until(limits: Sequence[str]) -> dict[str, str]:
    """Returns the limits of a split by time; the newest part of the rows before eval is validation."""
    train, validation = limits
    return {"train": train} | ({VALIDATION: validation} if validation != train else {})


def _spans_weeks(column: ColumnProfile) -> bool:
    if column.kind != "date" or column.dates is None:
        return False
    moments = column.dates.moments
    return bool(np.nanmax(moments) - np.nanmin(moments) > _WEEKS)
