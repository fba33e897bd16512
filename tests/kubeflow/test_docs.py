"""docs/kubeflow.md says what is so: its commands parse, its environment files go with the taxi example."""

import re
import shlex

import pytest
import typer.main

from kubeflow.config import EnvironmentConfig
from pipeline.cli import app
from tests.kubeflow.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "kubeflow.md").read_text()
COMMANDS = sorted({line.split("#")[0].strip() for line in re.findall(r"(?m)^    (fullpass .*)$", TEXT)})
HERE_DOCUMENT = re.search(r"(?s)cat > env\.yaml <<'END'\n(.*?)\n    END", TEXT)


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 8 and HERE_DOCUMENT


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_docs_parses(line):
    words = shlex.split(line.replace("pause|resume|delete", "pause"))[1:]
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("fullpass", words, resilient_parsing=False)


@pytest.mark.integration
def test_the_environment_file_of_the_walk_through_compiles(compile_taxi):
    environment = "\n".join(line[4:] for line in HERE_DOCUMENT[1].splitlines())
    compiled = compile_taxi(environment)
    assert "models" in str(compiled.package.platform)


def test_every_key_of_the_environment_file_is_documented():
    assert not [name for name in EnvironmentConfig.model_fields if f"`{name}`" not in TEXT]
