"""The text of metrics and of their differences, on the terminal, in reports and in messages."""

import math

_SHOWN = 0.001
"""Four decimals would show less than two digits of a number below it."""
WHOLE = 2.0**53
"""A float has no decimals from here on."""


def metric_text(value: float, half_width: float | None = None) -> str:
    """Returns a metric, and half of its interval if that is known, with four decimals.

    The numbers of a small unit, such as the errors of a rate, have four digits instead, and so have those of a large
    one, such as the errors of amounts in the smallest unit of a currency.

    Args:
        half_width: In the unit of `value`; None or NaN if unknown.

    Example:
        >>> metric_text(0.85304, 0.05), metric_text(0.0), metric_text(2.345678e-05, 1.2e-06)
        ('0.8530 ± 0.0500', '0.0000', '2.346e-05 ± 1.2e-06')
    """
    return _text(value, half_width, "")


def difference_text(value: float, half_width: float | None = None) -> str:
    """Returns the difference of two metrics as `metric_text` does, with its sign.

    Example:
        >>> difference_text(0.00002, 0.0045), difference_text(-2e-05)
        ('+0.0000 ± 0.0045', '-2e-05')
    """
    return _text(value, half_width, "+")


def _text(value: float, half_width: float | None, sign: str) -> str:
    reach = math.nan if half_width is None else half_width
    largest = abs(value) if math.isnan(reach) else max(abs(value), reach)
    form = ".4g" if 0 < largest < _SHOWN or largest >= WHOLE else ".4f"
    return f"{value:{sign}{form}}" + ("" if math.isnan(reach) else f" ± {reach:{form}}")
