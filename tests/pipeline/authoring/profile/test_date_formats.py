import re
from datetime import UTC, datetime

import pytest

from fullpass.pipeline.authoring.profile.date_formats import CANDIDATES, differing_parts, find_dates, formats_of
from fullpass.preprocessing.dates.date_format import compile_format
from tests.pipeline.authoring.tables import values_of


def find(texts, name="when"):
    return find_dates(values_of(texts), name)


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["2013-01-31", "2014-02-01"], "iso"),
        (["2013-01-31 05:00:00", "2014-02-01 17:30:59"], "iso"),
        (["2013-01-31T05:00:00Z"], "iso"),
        (["31/01/2013", "01/02/2013"], "%d/%m/%Y"),
        (["01/31/2013", "02/01/2013"], "%m/%d/%Y"),
        (["31.1.2013 5:07", "1.12.2013 23:59"], "%d.%m.%Y %H:%M"),
        (["12/31/13 11:59 PM", "1/2/13 1:05 AM"], "%m/%d/%y %I:%M %p"),
        (["Jan 5, 2013", "Dec 31, 2014"], "%b %d, %Y"),
        (["Jan 5 2013", "Dec 31 2014"], "%b %d %Y"),
        (["Jan 2013", "Dec 2014"], "%b %Y"),
        (["01/2013", "12/2014"], "%m/%Y"),
        (["20130131", "20141201"], "%Y%m%d"),
        (["20130131.0", "20141201.0"], "%Y%m%d"),
        (["2013-01-31T05", "2013-W05-1"], "iso"),
        (["2013-01-31 05:00:00.25 UTC", "2014-02-01t17:30:59z"], "iso"),
        (["10/Oct/2000:13:55:36 -0700"], "%d/%b/%Y:%H:%M:%S %z"),
        (["05:07:09", "23:59:59"], "%H:%M:%S"),
    ],
)
def test_the_format_of_dates_is_found(texts, format):
    found = find(texts)
    assert found.format == format
    assert found.share == 1


@pytest.mark.parametrize("text", ["20240229", "20240229.0", "202402291305", "-3.25", "+1", "2024.5", "1.", ".5", "0"])
def test_a_plain_number_fits_no_format_with_separators(text):
    assert formats_of(text) == {one for one in CANDIDATES if re.match(compile_format(one).pattern, text, re.ASCII)}


@pytest.mark.parametrize("texts", [["abc"], ["12", "13"], ["1.5"], ["20131399", "20130101"], ["20130101"], []])
def test_numbers_and_words_are_no_dates(texts):
    assert find(texts) is None


def test_moments_are_seconds_of_utc():
    expected = datetime(2024, 2, 29, 5, 7, 9, tzinfo=UTC).timestamp()
    assert find(["2024-02-29T05:07:09Z", "2024-02-29T06:37:09+01:30"]).moments.tolist() == [expected] * 2


def test_numbers_are_seconds_only_where_the_name_speaks_of_time():
    seconds = ["1400269500", "1362683700"]
    assert find(seconds, "trip_start_timestamp").format == "epoch_seconds"
    assert find(seconds, "phone") is None
    assert find([s + "000" for s in seconds], "created_at").format == "epoch_millis"


def test_one_cell_in_twenty_may_be_no_date():
    found = find(["2013-01-01"] * 97 + ["soon"] * 3)
    assert (found.format, found.share) == ("iso", 0.97)
    assert find(["2013-01-01"] * 90 + ["soon"] * 10) is None
    different = [f"2013-01-01 05:{minute:02d}:{second:02d}" for minute in range(60) for second in range(0, 60, 9)]
    assert find(different + ["soon"] * 9).format == "iso"


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ([f"2013-{m:02d}-{d:02d}" for m in range(1, 13) for d in (1, 9)], ("month", "day_of_week")),
        (["2013-01-01 05:00:00", "2013-01-01 06:00:00"], ("hour",)),
        (["2013-01-01", "2013-01-09"], ("day_of_week",)),
        (["1950-01-01", "2000-12-31"], ("year", "month", "day_of_week")),
        (["2013-01-01", "2013-01-02"], ("day",)),
        (["2013-01-01", "2013-06-01"], ("month",)),
        (["1970-01-01", "1982-01-01"], ("year",)),
    ],
)
def test_a_date_has_the_parts_that_differ_between_rows(texts, parts):
    assert differing_parts(find(texts)) == parts
