"""The structure of the source: packages import one way, no folders or files import each other in a circle, and each
capability stays below its ceiling.
"""

import ast
from collections import defaultdict

import pytest

from tests import REPOSITORY, sizes
from tests.source_tree import (
    LAYERS,
    circles,
    folder_circles,
    import_graph,
    imported_names,
    module_name,
    parsed,
    reachable,
    source_files,
    trees,
    units,
)

NODES = {"SpanComparison", "Transform"}
"""Classes of nodes. The artifact of the one and the object of the Python API have the name of the node."""
COMMANDS = ("api.py", "cli.py", "command.py", "commands.py")
"""Endings of the files with the verbs of the product, which call the function of the same name."""


@pytest.fixture(scope="module", autouse=True)
def _forgotten_trees():
    """Frees 150 MB of syntax trees after the tests of this file."""
    yield
    parsed.cache_clear()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import os.path\ndef f():\n    from fullpass.trainer.config import A",
            {"os.path", "fullpass.trainer.config.A"},
        ),
        ("import fullpass.pipeline.config", {"fullpass.pipeline.config"}),
        ("from fullpass import kubeflow", {"fullpass.kubeflow"}),
        (
            "from . import schema\nfrom .schema import build",
            {"fullpass.components.ingest.schema", "fullpass.components.ingest.schema.build"},
        ),
        ("from ...pipeline import config", {"fullpass.pipeline.config"}),
        ("from ... import kubeflow", {"fullpass.kubeflow"}),
    ],
)
def test_imports_are_found_wherever_they_stand(source, expected):
    assert set(imported_names(ast.parse(source), ("fullpass", "components", "ingest"))) == expected


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
    order = list(LAYERS)
    above = {*order[order.index(layer) + 1 :], "tests", "benchmarks", "examples"}
    breaches = []
    for path in source_files(layer):
        parent = ("fullpass", *module_name(path.parent / "__init__.py").split("."))
        imported = {name.removeprefix("fullpass.") for name in imported_names(parsed(path), parent)}
        wrong = {name for name in imported if name.split(".")[0] in above}
        breaches += [f"{path.relative_to(REPOSITORY)} imports {name}" for name in sorted(wrong)]
    assert breaches == []


def test_a_circle_of_folders_is_found_where_no_files_form_one():
    graph = {
        "a": set(),
        "a.one.x": {"a.two.y"},
        "a.two.y": set(),
        "a.two.z": {"a.three"},
        "a.three": {"a.one.w"},
        "a.one.w": set(),
    }
    assert circles(graph) == []
    assert circles(units(graph, "a")) == [["one", "three", "two"]]


def test_no_files_import_each_other_in_a_circle():
    assert circles(import_graph()) == []


def test_an_import_in_a_function_saves_something():
    """What a file loads in any case is imported at its top."""
    at_start = import_graph(at_start=True)
    late = {name: imported - at_start[name] for name, imported in import_graph().items()}
    loaded = {name: imported & reachable(at_start, name) for name, imported in late.items() if imported}
    assert {name: imported for name, imported in loaded.items() if imported} == {}


def test_no_folders_import_each_other_in_a_circle():
    assert folder_circles() == []


def _files_by_name(kind):
    """Returns name -> the files that define a public class or function of this name at their top."""
    found = defaultdict(set)
    for path, tree in trees(""):
        for node in tree.body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                found[node.name].add(path)
    return found


def test_classes_have_names_of_their_own():
    assert {name for name, files in _files_by_name(ast.ClassDef).items() if len(files) > 1} == NODES


def test_imported_functions_have_names_of_their_own():
    """Functions of one name are commands, or are called through their modules: `state_file.read`."""
    defined = {
        (module_name(REPOSITORY / path), name)
        for name, files in _files_by_name(ast.FunctionDef).items()
        for path in files
        if not path.endswith(COMMANDS)
    }
    imported = defaultdict(set)
    for _, tree in trees(""):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.removeprefix("fullpass.")
                for alias in node.names:
                    if (module, alias.name) in defined:
                        imported[alias.name].add(module)
    assert {name: modules for name, modules in imported.items() if len(modules) > 1} == {}


def test_tests_mirror_the_folders():
    """A test file is named after a source file of the mirrored folder, or after the folder, and maybe an aspect."""
    strays = []
    for layer, folder in LAYERS.items():
        for path in sorted((REPOSITORY / "tests" / layer).rglob("test_*.py")):
            mirrored = folder / path.parent.relative_to(REPOSITORY / "tests" / layer)
            names = {source.stem for source in mirrored.glob("*.py")} | {mirrored.name}
            if not any(f"{path.stem}_".startswith(f"test_{name}_") for name in names):
                strays.append(str(path.relative_to(REPOSITORY)))
    assert strays == []


def test_statements_are_counted_without_docstrings(tmp_path):
    text = '"""The file."""\n\nimport os, sys\n\nDAYS = 7; HOURS = 24\n"""Hours of a day."""\n\n\n'
    text += 'def f(x):\n    """Does this."""\n    if x:\n        return (os,\n            sys)\n    f"{x}"\n'
    (tmp_path / "a.py").write_text(text)
    # One import, two assignments, a function, a condition, a return, and a text that is computed.
    assert sizes.statements(tmp_path / "a.py") == 7


def test_every_source_file_belongs_to_one_capability():
    assert {str(path): rows for path in sizes.source() if len(rows := sizes.rows_of(path)) != 1} == {}


def test_no_capability_is_heavier_than_its_ceiling():
    """A change that makes a row heavier raises its ceiling in `tests/sizes.py`, and so names what grew."""
    weights = sizes.weights()
    heavier = {row: weights[row] for row, (ceiling, _) in sizes.CAPABILITIES.items() if weights[row] > ceiling}
    assert heavier == {}
