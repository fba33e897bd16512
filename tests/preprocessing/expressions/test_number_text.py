"""Numbers as people write them: no cell is read as another number, and Python and the graph read the same."""

from decimal import Decimal

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.preprocessing.expressions.expression import ExpressionError, check_types, parse_expression
from fullpass.preprocessing.expressions.number_text import STYLES, number_text
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, compute_expression

READ = [
    ("1,234.5", "1,250.50", 1250.5),
    ("1,234.5", "1250", 1250),
    ("1,234.5", "3,10", None),
    ("1,234.5", "0,500", None),
    ("1,234.5", "1,2500", None),
    ("1,234.5", "1,234,56", None),
    ("$1,234.5", "-$1,250", -1250),
    ("$1,234.5", "$ -5", -5),
    ("$1,234.5", "($1,234.50)", -1234.5),
    ("$1,234.5", "(5", None),
    ("$1,234.5", "-$-5", None),
    ("$1,234.5", "€5", None),
    ("1.234,5 €", "1.234,50\u00a0€", 1234.5),
    ("1.234,5 €", "1.5", None),
    ("1234,5", "12,5", 12.5),
    ("1 234,5", "1\u202f234,5", 1234.5),
    ("1'234.5", "1’234", 1234),
    ("12,34,567.5", "12,34,567", 1234567),
    ("12,34,567.5", "123,456", None),
    ("1234.5", "\u22125", -5),
    ("1234.5", "5-", None),
    ("1234.5%", "45 %", 45),
    ("1234.5K", "19M", 19e6),
    ("$1234.5K", "$1.2k", 1200),
    ("1234.5K", "3 bn", 3e9),
    ("1,234.5+", "10,000+", 10_000),
    ("1234.5K+", "5M+", 5e6),
    ("1234.5 kg", "12.5kg", 12.5),
    ("1234.5 kg", "12.5 g", None),
    ("1234.5", "1.5e3", 1500),
    ("1234.5", "10-20", None),
    ("1234.5", "", None),
]


def in_graph(texts, like):
    column = StringColumn(tf.constant(texts), tf.fill([len(texts)], True))
    return compute_expression(parse_expression(f'number(text, "{like}")'), {"text": column}).numpy()


@pytest.mark.parametrize(("like", "text", "expected"), READ)
def test_what_is_read(like, text, expected):
    assert number_text(like).read(text) == (None if expected is None else pytest.approx(expected))
    np.testing.assert_allclose(in_graph([text], like), [np.nan if expected is None else expected], rtol=1e-6)


def by_hand(text, style):
    """An independent reader: splits at the decimal sign, and compares the digits with those that Python groups."""
    group, decimal = style[1 if style[1] in ",. '" else 2], style[-2]
    if group not in ",. '" or style.startswith("1234"):
        group = ""
    sign = -1 if text[:1] == "-" else 1
    whole, _, rest = text.lstrip("+-").strip().partition(decimal)
    if len(text) - len(text.lstrip("+-")) > 1 or not (whole + rest) or (rest and not rest.isdigit()):
        return None
    digits = whole.replace(group, "") if group else whole
    if digits and not digits.isdigit() or (not digits and whole):
        return None
    if group and group in whole:
        thousands = f"{int(digits):,}" if style.count(",") < 2 else indian(str(int(digits)))
        if thousands.replace(",", group) != whole:
            return None
    return float(sign * Decimal(f"{digits or 0}.{rest or 0}"))


def indian(digits):
    head, tail = digits[:-3], digits[-3:]
    return ",".join([*(head[max(i - 2, 0) : i] for i in range(len(head), 0, -2))][::-1] + [tail])


@pytest.mark.integration
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("0123,. '-+5", min_size=1, max_size=9).map(str.strip), min_size=1), st.sampled_from(STYLES))
def test_no_cell_is_read_as_another_number(texts, style):
    expected = [by_hand(text, style) for text in texts]
    assert [number_text(style).read(text) for text in texts] == expected
    graph = in_graph(texts, style)
    np.testing.assert_allclose(graph, [np.nan if e is None else e for e in expected], rtol=1e-6)


@pytest.mark.parametrize("like", ["", "x", "1,234", "1-234.5", "(1234.5)"])
def test_an_example_that_is_none_is_refused(like):
    with pytest.raises(ExpressionError, match="like must be an example"):
        check_types(parse_expression(f'number(a, "{like}")'), {"a": "string"})
