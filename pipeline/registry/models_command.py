"""`fullpass models`, which imports neither TensorFlow nor TFX."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fullpass.base.json_text import to_json_text
from fullpass.pipeline.registry.pushed_folder import pushed_to


def models(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
    ] = Path("pipeline.yaml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the pushed models with their state, metrics, spans, configuration, code and who blessed them."""
    from fullpass.pipeline.printing import console, print_data
    from fullpass.pipeline.registry import list_versions

    folder = pushed_to(target)
    found = list_versions.read_versions(folder)
    if as_json:
        print_data(to_json_text([asdict(version) for version in found], indent=2))
    else:
        console().print(list_versions.table(found, folder))
