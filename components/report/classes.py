"""What the report shows of scores and classes: curves, confusion matrices, a table of metrics, one against the rest.

The curves of two classes share a threshold that the reader drags: confusion matrix and costs follow.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.score_curves import Curve, Curves, Decisions
from fullpass.components.pages.charts import DASHED, name, number, short_label
from fullpass.components.pages.vega import BAR, SWITCH, SWITCHED, ZOOM, chart, colors

MODELS = ("new model", "last blessed")
_LONGEST = 100
"""Characters of the name of a class, which a narrow page breaks into lines."""
_MOST_COUNTED, _MOST_WRITTEN = 4, 10
"""Classes up to which the cells of a matrix have room for numbers of rows, and for their shares."""
_STEP = 0.01
_HERE = f"abs(datum.threshold - threshold) < {_STEP / 2}"
"""Which decisions are those of the dragged threshold."""
_AXIS = {"format": ".1~f"}
_WHOLE = {"domain": [0, 1]}


@dataclass(frozen=True)
class ShownPairs:
    """The most confused pairs of many classes, by one model. rows: class, predicted class and number of rows."""

    model: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ShownClasses:
    """The classes of the models.

    Attributes:
        matrices: The confusion matrix of each model, if it has few classes.
        pairs: The most confused pairs of each model with many classes.
        names: Names of the metrics of a class.
        rows: A class, its share of the rows, and its metrics.
        left_out: Number of classes that `rows` do not show.
        charts: Curves of the classes of one model, or of each class by all models.
    """

    matrices: tuple[Markup, ...]
    pairs: tuple[ShownPairs, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    charts: tuple[Markup, ...]


def classes_section(
    results: Sequence[ClassResults | None], rows: int, models: Sequence[str] = MODELS
) -> ShownClasses | None:
    """Returns the section; None if the new model has no classes.

    Args:
        results: Classes of each model, the new model first.
        rows: Number of rows; if the rows have other weights than 1, matrices have shares only.
        models: The names of the models.
    """
    if not results or results[0] is None:
        return None
    new = results[0]
    total = sum(one.weight for one in new.classes)
    with_cells = {model: one for model, one in zip(models, results, strict=False) if one and one.cells}
    counted = {model: sum(c.weight for c in one.classes) == rows for model, one in with_cells.items()}
    return ShownClasses(
        tuple(_matrix(m, one, counted=counted[m]) for m, one in with_cells.items() if one.is_whole),
        tuple(_pairs(m, one, counted=counted[m]) for m, one in with_cells.items() if not one.is_whole),
        tuple(new.classes[0].metrics),
        tuple(_class(one, total) for one in new.classes),
        new.count - len(new.classes),
        tuple(_charts({model: one for model, one in zip(models, results, strict=False) if one and one.roc})),
    )


def _charts(results: Mapping[str, ClassResults]) -> Iterator[Markup]:
    """Yields the curves of all classes of one model together, or a ROC curve per class with all models."""
    if len(results) == 1:
        [one] = results.values()
        yield _roc(one.roc, "ROC curves")
        yield _precision_recall(one.precision_recall, "Precision-recall curves")
    elif results:
        first = next(iter(results.values()))
        for of_class in (k for k in first.roc if all(k in one.roc for one in results.values())):
            yield _roc({model: one.roc[of_class] for model, one in results.items()}, f"ROC curve of {_name(of_class)}")


def _matrix(model: str, results: ClassResults, *, counted: bool) -> Markup:
    rows: list[dict[str, Any]] = [
        {
            "class": _name(cell.label),
            "predicted as": _name(cell.predicted),
            **({"rows": cell.weight} if counted else {}),
            "of the class": cell.share,
            "±": half_width(cell.error),
        }
        for cell in results.cells
    ]
    names = list(dict.fromkeys(row["class"] for row in rows))
    spec = {
        "data": {"values": rows},
        **_heat_map(names, step=BAR if len(names) > _MOST_COUNTED else 36, counted=counted),
    }
    return chart(spec, label=f"Confusion matrix, {model}")


def _heat_map(names: Sequence[str], *, step: int, counted: bool) -> dict[str, Any]:
    """Returns size and layers of a confusion matrix. step: height of a class in pixels."""
    axis, angle = {"labelLimit": 110}, -30 if len(names) > _MOST_COUNTED else 0
    shown = {
        "y": {**name("class", axis=axis), "sort": names},
        "x": {**name("predicted as", axis={**axis, "labelAngle": angle}), "sort": names},
    }
    share, rows = number("of the class", format=".1%"), number("rows", format=",.0f")
    told = [name("class"), name("predicted as"), *([rows] if counted else []), share]
    color = number("of the class", legend=None, scale=_WHOLE)
    layers: list[dict[str, Any]] = [{"mark": "rect", "encoding": {**shown, "color": color, "tooltip": told}}]
    written = [*([rows] if counted and len(names) <= _MOST_COUNTED else []), share]
    for place, text in enumerate(written if len(names) <= _MOST_WRITTEN else ()):
        down = 16 * place - 8 * (len(written) - 1)
        mark, known = {"type": "text", "dy": down}, f"isValid(datum['{text['field']}'])"
        layers.append({"transform": [{"filter": known}], "mark": mark, "encoding": {**shown, "text": text}})
    return {"width": "container", "height": step * len(names), "layer": layers}


def _pairs(model: str, results: ClassResults, *, counted: bool) -> ShownPairs:
    cells = results.cells
    return ShownPairs(model, tuple((_name(c.label), _name(c.predicted), _cell(c, counted=counted)) for c in cells))


def _cell(cell: Cell, *, counted: bool) -> str:
    share = _with_interval(cell.share, cell.error, "{:.1%}")
    return f"{cell.weight:,.0f} ({share})" if counted else share


def _class(one: OfClass, total: float) -> tuple[str, ...]:
    values = (_with_interval(*of, "{:.4f}") for of in one.metrics.values())
    return (_name(one.name), f"{one.weight / total:.1%}", *values)


def _with_interval(value: float, error: float, form: str) -> str:
    if math.isnan(value):
        return ""
    return form.format(value) + ("" if math.isnan(error) else f" ± {form.format(half_width(error))}")


def _name(text: str) -> str:
    return short_label(text, _LONGEST)


def curve_charts(
    curves: Sequence[Curves | None],
    models: Sequence[str] = MODELS,
    threshold: float = 0.5,
    classes: Sequence[ClassResults | None] = (),
) -> tuple[Markup, ...]:
    """Returns the charts; empty if no model has curves.

    Args:
        curves: Those of each model, in the order of their names.
        classes: The results of the models, which name the two classes.
        threshold: Where the dragged threshold begins.
    """
    of_models = {model: one for model, one in zip(models, curves, strict=False) if one is not None}
    if not of_models:
        return ()
    roc, precision, calibration = (
        {model: getattr(one, field) for model, one in of_models.items()}
        for field in ("roc", "precision_recall", "calibration")
    )
    decided = {model: one.decisions for model, one in of_models.items() if one.decisions}
    if not decided:
        return (
            _roc(roc, "ROC curve"),
            _precision_recall(precision, "Precision-recall curve"),
            _calibration(calibration, {}),
        )
    start = {"name": "threshold", "value": round(threshold / _STEP) * _STEP}
    slider = {**start, "bind": {"input": "range", "min": 0, "max": 1, "step": _STEP, "name": "threshold "}}
    named = next((one.cells for one in classes if one and one.is_whole), ())
    names = [_name(named[-1].label), _name(named[0].label)] if named else ["positive", "negative"]
    shared = {"params": [start], "usermeta": {"shared": ["threshold"]}}
    points = [row for model, one in decided.items() for row in _decisions(model, one)]
    return (
        *(_decided(model, one, names, {**shared, "params": [slider]}) for model, one in decided.items()),
        _costs(list(decided), points, start),
        _roc(roc, "ROC curve", shared, _dot(points, "false positive rate", "true positive rate", list(roc))),
        _precision_recall(
            precision, "Precision-recall curve", shared, _dot(points, "recall", "precision", list(precision))
        ),
        _calibration(calibration, shared),
    )


def _decisions(model: str, of: Decisions) -> Iterator[dict[str, Any]]:
    """Yields what is known of each threshold, as rows of a chart."""
    for threshold, true, false in zip(of.thresholds, of.true, of.false, strict=True):
        yield {
            "series": model,
            "threshold": round(threshold, 3),
            "false positive rate": round(false / of.negative, 5),
            "true positive rate": round(true / of.positive, 5),
            "recall": round(true / of.positive, 5),
            "precision": round(true / (true + false), 5) if true + false else None,
            "misses": of.positive - true,
            "false alarms": false,
        }


def _dot(points: Sequence[Mapping[str, Any]], x: str, y: str, models: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the layer that shows where the threshold is on a curve."""
    rows = [{key: row[key] for key in ("series", "threshold", x, y)} for row in points]
    return [
        {
            "data": {"values": rows},
            "transform": [{"filter": _HERE}],
            "mark": {"type": "point", "size": 90, "tooltip": {"content": "data"}},
            "encoding": {"x": number(x), "y": number(y), "color": name("series", scale=colors(models))},
        }
    ]


