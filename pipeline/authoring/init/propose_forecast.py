"""`fullpass init`: proposes a forecast where the rows are a series, one per entity and time step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fullpass.pipeline.authoring.init.propose_features import feature_of
from fullpass.pipeline.authoring.init.propose_label import ChosenLabel, quoted, unique
from fullpass.pipeline.authoring.init.search.judge import Gain
from fullpass.pipeline.authoring.init.search.past import gain_of_past
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.preprocessing.dates.read_dates import read_dates

_FEWEST_STEPS = 20
"""Rows of an entity, on average: fewer are no series to learn from."""
_MOSTLY = 0.9
"""Share of the steps of one length; days may be left out."""
_MOST_KEYS = 6
"""Columns that are looked at as keys, those with the fewest values, alone and in pairs."""
_HOUR, _DAY = 3600, 86_400
_SEASONS = {_HOUR: "24h", _DAY: "7d"}
"""Length of a step, in seconds -> the season that such series usually have."""
_WINDOWS: Mapping[int, Sequence[str]] = {_HOUR: ("3h", "24h", "7d"), _DAY: ("3d", "7d", "28d")}
"""Length of a step -> how far back the means of the past reach that are tried."""


@dataclass(frozen=True)
class ProposedForecast:
    """The lines of a forecast, each a comment of the file.

    Attributes:
        features: The present value, and what is known of the past.
        history: The values before; none if they do not pay.
        derive: Means of these.
    """

    label: YamlLine
    features: Sequence[YamlLine] = ()
    history: Sequence[YamlLine] = ()
    derive: Sequence[YamlLine] = ()


def propose_forecast(
    profile: SourceProfile, chosen: ChosenLabel, *, seconds: float, taken: Sequence[str]
) -> ProposedForecast | None:
    """Returns the label as a value one step later; None if the rows are no series with whole hours between its steps.

    Only a source that was seen as a whole can be judged, and only a label that is a column.

    Args:
        seconds: Processor seconds that `init` may try representations for; with 0 it does not look at the past.
        taken: Names that no feature may have.
    """
    if not profile.sample.whole or chosen.derive is not None:
        return None
    for dated in (column for column in profile.columns if column.dates is not None):
        moments = _moments(profile, dated)
        for names in _keys(profile, chosen):
            codes = _codes(profile, names)
            step = _step(codes, moments)
            if step is None:
                continue
            ahead = f"{step // _DAY}d" if step % _DAY == 0 else f"{step // _HOUR}h"
            forecast: dict[str, Any] = {"ahead": ahead, **({"season": _SEASONS[step]} if step in _SEASONS else {})}
            forecast |= {"entity": names[0] if len(names) == 1 else list(names), "at": dated.name}
            forecast |= {"format": dated.dates.format} if dated.dates and dated.dates.format != "iso" else {}
            per = " and ".join((*names, ahead))
            why = f"instead, a forecast: one row per {per}; with the split by time (docs/forecasts.md)"
            label = YamlLine("label", {**chosen.guess.settings, "forecast": forecast}, why)
            if chosen.guess.task != "regression" or chosen.column.kind != "number" or chosen.column.like is not None:
                return ProposedForecast(label)
            present = replace(feature_of(chosen.column, None), why="with the forecast: the present value")
            is_named = "`" not in present.name and present.name.isprintable()  # else no expression can read it
            windows = _WINDOWS.get(step, ()) if seconds > 0 and is_named else ()
            values = pd.to_numeric(profile.sample.seen_columns[chosen.column.name].to_pandas(), errors="coerce")
            gain = gain_of_past(codes, moments, values.to_numpy(float), step, windows) if windows else None
            return _with_past(label, present, windows, gain, taken) if gain else ProposedForecast(label, [present])
    return None


def _with_past(
    label: YamlLine, present: YamlLine, windows: Sequence[str], gain: Gain, taken: Sequence[str]
) -> ProposedForecast:
    own = {key: name for key, name in label.value["forecast"].items() if key in ("entity", "at", "format")}
    history = {"past": {**own, "columns": [present.name], "within": windows[-1]}}
    names = [unique(f"{present.name}_{window}", taken) for window in windows]
    of_past = quoted(f"past.{present.name}")
    derive = [YamlLine(name, f'past_mean({of_past}, "{w}")') for name, w in zip(names, windows, strict=True)]
    why = f"one of {len(names)} means of the past: {gain.text}"
    features = [YamlLine(name, {"type": "number", "missing": "mean"}, why) for name in names]
    return ProposedForecast(label, [present, *features], [YamlLine("history", history, "with the forecast")], derive)


def _keys(profile: SourceProfile, chosen: ChosenLabel) -> Iterator[tuple[str, ...]]:
    """Yields columns that may tell entities apart, alone and in pairs."""
    fitting = [c for c in profile.columns if c.kind in ("category", "number", "boolean") and c.values.present]
    whole = [c for c in fitting if c.numbers is None or c.numbers.whole]
    others = sorted((c for c in whole if c.name != chosen.column.name), key=lambda c: c.values.distinct)
    names = [column.name for column in others if column.values.missing_share == 0][:_MOST_KEYS]
    yield from ((name,) for name in names)
    yield from combinations(names, 2)


def _moments(profile: SourceProfile, dated: ColumnProfile) -> np.ndarray:
    """Returns the time of each row seen, in seconds since 1970, float64 [seen]; NaN for none."""
    assert dated.dates is not None  # noqa: S101
    encoded = profile.sample.seen_columns[dated.name].dictionary_encode()
    seconds = read_dates(encoded.dictionary.cast(pa.string()), dated.dates.format).seconds
    return np.append(seconds, np.nan)[encoded.indices.fill_null(len(seconds)).to_numpy()]


def _codes(profile: SourceProfile, names: tuple[str, ...]) -> np.ndarray:
    """Returns the entity of each row seen, int64 [seen]."""
    codes = np.zeros(profile.sample.seen, np.int64)
    for name in names:
        encoded = profile.sample.seen_columns[name].dictionary_encode()
        own = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        codes = codes * (len(encoded.dictionary) + 1) + own
    return codes


def _step(entities: np.ndarray, moments: np.ndarray) -> int | None:
    """Returns the usual step between the rows of an entity, in seconds; None if they are no series."""
    known = ~np.isnan(moments)
    entities, moments = entities[known], moments[known]
    order = np.lexsort((moments, entities))
    steps = np.diff(moments[order])[np.diff(entities[order]) == 0]
    if len(steps) < (1 - 1 / _FEWEST_STEPS) * len(entities) or not len(steps) or steps.min() <= 0:
        return None
    lengths, counts = np.unique(steps, return_counts=True)
    usual = float(lengths[counts.argmax()])
    return int(usual) if counts.max() >= _MOSTLY * len(steps) and usual % _HOUR == 0 else None
