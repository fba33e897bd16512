"""`make check-spark`: the taxi pipeline on Beam's Spark runner, against the direct runner.

Spark is a local master of WORKERS cores in Beam's job server, and Beam's workers are threads of the node's process.
Files are small, so that there are several. Both evaluations are of the model that was trained after Spark's Transform.
What each job of Spark took is printed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.servers import needed
from tests.live.taxi import (  # noqa: F401
    ROWS,
    WORKERS,
    taxi_pipeline,
    test_every_row_is_ingested_once_and_the_same,
    test_every_transformed_row_is_written_once_and_the_same_to_the_last_bit,
    test_statistics_count_the_same,
    test_the_evaluator_measures_the_same,
    test_the_transform_graph_has_the_same_constants_and_vocabularies,
)

NODES = {  # in the order of their jobs, and the outputs to compare
    "Ingest": ("examples",),
    "StatisticsGen": ("statistics",),
    "Transform": ("transform_graph", "transformed_examples"),
    "Evaluator": ("evaluation", "blessing"),
}
pytestmark = pytest.mark.timeout(1800)  # the first test waits for all runs
_OPENS = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
          "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
          "sun.util.calendar")  # fmt: skip


def run(folder: Path, beam: str, *options: str, **variables: str) -> dict[str, Path]:
    """Runs the pipeline of a folder, node by node, to the Evaluator; returns the newest folder of each output."""
    text = (folder / "pipeline.yaml").read_text()
    (folder / "run.yaml").write_text(f"{text}root: {folder}/root\nbeam: {beam}\n")
    command = [sys.executable, "-m", "fullpass", "run", str(folder / "run.yaml"), "--to", "Evaluator", *options]
    subprocess.run([*command, "--parallel", "1"], check=True, env={**os.environ, **variables})
    made = {name: folder / "root" / "taxi" / node / name for node, names in NODES.items() for name in names}
    return {name: max(ids.iterdir(), key=lambda path: int(path.name)) for name, ids in made.items()}


def print_costs(logs: Sequence[Path]) -> None:
    """Prints what each job took. logs: Spark's events of each job."""
    print(f"local[{WORKERS}], {sum(ROWS.values())} rows: job, tasks, processor seconds of Spark itself, bytes shuffled")
    for node, log in zip(NODES, logs, strict=True):
        events = map(json.loads, log.open())
        ended = [event["Task Metrics"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
        seconds = sum(metrics["Executor CPU Time"] for metrics in ended) / 1e9
        sent = sum(metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"] for metrics in ended)
        print(f"{node}, {len(ended)}, {seconds:.1f}, {sent}")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> tuple[dict[str, Path], dict[str, Path]]:
    """What the nodes made on the direct runner, and what they made on Spark."""
    jar = needed("SPARK_JOB_SERVER_JAR", "Give Beam's job server for Spark 3: beam-runners-spark-3-job-server.")
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "spark", "events")]
    for folder in folders[:2]:
        taxi_pipeline(folder)
    opens = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS)
    told = " ".join(("-Dspark.eventLog.enabled=true", f"-Dspark.eventLog.dir=file://{folders[2]}", *opens))
    on_spark = f"{{runner: spark, options: {{spark_job_server_jar: {jar}, spark_master_url: 'local[{WORKERS}]'}}}}"
    there = run(folders[1], on_spark, JAVA_TOOL_OPTIONS=told)
    print_costs(sorted(folders[2].iterdir()))
    here = run(folders[0], "{workers: 1}")
    again = run(folders[1], "{workers: 1}", "--from", "Evaluator", "--fresh")
    assert again["evaluation"] != there["evaluation"]
    return here | {name: again[name] for name in NODES["Evaluator"]}, there