def _decided(model: str, of: Decisions, names: Sequence[str], shared: Mapping[str, Any]) -> Markup:
    """Returns the confusion matrix of two classes at the dragged threshold. names: the positive class first."""
    cells = ((0, 0), (0, 1), (1, 0), (1, 1))
    by_cell = (of.true, [of.positive - n for n in of.true], of.false, [of.negative - n for n in of.false])
    rows = [
        {"threshold": round(threshold, 3), "class": names[label], "predicted as": names[said], "rows": weight}
        | {"of the class": round(weight / (of.positive, of.negative)[label], 5)}
        for (label, said), weights in zip(cells, by_cell, strict=True)
        for threshold, weight in zip(of.thresholds, weights, strict=True)
    ]
    spec = {"data": {"values": rows}, **shared, "transform": [{"filter": _HERE}]}
    return chart({**spec, **_heat_map(names, step=70, counted=True)}, label=f"Decisions at a threshold, {model}")


def _costs(models: Sequence[str], points: Sequence[Mapping[str, Any]], start: Mapping[str, Any]) -> Markup:
    """Returns what misses and false alarms cost at each threshold, by prices that the reader sets."""
    rows = [{key: row[key] for key in ("series", "threshold", "misses", "false alarms")} for row in points]
    prices = {"price_of_a_miss": "a miss costs ", "price_of_a_false_alarm": "a false alarm costs "}
    params = [
        {"name": one, "value": 1, "bind": {"input": "number", "min": 0, "name": words}} for one, words in prices.items()
    ]
    cost = "datum.misses * price_of_a_miss + datum['false alarms'] * price_of_a_false_alarm"
    x, y = number("threshold", axis=_AXIS), number("cost")
    color = name("series", scale=colors(models), legend=None if len(models) == 1 else {})
    told = [name("series"), number("threshold"), number("misses", format=",.0f")]
    told += [number("false alarms", format=",.0f"), number("cost", format=",.6~g")]
    cheapest = [
        {"joinaggregate": [{"op": "min", "field": "cost", "as": "least"}], "groupby": ["series"]},
        {"filter": "datum.cost == datum.least"},
        {"joinaggregate": [{"op": "min", "field": "threshold", "as": "first"}], "groupby": ["series"]},
        {"filter": "datum.threshold == datum.first"},
        {"calculate": "datum.series + ': least at ' + datum.threshold", "as": "words"},
    ]
    layers = [
        {"mark": "line", "encoding": {"x": x, "y": y, "color": color}},
        {
            "transform": [{"filter": _HERE}],
            "mark": {"type": "point", "size": 90},
            "encoding": {"x": x, "y": y, "color": color, "tooltip": told},
        },
        *(
            {
                "transform": [*cheapest, {"filter": {"field": "series", "equal": model}}],
                "mark": {"type": "text", "dy": -10 - 14 * place, "baseline": "bottom"},
                "encoding": {"x": x, "y": y, "text": name("words")},
            }
            for place, model in enumerate(models)
        ),
    ]
    spec = {
        "data": {"values": rows},
        "params": [start, *params],
        "usermeta": {"shared": ["threshold", *prices]},
        "transform": [{"calculate": cost, "as": "cost"}],
        "width": "container",
        "layer": layers,
    }
    return chart(spec, label="Costs by threshold")


