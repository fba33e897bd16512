"""The part of the lock that an image needs: `python kubeflow/locked.py [EXTRA ...] < requirements.txt`.

The lock holds what developing and measuring need too. This takes what pyproject.toml asks for at run time, with the
extras that are named, and all that these ask for in turn, which the lock says under "via". Standard library only: it
runs before anything is installed.
"""

import re
import sys
import tomllib
from pathlib import Path

_ENTRY = re.compile(r"(?m)^(?=[A-Za-z0-9])")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = "fullpass"


def locked(lock: str, wanted: set[str]) -> str:
    """Returns the entries of a lock that are wanted, or that a wanted one asks for.

    Args:
        lock: text of requirements.txt, with hashes and "via" comments.
        wanted: names of direct requirements.

    Raises:
        ValueError: The lock lacks a wanted one.
    """
    # A package has several entries where its version depends on the system.
    entries = [(_canonical(text), text) for text in _ENTRY.split(lock) if _NAME.match(text)]
    missing = sorted(wanted - {name for name, _ in entries})
    if missing:
        raise ValueError(f"requirements.txt lacks {', '.join(missing)}. Run `make lock`.")
    kept: set[str] = set()
    new = set(wanted)
    while new:
        kept |= new
        new = {name for name, text in entries if name not in kept and _askers(text) & kept}
    return "".join(text for name, text in entries if name in kept)


def direct(project: dict, extras: list[str]) -> set[str]:
    """Returns the names that a pyproject.toml asks for at run time and for `extras`.

    Raises:
        ValueError: There is no such extra.
    """
    optional = project["project"]["optional-dependencies"]
    unknown = sorted(set(extras) - optional.keys())
    if unknown:
        raise ValueError(f"no such extra: {', '.join(unknown)}. Accepted: {', '.join(optional)}.")
    asked = [*project["project"]["dependencies"], *(item for extra in extras for item in optional[extra])]
    return {_canonical(item) for item in asked}


def _askers(entry: str) -> set[str]:
    comments = re.findall(r"(?m)^ +# +(?:via +)?(\S+)", entry)
    return {_canonical(name) for name in comments if name != "via"} - {_OWN}


def _canonical(text: str) -> str:
    found = _NAME.match(text)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


if __name__ == "__main__":
    pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
    with pyproject.open("rb") as file:
        names = direct(tomllib.load(file), sys.argv[1:])
    sys.stdout.write(locked(sys.stdin.read(), names))
