"""A small valid pipeline file and what is found wrong with an edited one."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem

VALID = """\
name: taxi
data:
  source:
    format: csv
    path: trips.csv
  derive:
    big_tipper: tips > 0.2 * fare
  split:
    method: hash
    ratios: {train: 8, eval: 2}
label:
  name: big_tipper
  task: binary
features:
  fare: number
  company: category
  started: date
evaluation:
  thresholds:
    auc: {min: 0.8}
"""
TRIPS = "fare,tips,company,started,hour,zone\n3.5,1,Acme,2024-02-29,7,12\n8.0,0,Blue,2024-03-01,23,40\n"


def mistake(lines: Mapping[int, str], path: str, line: int, *says: str) -> tuple:
    """Returns a mistake: lines replaced in VALID, and what is found: path, line, and parts of the message."""
    return lines, path, line, says


def section(text: str) -> dict[int, str]:
    """Returns the lines to replace so that VALID has one more section, at line 18."""
    return {18: f"{text}\nevaluation:"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the data that VALID reads."""
    (tmp_path / "trips.csv").write_text(TRIPS)
    return tmp_path


@pytest.fixture
def clean_imports(monkeypatch):
    """Import paths and modules as they were before."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


@pytest.fixture
def edited(folder: Path) -> Callable[[Mapping[int, str]], Path]:
    """Returns `edit({line number: new text})`: the file VALID with those lines replaced, by any number of lines."""

    def edit(lines: Mapping[int, str] | None = None) -> Path:
        changed = VALID.splitlines()
        for number, text in (lines or {}).items():
            changed[number - 1] = text
        file = folder / "pipeline.yaml"
        file.write_text("\n".join(changed) + "\n")
        return file

    return edit


@pytest.fixture
def problems_of() -> Callable[[Path], tuple[Problem, ...]]:
    """Returns a function that gives all problems of a file: those of load, or else those of the checks."""

    def find(file: Path) -> tuple[Problem, ...]:
        try:
            return check(load(file))
        except ConfigError as error:
            return error.problems

    return find


@pytest.fixture
def assert_told(edited, problems_of) -> Callable[..., None]:
    """Returns a function that asserts that changed lines give one error, at its path and line, with parts of a text."""

    def told(lines, path, line, says) -> None:
        problems = [problem for problem in problems_of(edited(lines)) if problem.severity == "error"]
        assert [(problem.path, problem.line) for problem in problems] == [(path, line)], problems
        assert [part for part in says if part not in problems[0].message] == [], problems[0].message

    return told
