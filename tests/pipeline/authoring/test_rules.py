"""The table of rules: every rule marks one function, and a rule that is off returns what the code does without it."""

import ast

import pytest

from fullpass.pipeline.authoring import rules
from tests import REPOSITORY

AUTHORING = REPOSITORY / "pipeline" / "authoring"


def _marked():
    """Returns the names that functions of the package are marked with."""
    found = []
    for path in sorted(AUTHORING.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
                found += [one.args[0].value for one in calls if getattr(one.func, "id", "") == "rule"]
    return found


def test_every_rule_of_the_table_marks_one_function():
    assert sorted(_marked()) == sorted(rules.RULES)


def test_a_rule_that_the_table_lacks_is_refused():
    with pytest.raises(KeyError, match="no such rule"):
        rules.rule("no such rule")


def test_a_marked_function_is_the_function_itself():
    def length(text):
        return len(text)

    assert rules.rule("slices", otherwise=0)(length) is length


def test_every_rule_has_a_reason_and_a_file_in_the_docs():
    rows = [
        f"| {name} | {one.why} | {one.needed_by} |".replace("action|drama", "action\\|drama")
        for name, one in rules.RULES.items()
    ]
    assert all(one.why and one.needed_by for one in rules.RULES.values())
    assert "\n".join(rows) in (REPOSITORY / "docs" / "init.md").read_text(encoding="utf-8")
