"""What a table of the source lists, no other file lists again: three of its words in one literal are a second list."""

import ast
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from fullpass.components.evaluation.measure.metrics import METRICS
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from fullpass.pipeline.running.request import node_names
from fullpass.preprocessing.expressions.functions import TABLE
from fullpass.preprocessing.spec import SelectedBy
from tests.source_tree import trees

FEW = 2
"""Words of a table that one literal of another file may hold: two words are an example or a pair, three a list."""

ALLOWED = {
    "metrics": {
        "components/evaluation/measure/metrics": "the table",
        "components/evaluation/measure/class_": "the metrics of one class, of which rows of the table are averages",
        "trainer/decision_config": "metrics that a threshold maximizes; the trainer, below METRICS, computes them",
        "trainer/tuning/search_space": "metrics of the validation rows, which the trainer, below METRICS, computes",
    },
    "Source": {
        "components/predict/write_tables": "formats that are written, of which four are also read",
    },
    "Feature": {
        "pipeline/authoring/profile/": "kinds of columns of data, of which some are named as the types of features",
        "pipeline/authoring/init/": "the same kinds of columns",
    },
    "functions": {
        "preprocessing/expressions/": "the table, and what computes each function, by name",
        "pipeline/authoring/profile/evaluate_expression": "the same functions for NumPy, as checks read samples",
    },
    "ModelConfig": {
        "pipeline/authoring/loading/explain_errors": "what other software calls three of the kinds",
    },
    "commands": {
        "pipeline/cli": "the table; help by task",
    },
    "nodes": {
        "pipeline/running/request": "the table",
    },
    "keys that select": {
        "pipeline/record/config_diff": "keys of which each decides which others a mapping has; also of the environment",
    },
}
"""Table -> beginning of a path -> why its files may hold words of the table."""

NODES = """
name: a
data: {source: {format: csv, path: "d-{SPAN}.csv"}}
label: {name: y, task: binary}
features: {x: number}
tuning: {search: {training.epochs: {choices: [1, 2]}}}
"""
"""A pipeline with every node."""


def unions() -> dict[str, tuple[Any, SelectedBy]]:
    """Returns name -> union of models of the YAML, and the annotation that selects the member."""
    modules = [module for name, module in sys.modules.items() if name.startswith("fullpass.")]
    named = [named for module in modules for named in vars(module).items()]
    marks = ((name, value, mark) for name, value in named for mark in getattr(value, "__metadata__", ()))
    return {name: (value.__origin__, mark) for name, value, mark in marks if isinstance(mark, SelectedBy)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, set[str]]:
    """Table -> its words; of two tables of which one holds the words of the other, the larger."""
    file = tmp_path_factory.mktemp("nodes") / "pipeline.yaml"
    file.write_text(NODES)
    found = {
        **{name: set(mark.by_tag(union)) for name, (union, mark) in unions().items()},
        "metrics": set(METRICS),
        "functions": set(TABLE),
        "commands": set(typer.main.get_command(app).commands),
        "nodes": set(node_names(load(file).config)),
        "keys that select": {mark.field for _, mark in unions().values() if mark.field},
    }
    assert found["Source"] == set(FORMATS)
    return {name: words for name, words in found.items() if not any(words < other for other in found.values())}


def literals(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """Yields line and texts of each list, set, tuple, mapping's keys, and patterns of a `match`."""
    for node in ast.walk(tree):
        match node:
            case ast.List(elts=found) | ast.Set(elts=found) | ast.Tuple(elts=found) | ast.Dict(keys=found):
                pass
            case ast.Match(cases=cases):
                patterns = (pattern for case in cases for pattern in ast.walk(case.pattern))
                found = [pattern.value for pattern in patterns if isinstance(pattern, ast.MatchValue)]
            case _:
                continue
        yield node.lineno, {one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def second_lists(path: str, tree: ast.Module, tables: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yields table and place of each literal with more than `FEW` words of the table that it has most words of."""
    for line, words in literals(tree):
        table = max(tables, key=lambda name: len(words & tables[name]))
        if len(words & tables[table]) > FEW:
            yield table, f"{path}:{line} {sorted(words & tables[table])}"


@pytest.mark.parametrize(
    "written",
    [
        "x = ['mlp', 'dcn', 'linear']",
        "x in {'mlp', 'dcn', 'linear', 'other'}",
        "x: Literal['mlp', 'dcn', 'linear']",
        "x = {'mlp': 1, 'dcn': 2, 'linear': 3, **y}",
        "match x:\n    case 'mlp' | 'dcn':\n        pass\n    case 'linear':\n        pass",
    ],
)
def test_a_second_list_is_found_in_any_form(written, tables):
    assert [table for table, _ in second_lists("a.py", ast.parse(written), tables)] == ["ModelConfig"]


def test_a_table_stands_in_one_place(tables):
    found = {place: table for path, tree in trees("") for table, place in second_lists(path, tree, tables)}
    needed = {(table, start) for place, table in found.items() for start in _reasons(table, place)}
    second = [f"{place}: of {table}" for place, table in found.items() if not _reasons(table, place)]
    assert second == [], "import the table"
    assert {(table, start) for table, reasons in ALLOWED.items() for start in reasons} - needed == set(), "needless"


def _reasons(table: str, place: str) -> list[str]:
    return [start for start in ALLOWED.get(table, {}) if place.startswith(start)]
