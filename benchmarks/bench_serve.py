"""Compares `fullpass serve` with a bare FastAPI that calls the same model, under the same clients.

    python -m benchmarks.bench_serve [--requests 4000] [--clients 8] [--repeat 3] [--model serving/]

The model is that of examples/taxi, which is trained first unless --model names its folder. Each request has one of its
sample rows. Server and clients are processes of this machine, over 127.0.0.1; the sides alternate, and each figure is
the median of the repetitions. The third side is `fullpass serve` with a log of every request.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import FULLPASS, ROOT, Ratio, print_ratios, run_json, taxi_model, write_results

_START_SECONDS = 120
_PORTS = {"bare": 8721, "ours": 8722, "logged": 8723}
_PATHS = {"bare": "/predict", "ours": "/v1/models/bench:predict", "logged": "/v1/models/bench:predict"}
_READY = {"bare": "/openapi.json", "ours": "/readyz", "logged": "/readyz"}


def write_bodies(model: Path, work: Path) -> None:
    """Writes the requests of each side, a line each: one sample row of the model."""
    with (model / "current" / "assets.extra" / "requests.jsonl").open(encoding="utf-8") as file:
        samples = [{name: cell for name, cell in json.loads(line).items() if cell is not None} for line in file]
    asked = [{"signature_name": "serving_raw", "instances": [row]} for row in samples]
    sides: dict[str, list[Any]] = {"bare": [[row] for row in samples], "ours": asked, "logged": asked}
    for side, bodies in sides.items():
        (work / f"{side}.jsonl").write_text("".join(f"{json.dumps(body)}\n" for body in bodies), encoding="utf-8")


@contextmanager
def running(side: str, command: Sequence[str], work: Path) -> Iterator[None]:
    """Runs a server while the block runs, and waits until it answers."""
    with (work / f"{side}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        last = time.monotonic() + _START_SECONDS
        while not _answers(f"http://127.0.0.1:{_PORTS[side]}{_READY[side]}"):
            if process.poll() is not None or time.monotonic() > last:
                raise SystemExit(f"{side} does not answer:\n{(work / f'{side}.log').read_text(errors='replace')}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", type=Path, help="folder of the versions of a model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary, ExitStack() as servers:
        work = Path(temporary)
        model = taxi_model(arguments.model, work)
        write_bodies(model, work)
        side = [sys.executable, "-m", "benchmarks.serve_side"]
        serve = [*FULLPASS, "serve", str(model), "--name", "bench", "--port"]
        commands = {
            "bare": [*side, "bare", "--model", str(model), "--port", str(_PORTS["bare"])],
            "ours": [*serve, str(_PORTS["ours"])],
            "logged": [*serve, str(_PORTS["logged"]), "--log", str(work / "requests")],
        }
        for name, command in commands.items():
            servers.enter_context(running(name, command, work))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for number in range(arguments.repeat + 1):
            for name in commands:
                asking = [*side, "ask", "--port", str(_PORTS[name]), "--path", _PATHS[name]]
                asking += ["--bodies", str(work / f"{name}.jsonl"), "--clients", str(arguments.clients)]
                measured = run_json([*asking, "--requests", str(arguments.requests)], log=work / "ask.log")
                if number:  # the first round warms both sides up
                    found[name].append(measured)
    medians = {n: {key: statistics.median(one[key] for one in all_) for key in all_[0]} for n, all_ in found.items()}
    ratios = [
        Ratio(what, medians["bare"][key], medians[name][key], unit, better)
        for name, words in (("ours", ""), ("logged", ", every request logged"))
        for key, what, unit, better in (
            ("rate", f"requests{words}", "per second", "higher"),
            ("p50_ms", f"latency, median{words}", "ms", "lower"),
            ("p99_ms", f"latency, 99 of 100{words}", "ms", "lower"),
        )
    ]
    title = f"{arguments.requests:,} requests of one row, {arguments.clients} clients"
    print_ratios(title, ratios, headings=("bare FastAPI", "fullpass serve"))
    write_results("serve", ratios, {"measured": found})


if __name__ == "__main__":
    main()
