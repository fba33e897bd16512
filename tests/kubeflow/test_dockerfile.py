"""What can be told of the image without a container engine; it is not built here."""

import re
import tomllib

from tests.kubeflow.conftest import REPOSITORY

TEXT = (REPOSITORY / "kubeflow" / "Dockerfile").read_text()
LINES = [line.strip() for line in TEXT.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


def test_what_is_copied_is_there_and_not_ignored():
    allowed = [
        line[1:].removesuffix("/**")
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line[:1] == "!"
    ]
    for line in LINES:
        if line.startswith("COPY") and "--from" not in line and "$" not in line:
            for source in line.split()[1:-1]:
                assert (REPOSITORY / source).exists() and source in allowed, source


def test_every_package_of_the_project_is_copied():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = [name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert not [name for name in packages if f"COPY {name} /src/{name}" not in LINES]


def test_packages_come_from_the_lock_with_hashes_and_bytecode():
    [lock] = [line for line in LINES if "requirements.txt" in line and line.startswith("RUN")]
    assert "--require-hashes" in lock and "--compile-bytecode" in lock


def test_it_runs_as_no_root_and_names_versions_of_its_bases():
    [user] = [line for line in LINES if line.startswith("USER ")]
    assert re.fullmatch(r"USER [1-9]\d*:0", user)
    assert not re.search(r":latest|FROM [\w/]+$", TEXT, re.MULTILINE)


def test_its_version_is_that_of_the_project():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert f"ARG VERSION={project['project']['version']}" in LINES
