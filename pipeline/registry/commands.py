"""The commands `fullpass runs`, `models`, `compare`, `evaluate`, `lineage`, `bless`, `refresh`, `export` and `gc`.

`runs`, `models` and `gc` import neither TensorFlow nor TFX.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

from rich.console import Group, RenderableType
from rich.filesize import pick_unit_and_suffix
from rich.text import Text
from typer import Argument, Option

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.readers.crashes import continue_in_fork
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.portable.targets import Server, Target
from fullpass.components.predict.input_source import AS_TRAINED
from fullpass.pipeline import options
from fullpass.pipeline.authoring.loading.load import YAML_ENDINGS, load
from fullpass.pipeline.printing import console, print_data, print_text, simple_table
from fullpass.pipeline.record import list_runs
from fullpass.pipeline.registry import list_versions
from fullpass.pipeline.registry.locate_model import find_export, pushed_to, read_lineage, tree
from fullpass.pipeline.registry.retention.collect import Freed
from fullpass.pipeline.registry.retention.free import free
from fullpass.pipeline.registry.root_page import write_page_after_run, write_pages_of
from fullpass.pipeline.root.layout import pipeline_root, served_folder
from fullpass.pipeline.startup import large_imports, noise_to, without_keras

Shown = TypeVar("Shown", bound=ShownPage)
_Named = Annotated[
    Path, Option("--file", "-f", metavar="FILE|DIR", help="The YAML, or folder of models, of ids and numbers.")
]


def refresh(
    model: Annotated[
        str, Argument(metavar="MODEL", help="`latest` for the served one, its version's number, or the pipeline YAML.")
    ] = "latest",
    file: options.NamedFile = options.USUAL,
) -> None:
    """Push the served model again with the current tables that it looks up, if it answers like joined rows."""
    loaded = load(Path(model) if Path(model).suffix in YAML_ENDINGS else file)
    export = find_export(model, file)
    with large_imports(), noise_to(Path(os.devnull)):
        from fullpass.pipeline.registry.refresh import refresh as push_refreshed
        from fullpass.pipeline.registry.refresh import words

        found = push_refreshed(loaded, export)
    print_text(words(found, served_folder(loaded)))
    write_pages_of(served_folder(loaded))


def lineage(
    model: Annotated[
        str, Argument(metavar="MODEL", help="A version's number, `latest` or the YAML for the served one, or a folder.")
    ] = "latest",
    file: Annotated[
        Path,
        Option("--file", "-f", metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to."),
    ] = options.USUAL,
    as_json: Annotated[bool, Option("--json", help="Print JSON, including the YAML of the training run.")] = False,
    as_yaml: Annotated[bool, Option("--yaml", help="Print the YAML of the training run, unchanged.")] = False,
) -> None:
    """Show the lineage of a model: spans, configuration, code, transform graph, metrics, gates, blessing."""
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
    target: options.Target = options.USUAL,
    as_json: options.Json = False,
) -> None:
    """List the pushed models with their state, metrics, spans, configuration, code and who blessed them."""
    folder = pushed_to(target)
    found = list_versions.read_versions(folder)
    _print(found, lambda: list_versions.table(found, folder), as_json=as_json)


def runs(
    file: options.File = options.USUAL,
    root: options.Root = None,
    last: Annotated[int, Option(min=1, help="Number of newest runs to list.")] = 20,
    leaderboard: Annotated[
        bool, Option("--leaderboard", help="List the models and trials that each run tried, with scores and times.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the runs, refused and failed ones too: what changed since the run before, the verdict, the metrics."""
    folder = pipeline_root(load(file), root)
    found = list_runs.read_runs(folder, last)
    if leaderboard:
        rows = [{"run": run.facts.run_id, **row} for run in found for row in list_runs.leaderboard_of(run.facts)]
        _print(rows, lambda: list_runs.leaderboard_table(found, folder), as_json=as_json)
        return
    _print([run.listing for run in found], lambda: list_runs.table(found, folder), as_json=as_json)


def _print(found: list[Any], table: Callable[[], RenderableType], *, as_json: bool) -> None:
    """Prints records as JSON or as a table for people."""
    if as_json:
        print_data(to_json_text(found, indent=2))
    else:
        console().print(table())


@options.reads_rows
def compare(
    a: Annotated[str, Argument(metavar="A", help="A run's id, a version, `latest`, a folder, or a YAML.")],
    b: Annotated[str, Argument(metavar="B", help="The same, of any root.")],
    more: Annotated[
        list[str] | None, Argument(metavar="[C ...]", help="Others, each of which is compared with A too.")
    ] = None,
    file: _Named = options.USUAL,
    data: Annotated[
        str | None, Option(metavar="ROWS", help="Labelled rows to measure both on, or a YAML that names them.")
    ] = None,
    page: options.Page = None,
    as_json: options.Json = False,
    read_as: Mapping[str, Any] = AS_TRAINED,
) -> None:
    """Compare two models: YAMLs, features and data, and metrics and slices on the same rows with paired intervals.

    Of more models, compare settings and metrics of each with those of A.
    """
    continue_in_fork()
    without_keras()
    from fullpass.pipeline.registry import compare as comparing
    from fullpass.pipeline.registry import compare_several as several

    with noise_to(Path(os.devnull)), large_imports():
        found = several.compare_several(a, (b, *(more or ())), file, data, read_as)
    if more:
        _give(found, several.shown, page, as_json=as_json)
    else:
        _give(found.pairs[0], comparing.shown, page, as_json=as_json)


