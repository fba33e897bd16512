import math
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.preprocessing.dates import date_ops
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY, PARTS, UNITS, compile_format
from fullpass.preprocessing.dates.read_dates import read_dates

pytestmark = pytest.mark.integration
FEW = settings(max_examples=20)
"""An op takes about as long for a hundred values as for one, so there are few examples of many values."""

EPOCH = datetime(1970, 1, 1)
MOMENTS = st.datetimes(min_value=datetime(1600, 1, 1), max_value=datetime(2400, 12, 31, 23, 59, 59, 999_999))
MICROSECOND = timedelta(microseconds=1)


@cache
def parser(format_text):
    """Returns `date_ops.parse_dates` as a graph, as Fullpass calls it; eagerly it takes ten times as long."""
    written = compile_format(format_text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def parsed(values):
        return date_ops.parse_dates(values, written)

    return parsed


def parse(texts, format_text="iso"):
    return parser(format_text)(tf.constant(texts, tf.string))


def read(texts, format_text="iso"):
    """Returns the dates as Python datetimes; None is missing. The graph and `read_dates` read the same."""
    days, microseconds, offset, valid = (x.numpy() for x in parse(texts, format_text))
    if all(isinstance(text, str) for text in texts):
        elsewhere = read_dates(pa.array(texts, pa.string()), format_text)
        assert elsewhere.valid.tolist() == valid.tolist(), texts
        assert elsewhere.local.tolist() == (days * MICROSECONDS_PER_DAY + microseconds).tolist(), texts
        assert elsewhere.offset.tolist() == offset.tolist(), texts
    return [
        EPOCH + timedelta(days=int(d), microseconds=int(m)) if v else None
        for d, m, v in zip(days, microseconds, valid, strict=True)
    ]


def part(texts, name):
    return date_ops.part(parse(texts), name).numpy()


def python_parts(moment):
    """Returns every date part except epoch, computed with Python's datetime."""
    return {
        "year": moment.year,
        "quarter": math.ceil(moment.month / 3),
        "month": moment.month,
        "day": moment.day,
        "hour": moment.hour,
        "minute": moment.minute,
        "second": moment.second,
        "day_of_week": moment.weekday(),
        "day_of_year": moment.timetuple().tm_yday,
        "week_of_year": moment.isocalendar().week,
        "weekend": float(moment.strftime("%A") in ("Saturday", "Sunday")),
    }


def test_every_day_from_1600_to_2400_against_python():
    days = [date.fromordinal(n) for n in range(date(1600, 1, 1).toordinal(), date(2401, 1, 1).toordinal())]
    column = parse([day.isoformat() for day in days])
    assert column.valid.numpy().all()
    epoch = date(1970, 1, 1).toordinal()
    np.testing.assert_array_equal(column.days, [day.toordinal() - epoch for day in days])
    expected = {
        "year": [day.year for day in days],
        "month": [day.month for day in days],
        "day": [day.day for day in days],
        "day_of_week": [day.weekday() for day in days],
        "day_of_year": [day.timetuple().tm_yday for day in days],
        "week_of_year": [day.isocalendar().week for day in days],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(date_ops.part(column, name), np.float32(values), err_msg=name)


def test_a_date_exists_exactly_where_the_calendar_has_it():
    texts, exists = [], []
    for year in (1, 4, 100, 400, 1582, 1600, 1899, 1900, 2000, 2023, 2024, 2100, 9999):
        for month in range(1, 13):
            for day in range(1, 32):
                texts.append(f"{year:04}-{month:02}-{day:02}")
                try:
                    exists.append(date(year, month, day) is not None)
                except ValueError:
                    exists.append(False)
    np.testing.assert_array_equal(parse(texts).valid, exists)


def test_the_first_and_last_day_of_the_calendar():
    assert read(["0001-01-01", "9999-12-31 23:59:59.999999"]) == [datetime.min, datetime.max]
    assert read(["0000-12-31", "9999-12-31 23:59:59.9999999"]) == [None, datetime.max]
    assert read(["-62135596800", "253402300799"], "epoch_seconds") == [
        datetime.min,
        datetime.max.replace(microsecond=0),
    ]
    assert read(["-62135596801", "253402300800", "9" * 18], "epoch_seconds") == [None, None, None]


@FEW
@given(st.lists(MOMENTS, min_size=1, max_size=100))
def test_iso_text_in_every_precision(moments):
    for precision in ("hours", "minutes", "seconds", "milliseconds", "microseconds"):
        if precision == "hours":
            texts = [moment.strftime("%Y-%m-%d") for moment in moments]
            expected = [datetime(m.year, m.month, m.day) for m in moments]
        else:
            texts = [moment.isoformat(sep, precision) for moment in moments for sep in "T "]
            expected = [datetime.fromisoformat(text) for text in texts]
        assert read(texts) == expected


@pytest.mark.parametrize(
    "format_text",
    [
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y%m%d%H%M%S%f",
        "%y%m%d",
        "%d.%m.%y %H:%M",
        "%m/%d/%Y %I:%M:%S %p",
        "%d-%b-%Y",
        "%B %d, %Y",
        "%a %b %d %H:%M:%S %Y",
        "%A, %d %B %y (%I%p)",
        "%Y/%j",
        "%j %Y %H",
        "%Y",
        "%m/%y",
        "%H:%M",
        "%S of minute %M, 100%%",
        "%Y-%m-%dT%H:%M:%S%z",
        "%d/%b/%Y:%H:%M:%S %z",
    ],
)
@settings(max_examples=10)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=25), offset=st.integers(-1439, 1439))
def test_strptime_formats_against_python(format_text, moments, offset):
    moments = [m.replace(tzinfo=timezone(timedelta(minutes=offset))) for m in moments]
    texts = [moment.strftime(format_text) for moment in moments]
    expected = [datetime.strptime(text, format_text) for text in texts]
    assert read(texts, format_text) == [moment.replace(tzinfo=None) for moment in expected]
    if "%z" in format_text:
        offsets = parse(texts, format_text).offset.numpy()
        assert [timedelta(microseconds=int(o)) for o in offsets] == [m.utcoffset() for m in expected]


