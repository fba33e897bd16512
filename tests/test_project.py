"""Tests of the project as a whole: its lock files, its light imports, its version."""

import importlib.metadata
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import REPOSITORY
from tests.source_tree import LAYERS, module_name, source_files

HEAVY = ("tensorflow", "tensorflow_transform", "tfx", "apache_beam", "keras", "kfp")
# The modules that `check`, `init` and editors import; they must load fast.
LIGHT_FILES = ("__init__.py", "api.py", "config.py", "checks.py", "cli.py", "spec.py", "feature.py", "transforms.py")
LIGHT_MODULES = {
    "preprocessing.expressions.expression": ("numpy",),
    "preprocessing.dates.date_format": (),
    "preprocessing.columns.raw_schema": (),
    "kubeflow.environment": (),
    "kubeflow.runtime.lookup": (),
}
"""Further modules that load nothing heavy, and what else they do not load."""

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (REPOSITORY / "requirements.txt").read_text(encoding="utf-8")
PYTHONS = ("3.11", "3.12", "3.13")
LOCKS = ("requirements.txt", "kubeflow/requirements-gpu.txt", "tests/live/mlflow.txt")


def locked_lines(lock: str = LOCK) -> list[str]:
    """Returns one string per pinned package: 'name==1.0 ; marker --hash=sha256:... --hash=...'."""
    uncommented = re.sub(r"^\s*#.*\n", "", lock, flags=re.MULTILINE)
    return [line for line in uncommented.replace("\\\n", " ").splitlines() if line.strip()]


def locked_versions(python: str) -> dict[str, Version]:
    """Returns the version of each package that the lock names for a version of Python on Linux."""
    found = {}
    for pin in (Requirement(line.split("--hash=")[0]) for line in locked_lines()):
        if applies(pin, python):
            found[canonicalize_name(pin.name)] = Version(str(pin.specifier).removeprefix("=="))
    return found


def applies(requirement: Requirement, python: str) -> bool:
    here = platform.python_version()  # a lock may name packages for the first patches of a version alone
    full = here if here.startswith(f"{python}.") else f"{python}.9"
    system = {"python_version": python, "python_full_version": full, "sys_platform": "linux"}
    return requirement.marker is None or requirement.marker.evaluate(system)


def direct_requirements() -> list[Requirement]:
    project = PROJECT["project"]
    extras = [item for extra in project["optional-dependencies"].values() for item in extra]
    return [Requirement(r) for r in [*PROJECT["build-system"]["requires"], *project["dependencies"], *extras]]


def run_python(code: str, *, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("file", LOCKS)
def test_a_lock_names_no_address_and_no_other_source(file):
    lock = (REPOSITORY / file).read_text(encoding="utf-8")
    assert "://" not in lock
    assert [line for line in locked_lines(lock) if line.startswith("-")] == []


@pytest.mark.parametrize("file", LOCKS)
def test_every_package_in_a_lock_has_one_exact_version_and_hashes(file):
    pinned = re.compile(r"[a-z0-9][a-z0-9.-]*==[^ ;]+( ; [^-]*)?( +--hash=sha256:[0-9a-f]{64})+ *")
    lock = (REPOSITORY / file).read_text(encoding="utf-8")
    assert [line[:60] for line in locked_lines(lock) if not pinned.fullmatch(line)] == []


def test_the_lock_of_a_check_holds_what_the_check_asks_for():
    asked = Requirement((REPOSITORY / "tests/live/mlflow.in").read_text(encoding="utf-8").strip())
    lines = locked_lines((REPOSITORY / "tests/live/mlflow.txt").read_text(encoding="utf-8"))
    [pinned] = [line.split("--hash=")[0] for line in lines if re.match(rf"{asked.name}\b(?!-)", line)]
    assert Version(str(Requirement(pinned).specifier).removeprefix("==")) in asked.specifier


@pytest.mark.parametrize("python", PYTHONS)
def test_every_direct_dependency_is_pinned_in_its_declared_range(python):
    locked = locked_versions(python)
    asked = [requirement for requirement in direct_requirements() if applies(requirement, python)]
    wrong = [str(asks) for asks in asked if locked[canonicalize_name(asks.name)] not in asks.specifier]
    assert len({asks.name for asks in asked}) == len(asked)
    assert wrong == []


@pytest.mark.parametrize(("python", "line"), [("3.11", "1.16"), ("3.12", "1.21"), ("3.13", "1.21")])
def test_a_python_has_one_line_of_tfx(python, line):
    locked = locked_versions(python)
    versions = {str(locked[name]).rpartition(".")[0] for name in ("tfx", "tensorflow-transform", "ml-metadata")}
    assert versions == {line}
    assert Version(f"{python}.0") in SpecifierSet(PROJECT["project"]["requires-python"])


@pytest.mark.integration
def test_config_modules_do_not_load_tensorflow_tfx_or_beam(tmp_path):
    paths = [path for layer in LAYERS for path in source_files(layer) if path.name in LIGHT_FILES]
    modules = ["fullpass", *(f"fullpass.{module_name(path)}" for path in paths)]
    assert "fullpass.preprocessing" in modules
    unwanted = {f"fullpass.{name}": (*HEAVY, *more) for name, more in LIGHT_MODULES.items()}
    unwanted |= dict.fromkeys(modules, HEAVY)
    code = (
        "import importlib, sys\n"
        f"for name, unwanted in {unwanted!r}.items():\n"
        "    importlib.import_module(name)\n"
        "    loaded = [heavy for heavy in unwanted if heavy in sys.modules]\n"
        "    if loaded:\n"
        "        sys.exit(f'importing {name} loads {loaded}')\n"
    )
    run_python(code, cwd=tmp_path)


@pytest.mark.integration
def test_one_name_is_installed_and_it_is_ours_from_any_directory(tmp_path):
    assert set(importlib.metadata.packages_distributions()["fullpass"]) == {"fullpass"}
    for layer, folder in LAYERS.items():
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "__init__.py").write_text("raise ImportError('a folder of the user')\n")
        origin = run_python(f"import fullpass.{layer} as layer; print(layer.__file__)", cwd=tmp_path)
        assert Path(origin).resolve() == folder / "__init__.py"


def test_the_checkout_adds_no_other_name_to_the_import_path(tmp_path):
    code = f"import importlib.util; print([n for n in {list(LAYERS)!r} if importlib.util.find_spec(n)])"
    assert run_python(code, cwd=tmp_path) == "[]"


def test_the_changelog_agrees_with_the_version():
    headings = re.findall(r"^## \[(.+?)\]", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    version = Version(PROJECT["project"]["version"])
    assert headings[0] in ("Unreleased", str(version))
    assert all(Version(heading) <= version for heading in headings if heading != "Unreleased")
