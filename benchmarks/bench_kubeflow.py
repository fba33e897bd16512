"""Measures the overhead of a task on Kubeflow.

    python -m benchmarks.bench_kubeflow [--imports] [--repeat N]

The first table times the imports of a container before its executor starts: stock TFX's entry point against Fullpass's,
in fresh interpreters one after the other, for a node that needs TensorFlow and for one that does not. The second table
(omitted with --imports) runs the taxi example task by task in containers of the test harness, which follows the rules
of Kubeflow's backend, and compares them with the same nodes of `fullpass run --parallel 1`. A cluster adds the cost of
pods, images and the network, which is the same for both.
"""

import argparse
import importlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.common import (
    FULLPASS,
    ROOT,
    Ratio,
    median_timing,
    package_file,
    print_ratios,
    table_of,
    time_command,
    write_results,
)

_STOCK = "import tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
_OURS = """
from fullpass.kubeflow.runtime import entrypoint
from fullpass.pipeline.startup import set_environment
set_environment()
with entrypoint.libraries_for([{executor!r}], direct=False):
    from tfx.dsl.components.base import base_executor
import fullpass.kubeflow.runtime.artifact_messages
"""
_EXECUTORS = {
    "a node with TensorFlow": "fullpass.components.ingest.component.IngestExecutor",
    "a node without": "fullpass.components.data_gate.gate_component.DataGate_Executor",
}
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
    parser.add_argument("--imports", action="store_true", help="measure the imports only")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each import")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-kubeflow-") as scratch:
        imports = _imports(Path(scratch), arguments.repeat)
        print_ratios("imports of a container, before the executor", imports)
        write_results("kubeflow", imports, {})
        if not arguments.imports:
            _print_tasks(*_tasks(Path(scratch)))


def _imports(scratch: Path, repeat: int) -> list[Ratio]:
    programs = {_STOCK: "", **{_OURS.format(executor=executor): what for what, executor in _EXECUTORS.items()}}
    timings: dict[str, list] = {code: [] for code in programs}
    for _ in range(repeat):
        for code, found in timings.items():
            found.append(time_command([sys.executable, "-c", code], log=scratch / "import.log"))
    stock, *ours = (median_timing(found).seconds for found in timings.values())
    return [Ratio(what, stock, seconds) for what, seconds in zip(_EXECUTORS, ours, strict=True)]


def _tasks(scratch: Path) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Returns node -> seconds in a container and in the local runner, and look-up task -> seconds."""
    from fullpass.kubeflow.compile.task import task_name

    harness = importlib.import_module("tests.kubeflow.backend.run")
    data = "examples/chicago_taxi_pipeline/data/simple/data.csv"
    shutil.copy(package_file("tfx", data), scratch / "trips.csv")
    text = (ROOT / "examples" / "taxi" / "pipeline.yaml").read_text()
    (scratch / "pipeline.yaml").write_text(text.replace(f"package:tfx/{data}", "trips.csv"))
    (scratch / "env.yaml").write_text(_ENVIRONMENT.format(folder=scratch))
    package, file = scratch / "package.yaml", str(scratch / "pipeline.yaml")
    time_command(
        [*FULLPASS, "compile", file, "--env", str(scratch / "env.yaml"), "-o", str(package)],
        log=scratch / "compile.log",
    )
    result = harness.Backend(scratch / "kfp", release="2.17").run(package.read_text())
    time_command([*FULLPASS, "run", file, "--parallel", "1"], log=scratch / "run.log")
    [summary] = (scratch / "runs" / "taxi" / "logs").glob("*/run.json")
    nodes = json.loads(summary.read_text())["nodes"]
    of_nodes = {
        node: (result.seconds[task_name(node)], found["seconds"])
        for node, found in nodes.items()
        if task_name(node) in result.seconds
    }
    return of_nodes, {n: seconds for n, seconds in result.seconds.items() if n.startswith("find-")}


def _print_tasks(nodes: dict[str, tuple[float, float]], look_ups: dict[str, float]) -> None:
    table = table_of("taxi, task by task, seconds", [""], ["in a container", "local runner", "beside its work"])
    totals = sum(there for there, _ in nodes.values()), sum(here for _, here in nodes.values())
    for name, (there, here) in {**nodes, f"{len(nodes)} nodes": totals}.items():
        table.add_row(name, f"{there:.1f}", f"{here:.1f}", f"{there - here:.1f}")
    for name, seconds in look_ups.items():
        table.add_row(name, f"{seconds:.1f}", "", f"{seconds:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
