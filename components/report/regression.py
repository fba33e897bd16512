"""What the report shows of a regression's errors: predictions against labels, residuals by tenth, and a forecast."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.shown.shown_files import RegressionErrors
from fullpass.components.pages.charts import DASHED, MILLISECONDS, day, name, number
from fullpass.components.pages.vega import SWITCH, SWITCHED, ZOOM, chart, colors


@dataclass(frozen=True)
class ShownErrors:
    """The charts of a regression, and the number of rows that they show. bias: a sentence if all tenths err one way."""

    charts: tuple[Markup, ...]
    rows: int
    points: int
    bias: str = ""


def errors_section(errors: RegressionErrors | None) -> ShownErrors | None:
    """Returns the section; None if there are no errors."""
    if errors is None:
        return None
    return ShownErrors(tuple(_charts(errors)), errors.rows, len(errors.labels), _bias(errors))


def _bias(errors: RegressionErrors) -> str:
    if not errors.bias:
        return ""
    way = "low" if errors.bias > 0 else "high"
    return f"Predictions are too {way} in every tenth of the rows, by {metric_text(abs(errors.bias))} on average"


def _charts(errors: RegressionErrors) -> Iterator[Markup]:
    if errors.times:
        yield _over_time(errors)
    yield _predictions(errors)
    yield _residuals(errors)


def _over_time(errors: RegressionErrors) -> Markup:
    series = ("label", "prediction")
    rows = [
        {
            "at": one.time * MILLISECONDS,
            "time": f"{datetime.fromtimestamp(one.time * 86_400, UTC):%Y-%m-%d %H:%M}",
            "series": side,
            "mean": getattr(one, side),
            "rows": one.rows,
        }
        for side in series
        for one in errors.times
    ]
    encoding = {
        "x": day("at", "time"),
        "y": number("mean", scale={"zero": False}),
        "color": name("series", scale=colors(series)),
        "opacity": SWITCHED,
        "tooltip": [name("time"), name("series"), number("mean", format=".5~g"), number("rows", format=",")],
    }
    mark = {"type": "line", "point": len(errors.times) < 40}
    spec = {"width": "container", "params": [ZOOM, SWITCH], "mark": mark, "encoding": encoding}
    return chart({"data": {"values": rows}, **spec}, label="Label and prediction over time, means of rows")


def _predictions(errors: RegressionErrors) -> Markup:
    rows = [{"label": one, "prediction": two} for one, two in zip(errors.labels, errors.predictions, strict=True)]
    ends = [value for value in (*errors.labels, *errors.predictions) if math.isfinite(value)]
    x, y = (number(axis, scale={"zero": False}) for axis in ("label", "prediction"))
    same = [{"label": end, "prediction": end} for end in (min(ends), max(ends))]
    diagonal = {**DASHED, "type": "line", "color": "currentColor"}
    layers = [
        {"data": {"values": same}, "mark": diagonal, "encoding": {"x": x, "y": y}},
        {
            "params": [ZOOM],
            "mark": {"type": "point", "opacity": 0.4, "tooltip": True, "clip": True},
            "encoding": {"x": x, "y": y},
        },
    ]
    spec = {"data": {"values": rows}, "width": "container", "height": 260, "layer": layers}
    return chart(spec, label="Prediction over label")


def _residuals(errors: RegressionErrors) -> Markup:
    x, y = "mean prediction of a tenth", "mean of label - prediction"
    rows = [
        {x: one.prediction, y: one.residual, "low": one.residual - far, "high": one.residual + far}
        for one in errors.deciles
        for far in [0.0 if math.isnan(one.error) else half_width(one.error)]
    ]
    across = number(x, scale={"zero": False})
    layers = [
        {"mark": DASHED, "encoding": {"y": {"datum": 0}}},
        {"mark": "rule", "encoding": {"x": across, "y": number("low", y), "y2": {"field": "high"}}},
        {"mark": {"type": "point", "size": 50, "tooltip": True}, "encoding": {"x": across, "y": number(y)}},
    ]
    spec = {"data": {"values": rows}, "width": "container", "height": 260, "layer": layers}
    return chart(spec, label="Errors by tenth of the predictions, with intervals of 95 %")
