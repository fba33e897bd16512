"""`fullpass lineage`."""

import json
from pathlib import Path
from typing import Annotated

import typer


def lineage(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A version's number, `latest` for the served one, or a folder.")
    ] = "latest",
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE|DIR", help="The pipeline YAML, or the folder models go to.")
    ] = Path("pipeline.yaml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, the YAML as it was included.")] = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the YAML that it was trained by, as it was.")] = False,
) -> None:
    """Tell what made a model: spans, configuration, code, transform graph, metrics, gates, blessing."""
    from pipeline.lineage.show import tree
    from pipeline.lineage.tell import tell
    from pipeline.printing import console
    from preprocessing.errors import UserError

    told = tell(model, file)
    if as_yaml:
        config = told.lineage.get("config")
        if not config:
            raise UserError("The configuration was not recorded: the model was not trained by `fullpass run`.")
        typer.echo(config["yaml"], nl=False)
    elif as_json:
        typer.echo(json.dumps({"source": told.source, **told.lineage}, indent=2))
    else:
        console().print(tree(told))
