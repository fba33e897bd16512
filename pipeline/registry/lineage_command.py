"""`fullpass lineage`."""

from pathlib import Path
from typing import Annotated

import typer

from fullpass.base.json_text import to_json_text


def lineage(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A version's number, `latest` for the served one, or a folder.")
    ] = "latest",
    file: Annotated[
        Path,
        typer.Option(
            "--file", "-f", metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to."
        ),
    ] = Path("pipeline.yaml"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, including the YAML of the training run.")
    ] = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the YAML of the training run, unchanged.")] = False,
) -> None:
    """Show the lineage of a model: spans, configuration, code, transform graph, metrics, gates, blessing."""
    from fullpass.base.errors import UserError
    from fullpass.pipeline.printing import console, print_data
    from fullpass.pipeline.registry.locate_model import read_lineage
    from fullpass.pipeline.registry.show_lineage import tree

    record = read_lineage(model, file)
    if as_yaml:
        config = record.lineage.get("config")
        if not config:
            raise UserError("The configuration was not recorded: the model was not trained by `fullpass run`.")
        print_data(config["yaml"], nl=False)
    elif as_json:
        print_data(to_json_text({"source": record.source, **record.lineage}, indent=2))
    else:
        console().print(tree(record))
