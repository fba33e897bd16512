"""Files and folders of a root: one module names them, and no other spells them."""

import ast
import re
from pathlib import Path

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.root import layout
from fullpass.pipeline.root.layout import RootLayout, metadata_above, pipeline_root
from tests.source_tree import trees

NAMES = {path.name for path in RootLayout(Path("/root")).paths()} | {layout.IN_FLIGHT_LOCK}
WORDS = {"checksums", "logs", "schedule", "tables", "watch", "work"}
"""Names that are words elsewhere: these count only as a part of a path."""


def test_every_path_lies_in_the_root_and_no_two_are_one():
    layout = RootLayout(Path("/root"))
    assert {path.parent for path in layout.paths()} == {layout.root}
    assert len(set(layout.paths())) == len(layout.paths())
    assert layout.run_logs("7") == layout.logs / "7"


def test_the_root_is_that_of_the_yaml_or_the_one_that_is_given(edited, monkeypatch):
    loaded = load(edited())
    assert pipeline_root(loaded) == loaded.folder / "runs" / loaded.config.name
    monkeypatch.chdir(loaded.folder)
    assert pipeline_root(loaded, Path("other")) == loaded.folder / "other"


def test_the_metadata_of_an_artifact_lie_in_its_root():
    assert metadata_above(Path("/root/Trainer/model/12")) == RootLayout(Path("/root")).metadata
    assert metadata_above(Path("/model/12")) is None


@pytest.mark.integration
def test_no_other_module_spells_a_name():
    part_of_a_text = rf"""["'/}}]({"|".join(map(re.escape, NAMES))})["'/{{]"""
    found = [(path, line, name) for path, tree in trees(part_of_a_text) for line, name in spelled(tree)]
    assert [one for one in found if one[0] != "pipeline/root/layout.py"] == []


def test_spelled_names_are_found():
    code = "root / 'logs'\nf'{root}/work/x'\n'metadata.sqlite'\n{'work': 1}\n'analyzer_cache'\nPath(root, 'schedule')"
    assert [line for line, _ in spelled(ast.parse(code))] == [1, 2, 3, 5, 6]


def spelled(tree: ast.Module) -> list[tuple[int, str]]:
    """Returns the lines and names of parts of paths that the layout names."""
    found = set()
    for node in ast.walk(tree):
        texts = [node] if isinstance(node, ast.Constant) else []
        parts = [node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else []
        parts += node.values if isinstance(node, ast.JoinedStr) else []
        parts += node.args if isinstance(node, ast.Call) and ast.unparse(node.func) == "Path" else []
        for candidates, names in ((texts, NAMES - WORDS), (parts, NAMES)):
            for each in candidates:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    found |= {(each.lineno, name) for name in names & set(each.value.split("/"))}
    return sorted(found)
