import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from fullpass.pipeline.authoring.init.yaml_text import Draft, YamlLine, flow, yaml_of
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml

TEXTS = st.one_of(
    st.sampled_from(
        ["", "null", "~", "yes", "No", "true", "1", "1e5", "0x1F", ".nan", "-", "- a", "a: b", "a #b", "[", "'"]
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.integration
@settings(deadline=None)
@given(VALUES)
def test_what_is_written_is_read_again_by_another_reader(value):
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    assert yaml.load(f"key: {flow(value)}\n") == {"key": value}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("median", "median"),
        ("data/*.csv", '"data/*.csv"'),
        ("../data/a.csv", "../data/a.csv"),
        ("yes", '"yes"'),
        ('replace(a, ".", "")', '\'replace(a, ".", "")\''),
        ("\t", '"\\t"'),
        ("\u2028", '"\\u2028"'),
        ({"clip": {"min": 0, "max": 0.999}}, "{clip: {min: 0, max: 0.999}}"),
        ([True, None, 1e-5], "[true, null, 1e-05]"),
    ],
)
def test_texts_are_plain_if_they_can_be(value, text):
    assert flow(value) == text


def draft(features, left_out=()):
    return Draft(
        name="x",
        head=["WrittenFile\nby hand"],
        source=[YamlLine("format", "csv", ""), YamlLine("columns", [f"column_{i}" for i in range(30)], "made up")],
        derive=[],
        data=[],
        splits=[YamlLine("split", {"method": "random"}, "another way: {}")],
        label=YamlLine("label", {"name": "y", "task": "binary"}, "because"),
        features=features,
        left_out=left_out,
        sequences=[],
        rest=[],
    )


def test_reasons_are_aligned_or_above_their_line():
    long = (
        "a reason that is much too long to stand at the end of its line, so that it stands above, where there is room"
    )
    features = [YamlLine("a", "number", "short"), YamlLine("bcd", "category", "short too"), YamlLine("e", "text", long)]
    lines = yaml_of(draft(features)).splitlines()
    start = lines.index("features:") + 1
    assert lines[start : start + 4] == [
        "  a: number      # short",
        "  bcd: category  # short too",
        f"  ## {long}",
        "  e: text",
    ]


def test_it_is_read_as_it_was_meant_and_comments_break_no_line():
    left_out = [YamlLine("z\n", None, "an\nid"), YamlLine("q", {"type": "number"}, "x " * 80)]
    text = yaml_of(draft([YamlLine('"', {"type": "number", "column": "a\nb"}, "why\nnot")], left_out))
    tree = read_yaml(text)
    assert tree.problems == ()
    assert tree.data["features"] == {'"': {"type": "number", "column": "a\nb"}}
    assert tree.data["data"]["source"]["columns"] == [f"column_{i}" for i in range(30)]
    assert [line for line in text.splitlines() if len(line) > 120 and not line.lstrip().startswith("#")] == []
