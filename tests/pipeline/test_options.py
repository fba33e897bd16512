"""Options that several commands take."""

import inspect

import pytest

from fullpass.base.errors import UsageError
from fullpass.pipeline.options import read_as_of, reads_rows


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, {}),
        (
            {
                "separator": "|",
                "columns": "x, kind",
                "missing": ["-"],
                "encoding": "latin-1",
                "source": ["strip=false"],
            },
            {"separator": "|", "columns": ("x", "kind"), "missing": ("-",), "encoding": "latin-1", "strip": False},
        ),
        ({"format_": "tsv", "separator": r"\t"}, {"format": "tsv", "separator": "\t"}),
        ({"header": True}, {"columns": None}),
    ],
)
def test_options_are_keys_of_the_source(options, keys):
    assert read_as_of(**options) == keys


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": "a", "header": True}, "--header reads the names.*--columns gives them; drop one"),
        ({"source": ["quoting"]}, "--source 'quoting': expected KEY=VALUE"),
        ({"source": ["columns=[a"]}, "--source 'columns=.a': the value is not YAML"),
    ],
)
def test_options_that_contradict_or_mean_nothing(options, says):
    with pytest.raises(UsageError, match=says):
        read_as_of(**options)


def test_a_command_gets_the_reading_options_in_place_of_its_parameter():
    given = []

    @reads_rows
    def command(rows: str, read_as: dict, page: bool = False) -> None:
        """Reads rows."""
        given.append((rows, read_as, page))

    assert list(inspect.signature(command).parameters) == [
        "rows", *inspect.signature(read_as_of).parameters, "page"
    ]  # fmt: skip
    nothing = dict.fromkeys(inspect.signature(read_as_of).parameters)
    command(rows="a.csv", page=True, **{**nothing, "separator": ";"})
    assert given == [("a.csv", {"separator": ";"}, True)] and command.__doc__ == "Reads rows."