@FEW
@given(
    st.sampled_from(["%m/%d/%Y", "%Y-%m-%d", "%d %b %Y", "%H:%M:%S", "%Y%m%d", "%j %Y", "%I:%M %p", "%z"]),
    st.lists(st.text("0123456789-/: APMapmJanFeb+Z", max_size=12), min_size=1, max_size=100),
)
def test_what_python_reads_is_read_the_same(format_text, texts):
    for text, ours in zip(texts, read(texts, format_text), strict=True):
        try:
            theirs = datetime.strptime(text, format_text).replace(tzinfo=None)
        except ValueError:
            continue
        assert ours == theirs


def test_a_day_of_the_year_past_its_end_is_missing():
    assert read(["2023/366", "2024/366", "2023/000", "2023/1"], "%Y/%j") == [
        None,
        datetime(2024, 12, 31),
        None,
        datetime(2023, 1, 1),
    ]


@FEW
@given(st.lists(st.text() | st.binary(), min_size=1, max_size=100))
def test_no_text_makes_an_op_fail(texts):
    for format_text in ("iso", "epoch_seconds", "epoch_days", "%d %b %y %I:%M:%S.%f %p %z", "%j %Y %H"):
        column = parse(texts, format_text)
        assert (column.days.numpy()[~column.valid] == 0).all()


@pytest.mark.parametrize("text", ["", " ", "NA", "2024-02-30", "2023-02-29", "2024-06-31", "2024-01-01 25:00"])
def test_what_is_no_date_is_missing_in_every_part(text):
    column = parse([text])
    assert not column.valid.numpy()[0]
    for name in PARTS:
        assert np.isnan(date_ops.part(column, name)[0]), name
    for unit in UNITS:
        assert np.isnan(date_ops.difference(column, parse(["2024-01-01"]), unit=unit)[0])
        assert np.isnan(date_ops.difference(parse(["2024-01-01"]), column, unit=unit)[0])
    assert np.isnan(date_ops.cyclic(column, "month")).all()


