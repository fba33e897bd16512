"""Entries that are cut out of YAML text: the text that must stay, by hand."""

import pytest

from fullpass.pipeline.authoring.loading.yaml_tree import without_keys

TEXT = """\
# head
a: {x: 1, y: 2, z: [1, 2, 3]}  # of a
b:
  k: |
    text

    # text too
  # of l
  l:
    m: 1   # of m

    n: {q: "}"}
  # after
c:
- 1
# of 2
- 2
d: &d 5
e: *d
"""


@pytest.mark.parametrize(
    ("removed", "gone", "instead"),
    [
        ([("a", "x")], "x: 1, ", ""),
        ([("a", "y"), ("a", "z")], ", y: 2, z: [1, 2, 3]", ""),
        ([("a", "z", 0), ("a", "z", 2)], "[1, 2, 3]", "[2]"),
        ([("a", "x"), ("a", "y"), ("a", "z")], "a: {x: 1, y: 2, z: [1, 2, 3]}  # of a\n", ""),
        ([("b", "k")], "  k: |\n    text\n\n    # text too\n", ""),
        ([("b", "l", "m"), ("b", "l", "n")], '  l:\n    m: 1   # of m\n\n    n: {q: "}"}\n', ""),
        ([("c", 0)], "- 1\n", ""),
        ([("c", 1), ("e",)], "- 2\nd: &d 5\ne: *d\n", "d: &d 5\n"),
        ([], "", ""),
    ],
)
def test_only_the_entries_go_and_a_collection_that_would_be_empty_goes_with_them(removed, gone, instead):
    assert gone in TEXT
    assert without_keys(TEXT, removed) == TEXT.replace(gone, instead, 1)


def test_an_entry_whose_anchor_is_used_elsewhere_is_not_cut():
    assert without_keys(TEXT, [("d",)]) is None


def test_the_last_entry_of_a_file_without_a_line_break_goes():
    assert without_keys("a: 1\nb: 2", [("b",)]) == "a: 1\n"
