"""The commands `fullpass bless`, `lineage` and `models`. `models` imports neither TensorFlow nor TFX."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text


def bless(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.")] = Path("pipeline.yaml"),
    model: Annotated[
        str | None,
        typer.Option(help="Number at the end of the model's folder; by default the newest that was refused."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Bless and push it although the Evaluator refused it.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason to override the thresholds; it is recorded.")] = "",
    root: Annotated[Path | None, typer.Option(help="Folder of the pipeline's runs, instead of the YAML's.")] = None,
) -> None:
    """Push a model that was not blessed, and record who did so, why and when."""
    from fullpass.pipeline.authoring.checks.check import load_checked
    from fullpass.pipeline.printing import print_text
    from fullpass.pipeline.registry.bless import bless as bless_model
    from fullpass.pipeline.root.layout import pipeline_root

    loaded = load_checked(file, runs_here=False)
    done = bless_model(loaded, pipeline_root(loaded, root), model=model, force=force, why=why)
    print_text(done)


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
    from fullpass.pipeline.printing import console, print_data
    from fullpass.pipeline.registry.locate_model import read_lineage, tree

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


def models(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
    ] = Path("pipeline.yaml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the pushed models with their state, metrics, spans, configuration, code and who blessed them."""
    from fullpass.pipeline.printing import console, print_data
    from fullpass.pipeline.registry import list_versions
    from fullpass.pipeline.registry.locate_model import pushed_to

    folder = pushed_to(target)
    found = list_versions.read_versions(folder)
    if as_json:
        print_data(to_json_text([asdict(version) for version in found], indent=2))
    else:
        console().print(list_versions.table(found, folder))
