"""Formats the diagnosis of features as text and as JSON."""

import math
from collections.abc import Iterator
from typing import Any

from fullpass.base.errors import listed
from fullpass.pipeline.diagnose.diagnose_features import FeatureDiagnosis
from fullpass.pipeline.diagnose.diagnosis import aligned
from fullpass.pipeline.diagnose.feature_table import FeatureFacts

_HEAD = ("feature", "type", "missing", "commonest", "information", "importance")


def table(found: FeatureDiagnosis) -> str:
    """Returns the diagnosis as lines for people."""
    return "\n".join([*_feature_lines(found), "", *_loss_lines(found)])


def to_json(found: FeatureDiagnosis) -> dict[str, Any]:
    """Returns the diagnosis for programs; the information is in nats, and null is what was not measured."""
    return {
        "run": found.run,
        "features": [
            {
                "feature": one.name,
                "type": one.type,
                "missing": one.missing,
                "commonest": one.commonest,
                "duplicate_of": one.duplicate_of or None,
                "information": one.information,
                "importance": one.importance,
                "reach": one.reach,
                "advice": one.advice,
            }
            for one in found.features
        ],
        "without": {
            "features": found.dropped,
            "crosses": found.crosses,
            "train_rows": found.train_rows,
            "eval_rows": found.eval_rows,
            "metrics": [
                {
                    "metric": one.metric,
                    "all": one.a,
                    "without": one.b,
                    "difference": one.difference,
                    "reach": one.half_width,
                }
                for one in found.metrics
            ],
        },
    }


def _feature_lines(found: FeatureDiagnosis) -> Iterator[str]:
    yield (
        f"{len(found.features)} features of run {found.run}, the most useful first. Of {found.sampled:,} train rows: "
        f"missing, the share of the commonest value, and the information about {found.label} in nats, beyond chance. "
        "Of eval rows: importance, the growth of the loss when the feature is permuted."
    )
    lines = aligned([_HEAD, *map(_cells, found.features)])
    yield f"{next(lines)}  advice"
    yield from (f"{line}  {one.advice}" for line, one in zip(lines, found.features, strict=True))


def _cells(one: FeatureFacts) -> tuple[str, ...]:
    information = "" if one.information is None else f"{one.information:.4f}"
    importance = "" if one.importance is None else f"{one.importance:.4f} ± {one.reach:.4f}"
    return one.name, one.type, f"{one.missing:.1%}", f"{one.commonest:.1%}", information, importance


def _loss_lines(found: FeatureDiagnosis) -> Iterator[str]:
    crosses = f", and of the crosses {listed(list(found.crosses))}" if found.crosses else ""
    yield (
        f"Without {listed(list(found.dropped))}{crosses}: trained again on the same {found.train_rows:,} rows, as with "
        f"all features, and measured on the same {found.eval_rows:,}."
    )
    rows = [("metric", "all", "without", "difference", "95 % interval")]
    words = [""]
    for one in found.metrics:
        low, high = one.difference - one.half_width, one.difference + one.half_width
        interval = "" if math.isnan(one.half_width) else f"{low:+.4f} to {high:+.4f}"
        rows.append((one.metric, f"{one.a:.4f}", f"{one.b:.4f}", f"{one.difference:+.4f}", interval))
        words.append(one.words.replace("A is better", "a loss").replace("B is better", "a gain"))
    yield from (f"{line}  {word}".rstrip() for line, word in zip(aligned(rows), words, strict=True))
