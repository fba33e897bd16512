"""`fullpass models`. Nothing heavy is imported: what versions say lies beside them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.pushed import pushed_to


def models(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
    ] = Path("pipeline.yaml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the pushed models: which is served, metrics, spans, configuration, code, who blessed it."""
    from pipeline.models import versions
    from pipeline.printing import console

    folder = pushed_to(target)
    found = versions.read_versions(folder)
    if as_json:
        typer.echo(json.dumps(versions.as_json(found), indent=2))
    else:
        console().print(versions.table(found, folder))
