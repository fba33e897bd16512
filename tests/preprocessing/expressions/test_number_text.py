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
    ("1234.5", "12.-", 12),
    ("1.234,5 €", "-1.200,\u2013 €", -1200),
    ("1234.5-", "12.-", 12),
    ("1234.5", "12-", None),
    ("1234.5-", "27.41-", -27.41),
    ("1234.5-", "27.41", 27.41),
    ("1234.5-", "5 +", 5),
    ("1234.5-", "-5-", None),
    ("1.234,5-", "1.234,50-", -1234.5),
    ("1,234.5- €", "5- €", -5),
    ("1,234.5 €-", "5- €", -5),
    ("1,234.5", "'-1,234", -1234),
    ("1234,5", "\u20195,5", 5.5),
    ("1234.5[1]", "28665[2]", 28665),
    ("1234.5[1]", "76 (+1)", 76),
    ("1234.5[1]", "98 (est.)", 98),
    ("1234.5*", "12*", 12),
    ("1234.5[1]", "(5)[2]", -5),
    ("1234.5[1]", "[2]", None),
    ("<1234.5", "<0.50", 0.5),
    ("<1234.5", "≥ -3", -3),
    ("~1234.5", "ca. 120", 120),
    ("~$1,234.5K", "~$1.2k", 1200),
    ("CA$1234.5", "CA$5", 5),
    ("1234.5", "<0.50", None),
    ("1234.5±0.1", "1.2±0.1", 1.2),
    ("1234.5±0.1 kg", "5 +/- 1.5 kg", 5),
    ("1234.5±0.1", "1.2±", None),
    ("2h 10m", "1h 50m", 110),
    ("2h 10m", "1 d, 2 hrs. and 3 minutes", 1563),
    ("2h 10m", "1h30", 90),
    ("2h 10m", "45s", 0.75),
    ("2h 10m", "-2h 10m", -130),
    ("2h 10m", "90", 90),
    ("2h 10m", "10m 2h", None),
    ("2h 10m", "h", None),
    ("1 hour 30 minutes", "50 MIN", 50),
    ("PT2H5M", "PT2H5M", 125),
    ("PT2H5M", "P1DT30S", 1440.5),
    ("PT2H5M", "P5M", None),
    ("PT2H5M", "PT", None),
    ("hh:mm", "102:30", 6150),
    ("hh:mm", "2:70", None),
    ("hh:mm:ss", "0 days 01:50:30", 110.5),
    ("mm:ss", "3:45", 3.75),
    ("mm:ss", "45", 45),
    ("5'11\"", "5' 11\"", 71),
    ("5'11\"", "6'", 72),
    ("5'11\"", "5’11”", 71),
    ("5 ft 11 in", "5'11", 71),
    ("5'11\"", "5'12", None),
]


def in_graph(texts, like):
    column = StringColumn(tf.constant(texts), tf.fill([len(texts)], True))
    quote = "'" if '"' in like and "'" not in like else '"'
    written = like.replace("\\", r"\\").replace('"', r"\"") if quote == '"' else like
    return compute_expression(parse_expression(f"number(text, {quote}{written}{quote})"), {"text": column}).numpy()


@pytest.mark.parametrize(("like", "text", "expected"), READ)
def test_what_is_read(like, text, expected):
    assert number_text(like).read(text) == (None if expected is None else pytest.approx(expected))
    np.testing.assert_allclose(in_graph([text], like), [np.nan if expected is None else expected], rtol=1e-6)


def by_hand(text, style):
    """An independent reader: splits at the decimal sign, and compares the digits with those that Python groups."""
    group, decimal = style[1 if style[1] in ",. '" else 2], style[-2]
    if group not in ",. '" or style.startswith("1234"):
        group = ""
    text = text.removeprefix("'").lstrip()
    sign = -1 if text[:1] == "-" else 1
    whole, _, rest = text.lstrip("+-").strip().partition(decimal)
    rest = "" if rest == "-" else rest
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


@pytest.mark.parametrize("like", ["", "x", "1,234", "1-234.5", "(1234.5)", "2:10", "90", "27.41-"])
def test_an_example_that_is_none_is_refused(like):
    with pytest.raises(ExpressionError, match="like must be an example"):
        check_types(parse_expression(f'number(a, "{like}")'), {"a": "string"})
