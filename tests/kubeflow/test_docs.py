"""docs/kubeflow.md says what is so: its environment files go with the taxi example."""

import re

import pytest

from kubeflow.config import EnvironmentConfig
from tests.kubeflow.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "kubeflow.md").read_text()
HERE_DOCUMENT = re.search(r"(?s)cat > env\.yaml <<'END'\n(.*?)\n    END", TEXT)


@pytest.mark.integration
def test_the_environment_file_of_the_walk_through_compiles(compile_taxi):
    environment = "\n".join(line[4:] for line in HERE_DOCUMENT[1].splitlines())
    compiled = compile_taxi(environment)
    assert "models" in str(compiled.package.platform)


def test_every_key_of_the_environment_file_is_documented():
    assert not [name for name in EnvironmentConfig.model_fields if f"`{name}`" not in TEXT]
