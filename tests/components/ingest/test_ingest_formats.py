"""Every format has a reader, and is written by the tests over all formats."""

import pytest

from fullpass.components.ingest.sources.formats import FORMATS
from tests.components.ingest.row_files import SAMPLES, SERVICES, WRITTEN, sample_of


@pytest.mark.parametrize("name", WRITTEN)
def test_each_format_is_written_by_the_tests(name):
    assert sample_of(name)


def test_a_format_that_no_test_writes_fails_with_what_to_add():
    with pytest.raises(AssertionError, match="'fixed'. Add a row 'fixed' to SAMPLES in .*row_files.py: a function"):
        sample_of("fixed")


def test_the_tests_write_no_format_that_is_gone():
    assert SAMPLES.keys() | SERVICES == FORMATS.keys()


@pytest.mark.parametrize("row", FORMATS.values(), ids=FORMATS)
def test_each_format_names_a_reader(row):
    assert row.load_reader().__module__.startswith("fullpass.components.ingest.readers.")