def _roc(
    curves: Mapping[str, Curve],
    label: str,
    shared: Mapping[str, Any] | None = None,
    more: Sequence[Mapping[str, Any]] = (),
) -> Markup:
    axes = ("false positive rate", "true positive rate")
    return curve_chart(curves, *axes, label=label, shared=shared, more=[*_diagonal(*axes), *more])


def _precision_recall(
    curves: Mapping[str, Curve],
    label: str,
    shared: Mapping[str, Any] | None = None,
    more: Sequence[Mapping[str, Any]] = (),
) -> Markup:
    return curve_chart(curves, "recall", "precision", label=label, shared=shared, more=more)


def _calibration(curves: Mapping[str, Curve], shared: Mapping[str, Any]) -> Markup:
    axes = ("mean score", "share positive")
    here = [{"mark": DASHED, "encoding": {"x": {"datum": {"expr": "threshold"}, "type": "quantitative"}}}]
    more = [*_diagonal(*axes), *(here if shared else [])]
    return curve_chart(curves, *axes, label="Calibration curve", shared=shared, points=True, more=more)


def _diagonal(x: str, y: str) -> list[dict[str, Any]]:
    ends = {"data": {"values": [{x: 0, y: 0}, {x: 1, y: 1}]}, "encoding": {"x": number(x), "y": number(y)}}
    return [{**ends, "mark": {**DASHED, "type": "line", "color": "currentColor"}}]