@options.reads_rows
def evaluate(
    model: Annotated[str, Argument(metavar="MODEL", help="A version, `latest`, a run's id, a folder, or a YAML.")],
    rows: Annotated[str, Argument(metavar="ROWS", help="Labelled rows: a file, folder, glob or address; or a YAML.")],
    file: _Named = options.USUAL,
    page: options.Page = None,
    as_json: options.Json = False,
    read_as: Mapping[str, Any] = AS_TRAINED,
) -> None:
    """Measure a model on labelled rows, with the metrics, intervals and slices of the Evaluator."""
    continue_in_fork()
    without_keras()
    from fullpass.pipeline.registry import evaluate as evaluating

    with noise_to(Path(os.devnull)), large_imports():
        found = evaluating.evaluate_model(model, rows, file, read_as)
    _give(found, evaluating.shown, page, as_json=as_json)


def _give(found: Shown, shown: Callable[[Shown], RenderableType], page: Path | None, *, as_json: bool) -> None:
    """Writes the page of a result, if one is named, and prints the result as tables or as JSON."""
    if page is not None:
        found.write(page)
    if as_json:
        print_data(to_json_text(found.record(), indent=2))
        return
    console().print(shown(found))
    if page is not None:
        print_text(f"Page: {page}")


def export(
    model: options.Model,
    to: Annotated[Target, Option("--to", help="The format.", **options.one_of("format", Target))],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder to write; it must not exist.")],
    rows: Annotated[
        str | None,
        Option(
            metavar="INPUT", help="Raw rows to compare on, as for predict.", show_default="the eval split of its run"
        ),
    ] = None,
    server: Annotated[
        Server, Option(help="What answers in the image.", **options.one_of("server", Server))
    ] = "tensorflow",
) -> None:
    """Write a model for LiteRT or ONNX Runtime, if it answers like the SavedModel, or as a container image to build."""
    folder = pushed_to(model.absolute())
    if to == "image":
        with large_imports(), noise_to(Path(os.devnull)):
            from fullpass.components.portable.write_image import write_image

            image = write_image(folder, out, server, rows)
        print_text(f"{out}: {image}. Build and start it: docker compose -f {out}/compose.yaml up --build (README.md)")
        return
    with large_imports(), noise_to(Path(os.devnull)):
        from fullpass.components.portable.export_portable import BOUND
        from fullpass.components.predict.exported import load_export
        from fullpass.pipeline.registry.write_portable import write_portable

        found = write_portable(load_export(folder), to, out, rows)
    print_text(
        f"{out}: {found.bytes:,} bytes. On {found.rows:,} rows the largest difference from the SavedModel is "
        f"{found.largest:.2g} (up to {BOUND:g} is accepted); {found.changed:,} predictions differ.\n"
        f"A row takes {found.milliseconds[0]:.2f} ms of preprocessing and {found.milliseconds[1]:.2f} ms of network."
    )


def gc(
    file: options.File = options.USUAL,
    keep_runs: Annotated[int, Option(min=1, help="Number of newest runs to keep.")] = 10,
    root: options.Root = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be freed; change nothing.")] = False,
    as_json: options.Json = False,
) -> None:
    """Remove artifacts, caches, quarantine, logs and records that no kept run, pushed model or window needs."""
    loaded = load(file)
    freed = free(loaded, pipeline_root(loaded, root), keep_runs, dry_run=dry_run)
    if as_json:
        print_data(json.dumps({"dry_run": dry_run, **asdict(freed)}, indent=2))
    else:
        console().print(_freed_table(freed, dry_run=dry_run))
    if not dry_run:
        write_page_after_run(loaded, root)


def _freed_table(freed: Freed, *, dry_run: bool) -> RenderableType:
    """Returns a table of the removed sizes and numbers, and the number of kept runs and models."""
    runs, models = freed.kept["runs"], freed.kept["models"]
    kept = f"Kept: {runs} run{'s' * (runs != 1)}, {models} model{'s' * (models != 1)}, and the window."
    if freed.links:
        kept += f"\nNot searched, because they are links: {', '.join(freed.links)}."
    words = {what: what if count > 1 else what.removesuffix("s") for what, count in freed.records.items()}
    taken = ", ".join(f"{count:,} {words[what]}" for what, count in freed.records.items() if count)
    if not freed.counts and not taken:
        return Text(f"Nothing to free. {kept}")
    kinds, numbers = sorted({*freed.sizes, *freed.counts}), ("files and folders", "size")
    rows = [(kind, str(freed.counts.get(kind, "")), _size_text(freed.sizes.get(kind, 0))) for kind in kinds]
    shown = simple_table(("what", *numbers), rows, right=numbers)
    total = f"{'Would free' if dry_run else 'Freed'} {_size_text(sum(freed.sizes.values()))}"
    records = f"; records of the metadata: {taken}" if taken else ""
    return Group(shown, Text(f"{total}{records}.\n{kept}"))


def _size_text(size: int) -> str:
    """Returns a size in bytes as `1.5 MB`, by powers of 1,024."""
    unit, name = pick_unit_and_suffix(size, ["B", "KB", "MB", "GB", "TB"], 1024)
    return f"{size} B" if unit == 1 else f"{size / unit:.1f} {name}"
