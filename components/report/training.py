"""The facts and charts of a training, from training.json."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fullpass.components.pages.charts import bar_chart, line_chart
from fullpass.trainer.config import VALIDATION
from fullpass.trainer.insight.leaderboard import cells, leaderboard
from fullpass.trainer.insight.words import chosen_on, epochs_words, tried_words

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Headings and rows of text."""
Facts = tuple[tuple[str, str], ...]
"""Names and values, in the order of the page."""
_JUDGED_BY = "eval, which judges too; to judge by other rows, add a split named validation"
_STEP = "Where the time of a training step goes; fullpass diagnose measures each stage of the input"


def training_facts(record: Mapping[str, Any]) -> Facts:
    """Returns the facts of `training.json`."""
    if "run_fn" in record:
        return ("run_fn", record["run_fn"]), ("seconds", f"{record['seconds']:.0f}")
    split, folds = chosen_on(record), record.get("folds")
    facts = (
        ("examples", ", ".join(f"{name} {rows:,}" for name, rows in record["rows"].items())),
        ("epochs", epochs_words(record)),
        *_of_model(record),
        ("kept model", tried_words(record) if record.get("compared") else ""),
        ("chosen on", _JUDGED_BY if split == "eval" else ""),
        ("folds", f"{folds} of train choose trees, linear model, and their shares of a blend" if folds else ""),
        ("classes", "; ".join(f"{name}: {rows:,}" for name, rows in record["classes"].items())),
        ("calibration", _calibration(record["calibration"], split) if record.get("calibration") else ""),
        ("decision", _decision(record["decision"], split) if record.get("decision") else ""),
        ("quantiles", _quantiles(record["history"], record["best_epoch"], split)),
    )
    return tuple((name, value) for name, value in facts if value)


def leaderboard_table(record: Mapping[str, Any]) -> Table:
    """Returns the headings and rows of the models that were tried; no rows if it was one."""
    return cells(leaderboard(record))


def training_charts(record: Mapping[str, Any]) -> tuple[Markup, ...]:
    """Returns the charts of `training.json`; trees have no training step."""
    if "run_fn" in record:
        return ()
    losses = {name: record["history"][name] for name in ("loss", "val_loss") if record["history"].get(name)}
    waited = record["step_ms"] * record["input_wait"]
    step = {"waiting for input": waited, "model update": record["step_ms"] - waited}
    return (
        line_chart(losses, y="loss", label="Loss by epoch", marks=record.get("restarts", ())),
        *([] if record.get("trees") else [bar_chart(step, unit="milliseconds", label=_STEP)]),
        bar_chart(record["seconds"], unit="seconds", label="Where the time of the Trainer goes"),
    )


def _of_model(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    of_trees = _of_trees(record) if record.get("trees") else []
    tried = record.get("compared") or {"": 0.0}
    if (record.get("blend") or {}).get("kept") or min(tried, key=lambda kind: tried[kind]) == "linear":
        return [*of_trees[:1], ("parameters", f"{record['parameters']:,}")]
    return of_trees or _of_network(record)


def _of_network(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("batch size", f"{record['batch_size']:,}, {record['steps_per_epoch']:,} steps an epoch"),
        ("parameters", f"{record['parameters']:,}"),
        ("speed", f"{record['examples_per_second']:,} examples/s on {record['devices']}, {record['precision']}"),
        ("input", f"awaited in {record['input_wait']:.0%} of the time; the train split is {record['input']['train']}"),
    ]


def _of_trees(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    trees = record["trees"]
    forests = trees["forests"]
    drawn = f", {trees['random']} of them with random thresholds" if trees["random"] else ""
    rows = "train and validation" if chosen_on(record) == VALIDATION else "all rows of train"
    again = f", in {forests} forests that grew on {rows}{drawn}" if forests else ""
    return [
        ("trees", f"{trees['trees']:,} with {trees['leaves']:,} leaves{again}; an epoch is ten rounds"),
        ("speed", f"{record['step_ms']:,.1f} ms a round on {record['devices']}"),
    ]


def _quantiles(history: Mapping[str, Sequence[float]], epoch: int, split: str) -> str:
    """Returns the share of labels below each quantile and its pinball loss, as text; "" without quantiles."""
    name = "val_coverage_"
    levels = [key.removeprefix(name) for key in history if key.startswith(name)]
    shares = {level: history[f"{name}{level}"][epoch - 1] for level in levels}
    losses = {level: history.get(f"val_pinball_{level}", [])[epoch - 1 : epoch] for level in levels}
    parts = [f"{level}: {shares[level]:.1%}" + "".join(f", loss {v:.4g}" for v in losses[level]) for level in levels]
    said = f"share of the {split} split's labels below each quantile, and pinball loss: {'; '.join(parts)}"
    return said if parts else ""


def _decision(record: Mapping[str, Any], split: str) -> str:
    """Returns the chosen threshold, as text; intervals are of 95 %."""
    value = f"{record['measured']} {record['value']:.4g} ({record['value_low']:.4g} to {record['value_high']:.4g})"
    text = (
        f"the positive class is predicted above a probability of {record['threshold']:.4g} "
        f"({record['low']:.4g} to {record['high']:.4g}); {value} on {record['rows']:,} rows of the {split} split, on "
        "which it was chosen"
    )
    return text if record["reached"] else f"{text}; no threshold reaches the required precision"


def _calibration(record: Mapping[str, Any], split: str) -> str:
    if "deviation" in record:
        raised = math.exp(record["shift"][0])
        return (
            f"the standard deviation of the logarithm's error is {record['deviation']:.3f}; predictions are the mean, "
            f"which is {raised:.3f} times the median"
        )
    before, after = record["before"], record["after"]
    gap = f"probabilities and shares of the {split} split differ by {after['gap']:.3f}"
    if record["scale"] == 1 and not any(record["shift"]):
        return f"{gap}; a correction would gain no more than chance"
    losses = f"log loss {before['log_loss']:.4f} to {after['log_loss']:.4f}"
    return f"{gap}, before the correction {before['gap']:.3f}; {losses}"
