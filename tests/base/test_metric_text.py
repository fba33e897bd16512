"""Metrics as text: four decimals, unless these hide a small unit."""

import math

import pytest

from fullpass.base.metric_text import difference_text, metric_text


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (0.85304, None, "0.8530"),
        (16988.910423, 12.5, "16988.9104 ± 12.5000"),
        (0.0, 0.0, "0.0000 ± 0.0000"),
        (0.00002, 0.0045, "0.0000 ± 0.0045"),  # that it is 0.0000 within 0.0045 is all that the rows tell
        (2.345678e-05, 1.2e-06, "2.346e-05 ± 1.2e-06"),
        (9.632e-31, math.nan, "9.632e-31"),
        (156437928970078978048.0, 2.5e18, "1.564e+20 ± 2.5e+18"),
        (-0.00041, None, "-0.00041"),
        (math.nan, None, "nan"),
    ],
)
def test_the_text_of_a_metric(value, half_width, text):
    assert metric_text(value, half_width) == text


def test_a_difference_has_a_sign():
    assert [difference_text(v) for v in (0.25, -0.25, 0.0, 3e-07)] == ["+0.2500", "-0.2500", "+0.0000", "+3e-07"]
