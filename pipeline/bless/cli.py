"""`fullpass bless`."""

from pathlib import Path
from typing import Annotated

import typer


def bless(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.")] = Path("pipeline.yaml"),
    model: Annotated[
        str | None,
        typer.Option(help="Number at the end of the model's folder; by default the newest that was refused."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Bless and push it though the Evaluator did not.")] = False,
    why: Annotated[str, typer.Option(help="What is known better than the thresholds; it is recorded.")] = "",
    root: Annotated[Path | None, typer.Option(help="Folder of the pipeline's runs, instead of the YAML's.")] = None,
) -> None:
    """Push a model that was not blessed, with who did so, why and when on record."""
    from pipeline.bless.bless import bless as bless_model
    from pipeline.loading.checked import load_checked
    from pipeline.run import pipeline_root

    loaded = load_checked(file, runs_here=False)
    done = bless_model(loaded, root.absolute() if root else pipeline_root(loaded), model=model, force=force, why=why)
    typer.echo(done)