def curve_chart(
    curves: Mapping[str, Curve],
    x: str,
    y: str,
    *,
    label: str,
    points: bool = False,
    shared: Mapping[str, Any] | None = None,
    more: Sequence[Mapping[str, Any]] = (),
) -> Markup:
    """Returns a chart with one line per curve; up to two have a band of their 95 % intervals.

    Args:
        curves: Name -> curve; both axes range from 0 to 1.
        shared: Top-level properties of the specification.
        more: Further layers.
    """
    rows = [
        {
            "series": _name(one),
            x: round(at, 5),
            y: round(height, 5),
            "low": max(height - far, 0),
            "high": min(height + far, 1),
        }
        for one, curve in curves.items()
        for at, height, error in zip(curve.x, curve.y, curve.error, strict=True)
        for far in [0.0 if math.isnan(error) else half_width(error)]
        if math.isfinite(at) and math.isfinite(height)
    ]
    names = list(map(_name, curves))
    place = {"x": number(x, axis=_AXIS, scale=_WHOLE), "y": number(y, axis=_AXIS, scale=_WHOLE)}
    color = name("series", scale=colors(names), legend=None if len(names) == 1 else {})
    band = {
        "mark": {"type": "area", "opacity": 0.2, "clip": True},
        "encoding": {"x": place["x"], "y": number("low", y), "y2": {"field": "high"}, "color": color},
    }
    line = {
        "params": [ZOOM, SWITCH],
        "mark": {"type": "line", "point": points, "tooltip": True, "clip": True},
        "encoding": {**place, "color": color, "opacity": SWITCHED, "order": number(x)},
    }
    layers = [*([band] if len(names) <= 2 else []), line, *more]
    spec = {"data": {"values": rows}, **(shared or {}), "width": "container", "height": 240, "layer": layers}
    return chart(spec, label=label)
