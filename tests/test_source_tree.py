"""The structure of the source: packages import one way, and no folders or files import each other in a circle."""

import pytest

from tests import REPOSITORY
from tests.source_tree import (
    LAYERS,
    circles,
    folder_circles,
    import_graph,
    imported_names,
    module_name,
    source_files,
    units,
)


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
    assert set(imported_names(source, ("fullpass", "components", "ingest"))) == expected


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
    order = list(LAYERS)
    above = {*order[order.index(layer) + 1 :], "tests", "benchmarks", "examples"}
    breaches = []
    for path in source_files(layer):
        parent = ("fullpass", *module_name(path.parent / "__init__.py").split("."))
        imported = {name.removeprefix("fullpass.") for name in imported_names(path.read_text(encoding="utf-8"), parent)}
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


def test_no_folders_import_each_other_in_a_circle():
    assert folder_circles() == []


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
