"""The package of a pipeline on taxi trips, as `fullpass compile` writes it."""

import importlib.util
import itertools
import sys
from pathlib import Path

from tests import warm_process

ENVIRONMENT = """\
image: registry.example/taxi:1.4.2
kubeflow: "2.5"
folder: {folder}/pipeline
registry: {folder}/models/registry
push_to: {folder}/models/taxi
defaults: {{volumes: [{{claim: models, mount: {folder}/models}}]}}
"""


def taxi_lines(rows: int | None = None) -> list[str]:
    """Returns the header and the first rows of the taxi sample of TFX, by default all."""
    tfx = importlib.util.find_spec("tfx").submodule_search_locations[0]
    with open(f"{tfx}/examples/chicago_taxi_pipeline/data/simple/data.csv") as file:
        return list(itertools.islice(file, None if rows is None else 1 + rows))


def compiled(folder: Path, pipeline: str, nodes: str = "") -> str:
    """Writes pipeline/pipeline.yaml and env.yaml into a folder, and returns the package.

    Args:
        folder: Holds the folder `pipeline`, in which the source lies.
        pipeline: The pipeline YAML.
        nodes: The line `nodes` of the environment file.
    """
    (folder / "pipeline" / "pipeline.yaml").write_text(pipeline)
    (folder / "env.yaml").write_text(ENVIRONMENT.format(folder=folder) + nodes)
    command = ["compile", folder / "pipeline/pipeline.yaml", "--env", folder / "env.yaml", "-o", folder / "p.yaml"]
    done = warm_process.run([sys.executable, "-m", "fullpass", *map(str, command)], timeout=300)
    assert done.returncode == 0, done.stderr
    return (folder / "p.yaml").read_text()
