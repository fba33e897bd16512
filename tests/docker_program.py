"""A program named `docker` that runs the command of a container on this machine, without the image."""

import sys
from pathlib import Path

_PROGRAM = """\
#!{python}
import os, sys

if sys.argv[1] == "run":
    # run --rm --user U --volume=V ... --entrypoint PROGRAM IMAGE ARGUMENT ...
    begin = sys.argv.index("--entrypoint") + 1
    with open({calls!r}, "a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\\n")
    os.execvp(sys.argv[begin], [sys.argv[begin], *sys.argv[begin + 2:]])
"""


def install(folder: Path) -> Path:
    """Writes the program into a folder for PATH; returns the file with the command line of each container."""
    calls = folder / "calls"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "docker").write_text(_PROGRAM.format(python=sys.executable, calls=str(calls)))
    (folder / "docker").chmod(0o755)
    return calls
