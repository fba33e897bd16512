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
