"""The examples in docstrings give what they show."""

import doctest
import importlib
import re
import webbrowser

import pytest

import fullpass
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.profile.value_counts import count_values
from tests import REPOSITORY
from tests.source_tree import LAYERS, module_name, source_files

MODULES = [
    module_name(path) for layer in LAYERS for path in source_files(layer) if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    module = importlib.import_module(f"fullpass.{name}")
    others = {"load": load, "count_values": count_values}
    for example in doctest.DocTestFinder().find(module, extraglobs=others):
        if example.name.rpartition(".")[2] not in PUBLIC:
            assert doctest.DocTestRunner().run(example).failed == 0


PUBLIC = {getattr(fullpass, name).__name__ for name in fullpass.__all__}
"""Names whose examples read a folder with a pipeline that has run."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Returns a folder with the trips and the pipeline of docs/api.md, smaller, after a run, and a wrong copy of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("examples"))
        text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8").replace("4_000", "400")
        page: dict = {}
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]:
            exec(compile(block, "docs/api.md", "exec"), page)  # noqa: S102
        file = folder / "pipeline.yaml"
        written = re.sub(r"model: .*\ntraining: .*", "model: {kind: trees}", file.read_text())
        file.write_text(written)
        (folder / "wrong.yaml").write_text(written.replace("number", "numbr"))
        assert fullpass.load(file).run(quiet=True).blessed
    return folder


@pytest.mark.e2e
@pytest.mark.parametrize("name", fullpass.__all__)
def test_examples_of_public_names(name, ran, monkeypatch):
    """Every public name has an example, which gives what it shows."""
    monkeypatch.chdir(ran)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    public = getattr(fullpass, name)
    (example, *_) = doctest.DocTestFinder(recurse=False).find(public, name, globs={"fullpass": fullpass})
    assert example.examples, f"fullpass.{name} has no example"
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0
