"""What a task costs on Kubeflow beside the work itself.

    python -m benchmarks.bench_kubeflow [--imports] [--repeat N]

First, what each container imports before its executor: stock TFX's entry point against ours, fresh interpreters one
after the other. Then (not with --imports) the taxi example, task by task in containers of the test harness, whose rules
are those of Kubeflow's backend, against the same nodes of `fullpass run --parallel 1`. Pods, images and a network come
on top on a cluster, and are the same for both.
"""

import argparse
import importlib
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.common import ROOT, Ratio, median_timing, print_ratios, time_command

_STOCK = "import tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
_OURS = (
    "from kubeflow import entrypoint; from pipeline.environment import set_environment; set_environment(); "
    "entrypoint.import_tensorflow(); import kubeflow.artifacts; from tfx.dsl.components.base import base_beam_executor"
)
_ENVIRONMENT = """\
image: registry.example/taxi:1
kubeflow: "2.17"
folder: {folder}
registry: {folder}/models/registry
push_to: {folder}/models/taxi
defaults: {{volumes: [{{claim: models, mount: {folder}/models}}]}}
"""


def main() -> None:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imports", action="store_true", help="only what is imported")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each import")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-kubeflow-") as scratch:
        print_ratios("imports of a container", [_imports(Path(scratch), arguments.repeat)])
        if not arguments.imports:
            rows = _tasks(Path(scratch))
            print_ratios("taxi, node by node", rows, headings=("in a container", "local runner"))


def _imports(scratch: Path, repeat: int) -> Ratio:
    timings: dict[str, list] = {_STOCK: [], _OURS: []}
    for _ in range(repeat):
        for code, found in timings.items():
            found.append(time_command([sys.executable, "-c", code], log=scratch / "import.log"))
    stock, ours = (median_timing(found).seconds for found in timings.values())
    return Ratio("before the executor", stock, ours)


def _tasks(scratch: Path) -> list[Ratio]:
    """Returns seconds of each node in a container and in the local runner, then of all of them."""
    from kubeflow.parts import task_name

    harness = importlib.import_module("tests.kubeflow.backend.run")
    data = importlib.util.find_spec("tfx").submodule_search_locations[0]  # type: ignore[union-attr,index]
    shutil.copy(f"{data}/examples/chicago_taxi_pipeline/data/simple/data.csv", scratch / "trips.csv")
    text = (ROOT / "examples" / "taxi" / "pipeline.yaml").read_text()
    path = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    (scratch / "pipeline.yaml").write_text(text.replace(path, "trips.csv"))
    (scratch / "env.yaml").write_text(_ENVIRONMENT.format(folder=scratch))
    command = [sys.executable, "-m", "pipeline.cli"]
    package, file = scratch / "package.yaml", str(scratch / "pipeline.yaml")
    time_command(
        [*command, "compile", file, "--env", str(scratch / "env.yaml"), "-o", str(package)], log=scratch / "compile.log"
    )
    result = harness.Backend(scratch / "kfp", release="2.17").run(package.read_text())
    time_command([*command, "run", file, "--parallel", "1"], log=scratch / "run.log")
    [summary] = (scratch / "runs" / "taxi" / "logs").glob("*/summary.json")
    nodes = json.loads(summary.read_text())["nodes"]
    rows = [
        Ratio(node, result.seconds[task_name(node)], found["seconds"])
        for node, found in nodes.items()
        if task_name(node) in result.seconds
    ]
    local = sum(row.ours for row in rows)
    looked_up = [seconds for name, seconds in result.seconds.items() if name.startswith(("find-", "record-"))]
    total = Ratio("all nodes", sum(row.stock for row in rows), local)
    return [*rows, total, Ratio("look-ups", sum(looked_up), 0.0, better="none")]


if __name__ == "__main__":
    main()
