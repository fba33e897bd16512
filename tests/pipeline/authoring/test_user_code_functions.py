"""A function of the user is found in its source, without importing it."""

import re

import pytest

from fullpass.pipeline.authoring.user_code import function_problem

SOURCE = """
from elsewhere import imported
made = object()
def build_model(inputs, task, classes, options=None): pass
def any_number(*arguments): pass
def few(inputs): pass
def keyword(inputs, task, classes, options, *, rate): pass
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("build_model", None),
        ("any_number", None),
        ("imported", None),
        ("made", None),
        ("few", r"few\(inputs\) is called as few\(inputs, task, classes, options\)"),
        ("keyword", r"\*, rate"),
        ("build_modle", r'no function .build_modle.*Did you mean "build_model"\?'),
    ],
)
def test_a_function_is_found_in_its_source(tmp_path, name, says):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError('must not run')")
    (tmp_path / "package" / "models.py").write_text(SOURCE)
    arguments = ("inputs", "task", "classes", "options")
    problem = function_problem(f"package.models:{name}", arguments, folder=tmp_path)
    assert (problem is None) if says is None else re.search(says, problem)


def test_a_module_that_is_no_python_is_named_with_its_line(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    assert "broken.py:2 is no valid Python" in function_problem("broken:f", ("a",), folder=tmp_path)
