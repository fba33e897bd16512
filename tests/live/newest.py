"""`make check-newest`: both lines of TFX in a Debian 13 root, from the README's two commands to a table of figures.

    python -m tests.live.newest [--python 3.13 ...] [--only install demo test bench]

Needs root and mmdebstrap. The root, `.tools/debian13`, has make, pip, a C++ compiler and Debian's own Python 3.13.
Pythons 3.12 and 3.11 are copied from this machine, from the folders that uv finds. Every Python gets a clone of the
last commit below the root, which keeps its environment. Commands run in a mount namespace of their own, so nothing
stays mounted. The logs are in `.tools/debian13-logs`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests import REPOSITORY

ROOT = REPOSITORY / ".tools" / "debian13"
LOGS = REPOSITORY / ".tools" / "debian13-logs"
PACKAGES = "ca-certificates,g++,git,make,procps,python3,python3-dev,python3-pip,systemd"
STEPS = ("install", "demo", "test", "bench", "compare")
PYTHONS = ("3.13", "3.12", "3.11")
OF_DEBIAN = "3.13"
TESTED = ("3.13", "3.12")
"""`make test` on the machine itself tests 3.11."""
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_ENTER = """
set -e
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t sysfs sysfs "$ROOT/sys"
mount --rbind /dev "$ROOT/dev"
exec chroot "$ROOT" bash -c "$COMMAND"
"""
_IMPORTS = """
import resource, time
start = time.perf_counter()
from fullpass.pipeline.startup import import_frameworks, large_imports, set_environment
set_environment()
with large_imports():
    import_frameworks()
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_CLOSING = re.compile(r"(?m)^=+ (.*\b(?:passed|failed|error)\b.* in .*?) =+$")


class Failed(RuntimeError):
    """A command in the root failed."""


@dataclass
class Figures:
    """What one Python came to, as the rows of the table: what was measured -> its value."""

    python: str
    values: dict[str, str] = field(default_factory=dict)


def make_root() -> None:
    """Makes the root if it does not exist, and gives it this machine's name service and certificates."""
    if not (ROOT / "usr/bin/python3").exists():
        if shutil.which("mmdebstrap") is None:
            sys.exit("check-newest needs mmdebstrap ('apt install mmdebstrap').")
        shutil.rmtree(ROOT, ignore_errors=True)
        subprocess.run(["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "trixie", str(ROOT)], check=True)
    for name in ("etc/resolv.conf", "etc/hosts", CERTIFICATES):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name).resolve(), ROOT / name)


