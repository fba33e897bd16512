"""The insides of TFX, TFMA and TFDV are used through `fullpass.components.internals` alone."""

import ast

import pytest

from tests.source_tree import trees

DOCUMENTED = {
    "tfx.components.example_validator.component",
    "tfx.components.schema_gen.component",
    "tfx.components.schema_gen.import_schema_gen.component",
    "tfx.components.trainer.component",
    "tfx.components.trainer.fn_args_utils",
    "tfx.components.tuner.component",
    "tfx.dsl.component.experimental.annotations",
    "tfx.dsl.component.experimental.decorators",
    "tfx.dsl.components.common.resolver",
    "tfx.dsl.io.fileio",
    "tfx.orchestration.local.local_dag_runner",
    "tfx.orchestration.pipeline",
    "tfx.proto",
    "tfx.types.artifact",
    "tfx.types.standard_artifacts",
}
"""The modules from which `tfx.v1` takes its names; importing `tfx.v1` itself imports all of TFX."""
ELSEWHERE = {("components/tuning/component.py", "tfx.components.tuner.executor")}
"""Its import loads KerasTuner, which no other node needs."""


def undocumented(tree):
    """Yields the modules and names of TFX, TFMA and TFDV that a file imports and that are not documented."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module not in DOCUMENTED:
            package = node.module.partition(".")[0]
            for name in (f"{node.module}.{one.name}" for one in node.names):
                if package in ("tfx", "tensorflow_model_analysis", "tensorflow_data_validation"):
                    if name != "tfx.types" and name not in DOCUMENTED:
                        yield name


@pytest.mark.integration
def test_no_other_folder_imports_what_is_not_documented():
    found = {
        (path, name)
        for path, tree in trees("tfx|tensorflow_model_analysis|tensorflow_data_validation")
        for name in undocumented(tree)
    }
    assert {one for one in found if "components/internals/" not in one[0]} == ELSEWHERE
