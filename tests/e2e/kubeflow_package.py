"""Compiles a pipeline on taxi trips with `fullpass compile`, for tests of the package."""

import importlib.util
import itertools
import sys
from pathlib import Path

from tests import warm_process

SPAN_BY_SPAN = """\
name: taxi
data:
  source: {format: csv, path: "trips/{SPAN}.csv"}
  window: {spans: 2}
  derive: {big_tipper: tips > 0.2 * fare}
label: {name: big_tipper, task: binary}
features:
  fare: {type: number, transforms: [{clip: {min: 0, max: 500}}, z_score]}
  payment_type: category
model: linear
training: {epochs: 3, batch_size: 256}
evaluation: {metrics: [auc], thresholds: {auc: {min: 0.01, newest_span: {min: 0.02}}}}
"""
"""Taxi trips that arrive span by span."""
ROWS_OF_SPAN = 1_200
ENVIRONMENT = """\
image: registry.example/taxi:1.4.2
kubeflow: "2.5"
folder: {folder}/pipeline
registry: {folder}/models/registry
push_to: {folder}/models/taxi
defaults: {{volumes: [{{claim: models, mount: {folder}/models}}]}}
"""


def taxi_lines(rows: int | None = None) -> list[str]:
    """Returns the header and the first rows of TFX's taxi sample; all rows by default."""
    tfx = importlib.util.find_spec("tfx").submodule_search_locations[0]
    with open(f"{tfx}/examples/chicago_taxi_pipeline/data/simple/data.csv") as file:
        return list(itertools.islice(file, None if rows is None else 1 + rows))


def write_span(trips: Path, span: int) -> None:
    """Writes TRIPS/SPAN.csv with the taxi trips of one span. Spans count from 1 and share no trips."""
    header, *rows = taxi_lines(span * ROWS_OF_SPAN)
    (trips / f"{span}.csv").write_text(header + "".join(rows[-ROWS_OF_SPAN:]))


def compiled(folder: Path, pipeline: str, nodes: str = "") -> str:
    """Writes pipeline/pipeline.yaml and env.yaml into a folder, and returns the package.

    Args:
        folder: Parent of the folder `pipeline`, which holds the source files.
        pipeline: The pipeline YAML.
        nodes: The line `nodes` of the environment file.
    """
    (folder / "pipeline" / "pipeline.yaml").write_text(pipeline)
    (folder / "env.yaml").write_text(ENVIRONMENT.format(folder=folder) + nodes)
    command = ["compile", folder / "pipeline/pipeline.yaml", "--env", folder / "env.yaml", "-o", folder / "p.yaml"]
    done = warm_process.run([sys.executable, "-m", "fullpass", *map(str, command)], timeout=300)
    assert done.returncode == 0, done.stderr
    return (folder / "p.yaml").read_text()