def programs_of(version: str) -> str:
    """Returns the folder of programs of a Python in the root; "" for Debian's own, which is on PATH.

    A Python that is not there yet is copied from this machine, to the same path.

    Raises:
        Failed: uv finds no such Python.
    """
    if version == OF_DEBIAN:
        return ""
    find = ["uv", "python", "find", "--no-python-downloads", "--system", version]
    local = REPOSITORY / ".tools/uv/bin"
    path = os.pathsep.join([str(local), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYENV_VERSION": version}  # pyenv's programs run the chosen version only
    found = subprocess.run(find, capture_output=True, text=True, env=environment, check=False)
    if found.returncode:
        raise Failed(f"no Python {version} on this machine to copy: {found.stderr.strip()}")
    prefix = Path(found.stdout.strip()).resolve().parents[1]
    target = ROOT / prefix.relative_to("/")
    if not target.exists():
        shutil.copytree(prefix, target, symlinks=True)
    return str(prefix / "bin")


def in_root(command: str, python: str, log: Path) -> str:
    """Runs a command in the root, where this version of Python is the first on PATH, and returns its output.

    Raises:
        Failed: The command failed; the message ends with the last lines of its output.
    """
    path = ":".join(filter(None, [programs_of(python), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL", "MAKE", "MFLAGS", "ARGS"))}
    own = {"ROOT": str(ROOT), "COMMAND": command, "PATH": path, "HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    with log.open("w+", encoding="utf-8", errors="replace") as output:
        enter = ["/usr/bin/unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/bash", "-c", _ENTER]
        done = subprocess.run(
            enter, env={**kept, **own}, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        text = output.read()
    if done.returncode:
        raise Failed(
            f"`{command}` ended with {done.returncode}. The end of {log}:\n" + "\n".join(text.splitlines()[-25:])
        )
    return text


def clone(version: str) -> str:
    """Brings the last commit into the root; returns the path of the clone there."""
    path = f"/srv/fullpass-{version}"
    target = ROOT / path.lstrip("/")
    if target.exists():
        pull = ["git", "-C", str(target), "fetch", "--quiet", str(REPOSITORY), "HEAD"]
        subprocess.run(pull, check=True)
        subprocess.run(["git", "-C", str(target), "reset", "--quiet", "--hard", "FETCH_HEAD"], check=True)
    else:
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(target)], check=True)
    return path


def install(folder: str, figures: Figures) -> None:
    """Installs once to fill the cache of packages, and once more with a clock."""
    make = f"cd {folder} && make env PYTHON={figures.python}"
    in_root(make, figures.python, LOGS / f"install-first-{figures.python}.log")
    start = time.perf_counter()
    text = in_root(f"rm -rf {folder}/.venv; {make}", figures.python, LOGS / f"install-{figures.python}.log")
    figures.values["line"] = text.split(" on ", 1)[0].splitlines()[-1]
    figures.values["install, packages cached, s"] = f"{time.perf_counter() - start:.0f}"
    size = in_root(f"du -sm --apparent-size {folder}/.venv", figures.python, LOGS / "size.log")
    figures.values["size, MiB"] = f"{int(size.split()[0]):,}"
    check = in_root(f"cd {folder} && .venv/bin/python -m pip check", figures.python, LOGS / f"pip-{figures.python}.log")
    figures.values["pip check"] = check.strip().splitlines()[-1]
    script = Path(folder.lstrip("/")) / ".venv" / "imports.py"
    (ROOT / script).write_text(_IMPORTS)
    log = LOGS / "imports.log"
    command = f"cd {folder} && .venv/bin/python /{script}"
    runs = [in_root(command, figures.python, log).splitlines()[-1].split() for _ in range(3)]
    seconds, peak = sorted(runs, key=lambda run: float(run[0]))[1]
    figures.values["imports of a run, s (median of 3)"] = f"{float(seconds):.1f}"
    figures.values["peak after the imports, MiB"] = f"{float(peak):.0f}"


def demo(folder: str, figures: Figures) -> None:
    """Runs the README's first command."""
    text = in_root(f"cd {folder} && make demo", figures.python, LOGS / f"demo-{figures.python}.log")
    auc = re.search(r"(?m)^ +auc +([0-9.]+)", text)
    parity = re.search(r"parity +(.*)", text)
    figures.values["demo: AUC"] = auc[1] if auc else "none"
    figures.values["demo: parity"] = parity[1].strip() if parity else "none"


def test(folder: str, figures: Figures) -> None:
    """Runs the README's second command: lint, types and all tests."""
    if figures.python not in TESTED:
        figures.values["make test"] = "on the machine itself"
        return
    log = LOGS / f"test-{figures.python}.log"
    try:
        in_root(f"cd {folder} && make test", figures.python, log)
    finally:
        closing = _CLOSING.findall(log.read_text(encoding="utf-8", errors="replace"))
        figures.values["make test"] = closing[-1] if closing else "no closing line"


def bench(folder: str, figures: Figures) -> None:
    """Compares with the stock TFX of the same line: whole run and input function, once each."""
    for name, target in (("taxi", "bench-taxi"), ("input", "bench-input")):
        arguments = "--repeat 1" + (" --data taxi" if name == "input" else "")
        in_root(
            f"cd {folder} && make {target} ARGS='{arguments}'", figures.python, LOGS / f"{target}-{figures.python}.log"
        )
        for file in sorted((ROOT / folder.lstrip("/") / "benchmarks/results").glob(f"{name}*.json")):
            for row in json.loads(file.read_text())["rows"]:
                ratio = f" = {row['ratio']:.2f}" if row["ratio"] else ""
                unit = f", {row['unit']}" if row["unit"] else ""
                figures.values[f"{target}: {row['what']}{unit}"] = f"{row['stock']:,.4g} / {row['ours']:,.4g}{ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs both lines of TFX in a Debian 13 root.")
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=list(PYTHONS), help="the Pythons to run")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="the steps to run")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("check-newest needs root: it makes a root file system and changes into it.")
    console = Console()
    if subprocess.run(["git", "-C", str(REPOSITORY), "diff", "--quiet", "HEAD"], check=False).returncode:
        console.print("Changes that are not committed are not checked.")
    make_root()
    LOGS.mkdir(parents=True, exist_ok=True)
    columns: list[Figures] = []
    failed: list[str] = []

    def tried(what: str, work: Callable[[], object]) -> None:
        console.print(f"{what} ...")
        try:
            work()
        except Failed as failure:
            failed.append(what)
            console.print(str(failure), markup=False)

    for version in arguments.python:
        figures = Figures(version)
        columns.append(figures)
        folder = clone(version)
        for name in (name for name in arguments.only if name in STEP):
            tried(f"{version}: {name}", partial(STEP[name], folder, figures))
    console.print(table(columns))
    if "compare" in arguments.only:
        tried("compare", lambda: console.print(compare_lines()))
    if failed:
        sys.exit("failed: " + ", ".join(failed))


def compare_lines() -> Table:
    """Compares the demos of both lines, lets each line answer from the other's export, and run on the other's root.

    Raises:
        Failed: A command failed.
    """
    old, new = "/srv/fullpass-3.11", "/srv/fullpass-3.13"
    shown = Table("", "", title="TFX 1.16 on Python 3.11 and TFX 1.21 on Python 3.13, taxi")

    def compared(what: str, kind: str, left: str, right: str) -> None:
        command = f"cd {new} && .venv/bin/python -m tests.live.compare_lines {kind} {left} {right}"
        text = in_root(command, "3.11", LOGS / "compare.log")
        for name, value in json.loads(text.splitlines()[-1]).items():
            shown.add_row(f"{what}: {name}", f"{value:.3g}" if isinstance(value, float) else str(value))

    compared("runs", "runs", *(f"{folder}/examples/taxi/runs/taxi" for folder in (old, new)))
    for name, model in (("1.16", old), ("1.21", new)):
        files = []
        for reader in (old, new):
            files.append(f"/tmp/of-{name}-by-{Path(reader).name}.jsonl")
            source = f"$({new}/.venv/bin/python -c 'import benchmarks.stock_taxi as s; print(s.taxi_csv())')"
            predict = f"{reader}/.venv/bin/fullpass predict {model}/examples/taxi/serving {source} -o {files[-1]}"
            in_root(f"cd {new} && {predict}", "3.11", LOGS / "predict.log")
        compared(f"export of {name} in both TensorFlows", "predictions", *files)
    for name, folder, root in (("1.21 on the root of 1.16", new, old), ("1.16 on it again", old, old)):
        log = LOGS / "other-root.log"
        text = in_root(f"{folder}/.venv/bin/fullpass run {root}/examples/taxi/pipeline.yaml", "3.11", log)
        shown.add_row(f"run of {name}", text.strip().splitlines()[-1])
    return shown


STEP = {"install": install, "demo": demo, "test": test, "bench": bench}


def table(columns: list[Figures]) -> Table:
    """Returns the figures as a table with a column for each Python."""
    shown = Table(
        "", *(f"Python {figures.python}" for figures in columns), title="Debian 13; stock TFX / Fullpass = ratio"
    )
    for what in dict.fromkeys(what for figures in columns for what in figures.values):
        shown.add_row(what, *(figures.values.get(what, "") for figures in columns))
    return shown


if __name__ == "__main__":
    main()
