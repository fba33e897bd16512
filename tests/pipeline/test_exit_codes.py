"""Exit codes: one table, which the docs and the help show whole; no other module spells a code."""

import ast
import re
from collections.abc import Iterator

import pytest

from fullpass.pipeline.exit_codes import OUTCOME_CODES, ExitCode, outcome_of
from tests import REPOSITORY
from tests.source_tree import trees


def test_the_codes_are_those_that_users_rely_on():
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "FAILED": 1,
        "WRONG_USAGE": 2,
        "NOT_BLESSED": 3,
        "NO_SPAN": 4,
        "GATE_STOP": 5,
        "NOTHING_TO_TRAIN": 6,
        "TERMINATED": 143,
    }
    expected = {"success": 0, "failure": 1, "not_blessed": 3, "late": 4, "gate_stop": 5, "skipped": 6, "missed": 6}
    assert expected == OUTCOME_CODES
    outcomes = {-9: "failure", 0: "success", 1: "failure", 2: "failure", 3: "not_blessed", 4: "late", 5: "gate_stop"}
    assert {code: outcome_of(code) for code in outcomes} == outcomes


def test_the_docs_have_one_table_with_every_code():
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted((REPOSITORY / "docs").glob("*.md"))}
    heading = re.compile(r"\| (?:exit )?code \| meaning \|\n.*\n((?:\|.*\n)+)")
    tables = {name: heading.findall(text) for name, text in pages.items()}
    (table,) = tables.pop("config.md")
    rows = re.findall(r"(?m)^\| (\d+) \| (.*) \|$", table)
    assert rows == [(str(int(code)), f"{code.short}. {code.__doc__}") for code in ExitCode]
    assert not any(tables.values())


@pytest.mark.integration
def test_no_other_module_spells_an_exit_code():
    found = [(path, line) for path, tree in trees("(?i)exit") for line in spelled(tree)]
    assert [one for one in found if one[0] != "pipeline/exit_codes.py"] == []


def test_spelled_codes_are_found():
    code = "EXIT_X = 1\nsys.exit(2)\nraise Exit(3)\ndone(exit_code=4)\nif exit_code == 5: pass\nEXIT_CODES = {'a': 6}\n"
    assert spelled(ast.parse(code)) == [1, 2, 3, 4, 5, 6]
    assert spelled(ast.parse("os._exit(ExitCode.FAILED)\nif exit_code < 0: pass\nraise typer.Exit()")) == []


def spelled(tree: ast.Module) -> list[int]:
    """Returns the lines that end a process with a number, or name, pass or compare an exit code as one."""
    return sorted({node.lineno for node in ast.walk(tree) if any(map(_has_number, _codes_in(node)))})


def _codes_in(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call):
        if ast.unparse(node.func).rpartition(".")[2] in ("exit", "_exit", "Exit", "SystemExit"):
            yield from node.args
        yield from (given.value for given in node.keywords if given.arg == "exit_code")
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(re.search(r"EXIT|exit_code", ast.unparse(target)) for target in targets):
            yield node.value
    elif isinstance(node, ast.Compare) and re.search(r"exit_code", ast.unparse(node.left)):
        # A sign tells a signal from a code.
        yield from (right for op, right in zip(node.ops, node.comparators, strict=True) if not isinstance(op, ast.Lt))


def _has_number(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and type(each.value) is int for each in ast.walk(node))
