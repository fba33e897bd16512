"""The leaderboard of a run: the models that it tried, alone and blended, and the trials of its search."""

from collections.abc import Mapping, Sequence
from typing import Any

from fullpass.base.metric_text import metric_text

Rows = Sequence[Mapping[str, Any]]

_FIRST = ("model", "kept", "blend_weight", "metric", "validation")
_LAST = ("train_seconds", "predict_ms")
_HEADINGS = {"blend_weight": "in the blend", "train_seconds": "training, s", "predict_ms": "1,000 rows, ms"}


def leaderboard(training: Mapping[str, Any], trials: Rows = ()) -> list[dict[str, Any]]:
    """Returns what was tried as rows of a table: models, the best on eval first, then trials, the best first.

    Args:
        training: The content of training.json, or the fact of that name.
        trials: The successful trials of a search, best first: the score by its metric, and `hyperparameters`.

    Returns:
        Of each: model, which is a kind or the values of a trial; kept, whether it was exported, or trained as the trial
        was; blend_weight; metric, by which it was chosen; validation, its value on the rows that chose; `eval_` and a
        metric; train_seconds; predict_ms, the milliseconds of 1,000 rows. What was not measured is absent or None.
    """
    monitor, compared = (training.get("model") or {}).get("monitor"), training.get("compared") or {}
    found = sorted(training.get("candidates") or (), key=lambda one: one["eval"].get(monitor, 0.0))
    kept = (
        "blend"
        if (training.get("blend") or {}).get("kept")
        else min(compared, key=lambda kind: compared[kind], default="")
    )
    models = [
        {
            "model": one["kind"],
            "kept": one["kind"] == kept,
            "blend_weight": one["weight"],
            "metric": monitor,
            "validation": one["validation"],
            **{f"eval_{name}": value for name, value in one["eval"].items() if name != "loss" or monitor == "loss"},
            **{name: one[name] for name in _LAST},
        }
        for one in found
    ]
    return models + [
        {
            "model": ", ".join(f"{path}: {_short(value)}" for path, value in trial["hyperparameters"].items()),
            "kept": number == 0,
            "metric": name,
            "validation": score,
        }
        for number, trial in enumerate(trials)
        for name, score in list(trial.items())[:1]
    ]


def columns(rows: Rows) -> tuple[str, ...]:
    """Returns the columns of the rows of one or several leaderboards, in their order."""
    return (*_FIRST, *dict.fromkeys(name for row in rows for name in row if name.startswith("eval_")), *_LAST)


def cells(rows: Rows) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns the headings and the rows of a table of text; columns without a value are left out."""
    shown = [name for name in columns(rows) if any(row.get(name) is not None for row in rows)]
    headings = tuple(_HEADINGS.get(name, name.replace("_", " ")) for name in shown)
    return headings, [tuple(_text(name, row.get(name)) for name in shown) for row in rows]


def _text(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "kept" if value else ""
    return f"{value:.2f}" if name == "blend_weight" else f"{value:,.1f}" if name in _LAST else metric_text(value)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
