"""`fullpass gc`."""

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.loading.load import Loaded
    from pipeline.retention.places import NextRun


def gc(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.")] = Path("pipeline.yaml"),
    keep_runs: Annotated[int, typer.Option(min=1, help="Runs that are kept, the newest.")] = 10,
    keep_days: Annotated[float, typer.Option(min=0, help="Runs that are younger are kept too.")] = 30,
    root: Annotated[Path | None, typer.Option(help="Folder of the runs, instead of root of the YAML.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be freed; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove artifacts, caches, quarantine, logs and records that no kept run, pushed model or window needs."""
    from pipeline.loading.load import load
    from pipeline.printing import console
    from pipeline.retention.collect import METADATA, collect
    from pipeline.retention.keep import Policy
    from pipeline.retention.show import table
    from pipeline.run import pipeline_root
    from preprocessing.errors import UserError

    loaded = load(file)
    folder = root.absolute() if root else pipeline_root(loaded)
    if not (folder / METADATA).is_file():
        raise UserError(f"{folder}: nothing has been run there. --root names another folder.")
    target = Path(loaded.resolve(loaded.config.push.to))
    freed = collect(folder, target, Policy(keep_runs, keep_days), _next_run(loaded, folder), dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, **asdict(freed)}, indent=2))
    else:
        console().print(table(freed, dry_run=dry_run))


def _next_run(loaded: "Loaded", root: Path) -> "NextRun":
    """Returns what the next run would take over; of a source that is not there, no more than kept runs used."""
    from components.ingest.spans import find_window, has_spans, index_names
    from pipeline.retention.places import NextRun
    from pipeline.run import SPAN_INDEX
    from preprocessing.errors import UserError

    data, before = loaded.config.data, loaded.config.gates.history
    # Without spans, data is compared with what it was.
    versions = 1 if has_spans(data) else 2
    try:
        with tempfile.TemporaryDirectory() as scratch:
            # A look adds to the index what it has read, and this only frees, or says what it would.
            copied = Path(scratch, SPAN_INDEX)
            if (root / SPAN_INDEX).is_dir():
                shutil.copytree(root / SPAN_INDEX, copied)
            window = find_window(data, loaded.resolve, index=copied)
        index = index_names(data, loaded.resolve)
    except UserError as error:
        typer.echo(f"The window cannot be looked up, so only that of kept runs is kept: {error}", err=True)
        return NextRun(before=before, versions=versions)
    return NextRun({span.number for span in window.spans}, index, before, versions)