@FEW
@given(
    st.sampled_from(["epoch_seconds", "epoch_millis", "epoch_days"]),
    st.lists(st.decimals(-200_000, 200_000, places=9), min_size=1, max_size=100),
)
def test_epoch_formats_are_exact_to_the_microsecond(name, numbers):
    unit = compile_format(name).unit
    for moment, number in zip(read([f"{n:f}" for n in numbers], name), numbers, strict=True):
        exact = Fraction(number) * unit
        assert abs(Fraction((moment - EPOCH) // MICROSECOND) - exact) <= Fraction(1, 2)


def test_an_epoch_written_by_a_float_is_the_whole_hour_meant():
    assert read([repr(19723 + 8 / 24)], "epoch_days") == [datetime(2024, 1, 1, 8)]
    assert read(["1700000000.0", "-0.5", "+12", "7."], "epoch_seconds") == [
        datetime(2023, 11, 14, 22, 13, 20),
        datetime(1969, 12, 31, 23, 59, 59, 500_000),
        datetime(1970, 1, 1, 0, 0, 12),
        datetime(1970, 1, 1, 0, 0, 7),
    ]


def test_digits_beyond_the_microsecond_are_dropped_and_a_number_is_rounded():
    assert read(["2023-12-31 23:59:59.9999996"]) == [datetime(2023, 12, 31, 23, 59, 59, 999_999)]
    assert read(["1.9999996"], "epoch_seconds") == [datetime(1970, 1, 1, 0, 0, 2)]


SPELLED = st.builds(
    str.format, st.sampled_from(["{:e}", "{:E}", "{:+.5e}", " {:.3e} "]), st.decimals(-(10**11), 10**11, places=4)
)


@FEW
@given(st.lists(SPELLED, min_size=1, max_size=100))
def test_numbers_with_an_exponent(texts):
    for text, ours in zip(texts, read(texts, "epoch_seconds"), strict=True):
        try:
            expected = EPOCH + timedelta(microseconds=round(float(text) * 1e6))
        except OverflowError:
            expected = None
        assert (ours is None) == (expected is None)
        assert ours is None or abs(ours - expected) <= 16 * MICROSECOND  # a step of float64 near the year 5000


def test_numbers_with_an_exponent_or_without_a_digit():
    assert read([".5", "-.5", "1e9", ".", "e5", "1e", "1e999"], "epoch_seconds") == [
        datetime(1970, 1, 1, 0, 0, 0, 500_000),
        datetime(1969, 12, 31, 23, 59, 59, 500_000),
        datetime(2001, 9, 9, 1, 46, 40),
        *[None] * 4,
    ]


def joined(*parts):
    return st.tuples(*(st.sampled_from(part) for part in parts)).map("".join)


ISO_DAYS = joined(["2024", "2020", "2023", "0001", "9999"], ["-02-29", "0229", "-W53-7", "W01", "-W05", "-1-1", "-366"])
# Python reads the fraction of an hour or a minute as one of a second; Fullpass reads none.
ISO_CLOCKS = st.sampled_from(["", "05", "05:06", "0506", "5:06", "24:00", "05:0607"]) | joined(
    ["05:06:07", "050607", "23:59:59", "05:06:60"], ["", ".5", ",25", ".1234567891"]
)
ISO_ZONES = st.sampled_from(["", "Z", "+01", "-0130", "+05:30", "-00:30:15", "+24:00", "-03:3", " +01:00"])


@given(st.lists(st.tuples(ISO_DAYS, st.sampled_from("T "), ISO_CLOCKS, ISO_ZONES), min_size=1, max_size=60))
@settings(max_examples=100)
def test_iso_text_is_what_python_reads(parts):
    """Python takes no blank before an offset."""
    texts = [day + (separator + clock + zone if clock else "") for day, separator, clock, zone in parts]
    for text, ours in zip(texts, read(texts), strict=True):
        try:
            theirs = datetime.fromisoformat(text.replace(" +", "+")).replace(tzinfo=None)
        except ValueError:
            theirs = None
        assert ours == theirs, text


def test_spellings_that_python_does_not_read():
    moment = datetime(2024, 6, 30, 13, 5, 59)
    texts = ["2024-06-30t13:05:59z", "2024-06-30 13:05:59 UTC", " 2024-06-30 13:05:59 gmt\n", "20240630T130559Z"]
    assert read(texts) == [moment] * 4
    assert read(["2024-06-30 13:05:59 UTC", "2024-06-30 13:05:59  z "], "%F %T %z") == [moment] * 2


def test_parts_are_of_the_wall_clock_and_epoch_is_of_utc():
    texts = ["2024-01-01 23:30:00-05:00", "2024-01-02T04:30:00Z", "2024-01-02 10:00 +05:30", "2024-01-02 04:30"]
    assert part(texts, "hour").tolist() == [23, 4, 10, 4]
    assert part(texts, "day").tolist() == [1, 2, 2, 2]
    column = parse(texts)
    for other in range(4):
        assert date_ops.difference(column, parse([texts[other]] * 4)).numpy().tolist() == [0] * 4
    assert len(set(part(texts, "epoch").tolist())) == 1


@FEW
@given(st.lists(MOMENTS, min_size=1, max_size=100))
def test_parts_against_python(moments):
    column = parse([moment.isoformat() for moment in moments])
    expected = [python_parts(moment) for moment in moments]
    for name in expected[0]:
        values = date_ops.part(column, name)
        assert values.dtype == tf.float32
        assert values.numpy().tolist() == [parts[name] for parts in expected], name


@FEW
@given(st.lists(MOMENTS, min_size=1, max_size=100))
def test_epoch_is_days_to_float32(moments):
    expected = np.float32([(moment - EPOCH) / timedelta(days=1) for moment in moments])
    np.testing.assert_array_equal(part([moment.isoformat() for moment in moments], "epoch"), expected)


def test_epoch_tells_seconds_apart_only_to_the_stated_precision():
    before, after = part(["2024-06-01 12:00:00", "2024-06-01 12:03:00"], "epoch")
    assert after > before
    exact = (datetime(2059, 1, 1, 1, 2, 3) - EPOCH) / timedelta(days=1)
    assert abs(part(["2059-01-01 01:02:03"], "epoch")[0] - exact) * 86_400 <= 85


@FEW
@given(st.lists(st.tuples(MOMENTS, MOMENTS), min_size=1, max_size=100), st.sampled_from(list(UNITS)))
def test_differences_are_rounded_once(pairs, unit):
    later, earlier = (parse([m.isoformat() for m in side]) for side in zip(*pairs, strict=True))
    expected = np.float32([(a - b) / timedelta(**{unit: 1}) for a, b in pairs])
    ours = date_ops.difference(later, earlier, unit=unit).numpy()
    # The intermediate float64 is exact up to 285 years in microseconds; beyond that, float32 may differ by one step.
    near = np.array([abs(a - b) < timedelta(days=285 * 365) for a, b in pairs])
    np.testing.assert_array_equal(ours[near], expected[near])
    np.testing.assert_array_max_ulp(ours, expected, maxulp=1)


def test_a_difference_of_a_microsecond_far_from_1970_is_exact():
    later, earlier = parse(["2400-01-01 00:00:00.000001"]), parse(["2400-01-01"])
    assert date_ops.difference(later, earlier).numpy()[0] == np.float32(1e-6)


def test_cyclic_parts_stand_on_the_unit_circle():
    sin, cos = date_ops.cyclic(parse(["2024-01-01 06:00", "2024-01-01 12:00", "2024-01-01 00:00"]), "hour")
    np.testing.assert_allclose(sin, [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(cos, [0, -1, 1], atol=1e-6)


@pytest.mark.parametrize("name", [name for name, p in PARTS.items() if p.period is not None])
def test_neighbours_around_the_turn_are_as_near_as_any(name):
    start = datetime(2023, 1, 1)
    texts = [(start + timedelta(minutes=61 * n, seconds=n)).isoformat() for n in range(9000)]
    column = parse(texts)
    points = np.stack(date_ops.cyclic(column, name), axis=1)
    values = date_ops.part(column, name).numpy()
    by_value = {v: points[values == v][0] for v in np.unique(values)}
    ring = [by_value[v] for v in sorted(by_value)]
    steps = [np.linalg.norm(a - b) for a, b in zip(ring, ring[1:] + ring[:1], strict=True)]
    usual = np.median(steps)
    assert all(step <= 1.3 * usual for step in steps), (name, max(steps), usual)


def test_unknown_names_are_explained():
    column = parse(["2024-01-01"])
    with pytest.raises(UserError, match=r"unknown date part 'monht'. Accepted: year.*Did you mean \"month\""):
        date_ops.part(column, "monht")
    with pytest.raises(UserError, match="'year' does not repeat. Accepted as cyclic: quarter, month"):
        date_ops.cyclic(column, "year")
    with pytest.raises(UserError, match=r"unknown unit of time 'hour'.*Did you mean \"hours\""):
        date_ops.difference(column, column, unit="hour")


def test_every_part_and_unit_runs_on_an_empty_batch():
    for format_text in ("iso", "epoch_millis", "%d %b %y %I:%M %p %z", "%Y/%j"):
        column = parse([], format_text)
        assert all(date_ops.part(column, name).shape == (0,) for name in PARTS)
        assert date_ops.difference(column, column).shape == (0,)


class Dates(tf.Module):
    def __init__(self, format_text):
        super().__init__()
        self._format = compile_format(format_text)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])
    def parts(self, values):
        column = date_ops.parse_dates(values, self._format)
        outputs = {name: date_ops.part(column, name) for name in PARTS}
        outputs["hour_sin"], outputs["hour_cos"] = date_ops.cyclic(column, "hour")
        outputs["zero"] = date_ops.difference(column, column, unit="days")
        return outputs


@pytest.mark.parametrize(
    ("format_text", "text"),
    [
        ("iso", "2024-02-29T13:05:59.25+01:00"),
        pytest.param("epoch_millis", "1709208359250", marks=pytest.mark.long),
        ("%d/%b/%y %I:%M:%S.%f %p %z", "29/Feb/24 01:05:59.25 PM +0100"),
        pytest.param("%Y/%j %H", "2024/60 13", marks=pytest.mark.long),
    ],
)
def test_a_saved_model_gives_the_same_as_eager_ops(tmp_path, format_text, text):
    module = Dates(format_text)
    shapes = module.parts.get_concrete_function().output_shapes
    assert {name: shape.as_list() for name, shape in shapes.items()} == {name: [None] for name in shapes}
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    for texts in ([text, "", "no date"], [text], []):
        column = date_ops.parse_dates(tf.constant(texts, tf.string), compile_format(format_text))
        outputs = loaded.parts(tf.constant(texts, tf.string))
        for name in PARTS:
            np.testing.assert_array_equal(outputs[name], date_ops.part(column, name), err_msg=name)
        assert outputs["day_of_year"].numpy().tolist()[:1] == [60][: len(texts)]
        assert outputs["hour"].numpy().tolist()[:1] == [12 if format_text == "epoch_millis" else 13][: len(texts)]


def test_the_offset_shifts_the_instant_as_in_python():
    texts = ["2024-03-31T01:30:00+02:00", "2024-03-30T23:30:00-03:30", "2024-03-31 00:00Z"]
    column = parse(texts)
    instants = column.days * MICROSECONDS_PER_DAY + column.microseconds - column.offset
    epoch = EPOCH.replace(tzinfo=UTC)
    expected = [(datetime.fromisoformat(text) - epoch) // MICROSECOND for text in texts]
    assert instants.numpy().tolist() == expected
