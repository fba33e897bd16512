"""A node of the user that is a container: its command, and its run by a program that stands for Docker."""

import os

import pytest
from tfx import v1 as tfx
from tfx.dsl.component.experimental.placeholders import (
    ConcatPlaceholder,
    InputUriPlaceholder,
    InputValuePlaceholder,
    OutputUriPlaceholder,
)
from tfx.types import Channel, standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.container_node import (
    ContainerExecutor,
    check_engine,
    container_of,
    fill,
    run_by_fullpass,
    run_container,
)
from fullpass.components.internals.tfx_internals import base_executor
from tests import docker_program

pytestmark = pytest.mark.integration
of = tfx.dsl.placeholders


def component(command, **more):
    """Returns a container component with a model, a text, and a table as output."""
    create = tfx.dsl.experimental.create_container_component(
        name="Sums",
        image="sums:1.2",
        inputs={"model": standard_artifacts.Model, "note": standard_artifacts.String},
        outputs={"table": standard_artifacts.String},
        parameters={"most": int},
        command=command,
    )
    given = {
        name: Channel(type=kind)
        for name, kind in {"model": standard_artifacts.Model, "note": standard_artifacts.String}.items()
    }
    return create(**given, most=3, **more)


def artifact(kind, path):
    found = kind()
    found.uri = str(path)
    return found


@pytest.mark.parametrize(
    "command",
    [
        ["sums", InputUriPlaceholder("model"), ConcatPlaceholder(["--most=", InputValuePlaceholder("most"), "!"]),
         InputValuePlaceholder("note"), OutputUriPlaceholder("table")],
        ["sums", of.input("model")[0].uri, "--most=" + of.exec_property("most") + "!", of.input("note")[0].value,
         of.output("table")[0].uri],
    ],
)  # fmt: skip
def test_both_kinds_of_placeholders_of_tfx_stand_for_paths_and_values(command):
    image, parts = container_of(component(command))
    ways = {way: f"<{way} {{}}>".format for way in ("input", "output", "value")}
    expected = ["sums", "<input model>", "--most=<value most>!", "<value note>", "<output table>"]
    assert (image, fill(parts, ways)) == ("sums:1.2", expected)


def test_a_placeholder_that_only_tfx_resolves_is_refused():
    with pytest.raises(UserError, match=r"Sums: an argument of its command has .*Accepted: texts, the URI of"):
        container_of(component(["sums", of.input("model")[0].property("span")]))
    with pytest.raises(UserError, match="Sums: its command is empty"):
        container_of(component([]))


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Installs a program that stands for Docker; returns the file with its calls."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return docker_program.install(tmp_path / "bin")


def test_a_container_reads_and_writes_the_artifacts_under_their_own_paths(tmp_path, docker, caplog):
    command = ["sh", "-c", 'cat "$0"/x > "$2"; echo "$1 most"', InputUriPlaceholder("model"),
               InputValuePlaceholder("most"), OutputUriPlaceholder("table")]  # fmt: skip
    node = component(command)
    run_by_fullpass(node, *container_of(node))
    assert container_of(node)[0] == "sums:1.2"
    assert check_engine("Sums", node.executor_spec) is None

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "x").write_text("weights")
    (tmp_path / "table").mkdir()
    given = {"model": [artifact(standard_artifacts.Model, tmp_path / "model")]}
    made = {"table": [artifact(standard_artifacts.String, tmp_path / "table" / "value")]}
    context = base_executor.BaseExecutor.Context(extra_flags=node.executor_spec.extra_flags)
    with caplog.at_level("INFO"):
        ContainerExecutor(context).Do(given, made, {"most": 3})

    assert (tmp_path / "table" / "value").read_text() == "weights"
    assert "3 most" in caplog.messages
    called = docker.read_text()
    assert f"--volume={tmp_path / 'model'}:{tmp_path / 'model'}:ro" in called
    assert f"--volume={tmp_path / 'table'}:{tmp_path / 'table'} " in called  # a value is a file in a folder
    assert f"--user {os.getuid()}:{os.getgid()}" in called and " sums:1.2 " in called


def test_a_failed_container_says_its_last_lines(docker):
    with pytest.raises(UserError, match=r"(?s)of sums:1 ended with exit code 3\.\n.*line 9\n  no table\Z") as failed:
        run_container(
            "sums:1", ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; echo no table >&2; exit 3"], []
        )
    assert "line 1" in str(failed.value)


def test_without_an_engine_the_node_is_refused_before_the_run(tmp_path, monkeypatch):
    node = component(["sums"])
    run_by_fullpass(node, *container_of(node))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"Sums: its image sums:1.2 needs docker or podman.*neither is installed.*--to"):
        check_engine("Sums", node.executor_spec)
    (tmp_path / "docker").write_text("#!/bin/sh\necho Cannot connect to the daemon. >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(UserError, match=r"\(docker info: Cannot connect to the daemon\)"):
        check_engine("Sums", node.executor_spec)
