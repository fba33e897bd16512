"""Filters the lock for the image: `python kubeflow/image_requirements.py VARIANT [EXTRA ...] < requirements.txt`.

The lock also contains packages for development and benchmarks. For the variants cpu and gpu this script keeps the
runtime dependencies of pyproject.toml, the named extras, and the dependencies of both, which the "via" comments of the
lock name. For small it keeps the packages that containers without TensorFlow import. It uses only the standard library,
because it runs before anything is installed.
"""

import re
import sys
import tomllib
from collections.abc import Set as AbstractSet
from pathlib import Path

_ENTRY = re.compile(r"(?m)^(?=[A-Za-z0-9])")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = "fullpass"
LEFT_OUT = frozenset(
    (
        # TFX, TFMA and TFDV need these only to show results in notebooks, and work without them.
        "ipykernel ipython ipywidgets jupyterlab notebook nbconvert "
        # Beam and TFX need these for Google services that no pipeline calls.
        "google-cloud-aiplatform google-cloud-bigtable google-cloud-dlp google-cloud-language google-cloud-pubsublite "
        "google-cloud-recommendations-ai google-cloud-spanner google-cloud-videointelligence google-cloud-vision "
        "google-genai "
        # TFX needs it for components that Fullpass does not use.
        "tensorflow-hub"
    ).split()
)
"""Packages that no container imports but others' metadata requires. With what only they need, 261 MB."""
VARIANTS = ("cpu", "gpu", "small")
SMALL = frozenset(
    (
        "cronsim fsspec google-crc32c jinja2 numpy psutil pyarrow pyarrow-hotfix pydantic pyyaml rich "
        "ruamel-yaml tfx typer "
        # Builds the project.
        "setuptools "
        # TFX needs these for the classes of components and artifacts.
        "absl-py attrs google-api-python-client grpcio ml-metadata ml-pipelines-sdk packaging protobuf six "
        "tensorflow-metadata"
    ).split()
)
"""Packages that look-ups, Schema, DataGate, Pusher and Report import. No extras, as none of these reads a source."""
_ALONE = frozenset({"tfx", "ml-pipelines-sdk"})
"""Packages of SMALL that depend on TensorFlow and Beam; SMALL lists the dependencies of theirs that are needed."""


def variant_entries(variant: str, lock: str, project: dict, extras: list[str]) -> str:
    """Returns the entries of a lock for a variant of the image.

    Args:
        extras: Names of extras, which `small` ignores.

    Raises:
        ValueError: The variant or an extra does not exist.
    """
    if variant not in VARIANTS:
        raise ValueError(f"no such variant: {variant!r}. Accepted: {', '.join(VARIANTS)}.")
    if variant == "small":
        return lock_entries(lock, SMALL, alone=_ALONE)
    return lock_entries(lock, direct_dependencies(project, extras))


def lock_entries(
    lock: str, direct: AbstractSet[str], left_out: frozenset[str] = LEFT_OUT, alone: frozenset[str] = frozenset()
) -> str:
    """Returns the entries of a lock for direct dependencies and for their dependencies.

    Args:
        lock: The text of requirements.txt, with hashes and "via" comments.
        left_out: The names of packages that are omitted, together with packages that only they need.
        alone: The names of packages that are kept without the packages that only they need.

    Raises:
        ValueError: The lock lacks a direct dependency.
    """
    # A package has several entries if its version depends on the system.
    entries = [(_canonical(text), text) for text in _ENTRY.split(lock) if _NAME.match(text)]
    if missing := sorted(direct - {name for name, _ in entries}):
        raise ValueError(f"requirements.txt lacks {', '.join(missing)}. Run `make lock`.")
    kept: set[str] = set()
    new: AbstractSet[str] = direct
    while new:
        kept |= new
        new = {name for name, text in entries if name not in kept | left_out and _dependents(text) & kept - alone}
    return "".join(text for name, text in entries if name in kept)


def direct_dependencies(project: dict, extras: list[str]) -> set[str]:
    """Returns the names of the runtime dependencies in a pyproject.toml and of those in `extras`.

    Raises:
        ValueError: An extra does not exist.
    """
    optional = project["project"]["optional-dependencies"]
    if unknown := sorted(set(extras) - optional.keys()):
        raise ValueError(f"no such extra: {', '.join(unknown)}. Accepted: {', '.join(optional)}.")
    requirements = [*project["project"]["dependencies"], *(item for extra in extras for item in optional[extra])]
    return {_canonical(requirement) for requirement in requirements}


def _dependents(entry: str) -> set[str]:
    comments = re.findall(r"(?m)^ +# +(?:via +)?(\S+)", entry)
    return {_canonical(name) for name in comments if name != "via"} - {_OWN}


def _canonical(text: str) -> str:
    found = _NAME.match(text)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


if __name__ == "__main__":
    pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
    with pyproject.open("rb") as file:
        project = tomllib.load(file)
    sys.stdout.write(variant_entries(sys.argv[1], sys.stdin.read(), project, sys.argv[2:]))
