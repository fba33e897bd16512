"""Judges means of the past of a series beside its present value, for a forecast of the next one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.init.search.judge import FOLDS, FoldJudge, Gain, gain_of
from fullpass.pipeline.authoring.profile.date_formats import repeating_groups

_ROWS = 20_000
"""The newest rows, which judge."""
_BLOCKS = 50
"""Parts of the time whose mean gains have the interval: the errors of neighbors are alike."""


def gain_of_past(
    entities: np.ndarray, moments: np.ndarray, values: np.ndarray, step: int, windows: Sequence[str]
) -> Gain | None:
    """Returns how much better the next value is predicted with the means of earlier ones, as `past_mean` makes them.

    Boosters predict each fifth of the time from the others; all know the entity, the present value, and month, day of
    the week and hour of the next one.

    Args:
        entities: int64 [rows].
        moments: Seconds, float64 [rows], different within an entity.
        values: float64 [rows], NaN for missing.
        step: Seconds to the next value.
        windows: How far back the means reach, as `3h`.

    Returns:
        None if too few rows have a next value, or all have the same, or the means do not pay.
    """
    at = pd.to_datetime(pd.Series(moments), unit="s")
    rows = pd.DataFrame({"entity": entities, "at": at, "value": values}).dropna(subset=["at"])
    rows = rows.sort_values(["entity", "at"]).reset_index(drop=True)
    of_entity = rows.groupby("entity")
    is_next = of_entity["at"].shift(-1) - rows["at"] == pd.Timedelta(step, "s")
    following = of_entity["value"].shift(-1).where(is_next)
    means = [of_entity.rolling(w, on="at", closed="left")["value"].mean().to_numpy() for w in windows]
    known = np.flatnonzero(following.notna() & rows["value"].notna())
    used = known[np.argsort(rows["at"].to_numpy()[known], kind="stable")][-_ROWS:]
    y = following.to_numpy()[used]
    if len(used) < _BLOCKS * FOLDS or not y.std():
        return None
    seconds = rows["at"].to_numpy()[used].astype("datetime64[s]").astype(float) + step
    columns = [Encoding(rows["value"].to_numpy()[used]), Encoding(rows["entity"].to_numpy()[used], "category")]
    columns += [Encoding(part.astype(float)) for part in repeating_groups(seconds)]
    judge = FoldJudge(y, np.arange(len(used)) * FOLDS // len(used), "regression")
    before, after = (judge.judged(all_of) for all_of in (columns, [*columns, *(Encoding(m[used]) for m in means)]))
    gains = np.array_split(after.scores - before.scores, _BLOCKS)
    gain = gain_of(np.array([part.mean() for part in gains]), judge.gain(before, after).metric)
    return gain if gain.pays(judge.price(len(windows))) else None
