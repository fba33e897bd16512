"""The command `fullpass`. Parsing only: what is heavy is imported inside the verb that needs it."""

import os
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline import input_service
from pipeline.bless.cli import bless
from pipeline.environment import set_environment
from pipeline.lineage.cli import lineage
from pipeline.models.cli import models
from pipeline.pushed import pushed_to
from pipeline.retention.cli import gc
from preprocessing.errors import UserError

if TYPE_CHECKING:
    from pipeline.loading.load import Loaded

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_NO_SPAN = 4
_DEBUG = "--debug"

_Task = Literal["binary", "multiclass", "multilabel", "regression"]
_File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)]


app = typer.Typer(
    name="fullpass",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
schedule = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Run the pipeline by the YAML's schedule.")
app.add_typer(schedule, name="schedule")
app.add_typer(input_service.app, name="input-service")


def main() -> None:
    """Runs the command line: the console entry `fullpass`."""
    set_environment()
    # Taken out here, so that it may stand anywhere on the line.
    debug = _DEBUG in sys.argv[1:]
    try:
        app([arg for arg in sys.argv[1:] if arg != _DEBUG])
    except Exception as error:
        if debug:
            raise
        typer.echo(_explained(error), err=True)
        sys.exit(_exit_code(error))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fullpass {installed_version('fullpass')}")
        raise typer.Exit()


@app.callback(
    epilog="Exit codes: 0 done, 1 a run failed, 2 the YAML or the command line is wrong, 3 not blessed, 4 no such "
    "span, 5 stopped by the data gate, 6 nothing to train."
)
def fullpass(
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """One YAML file, from raw data to a gated, pushed model that carries its own preprocessing."""


@app.command()
def init(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, folder, pattern, or package:NAME/PATH.")],
    label: Annotated[
        str | None,
        typer.Option(help="A column, or a condition over columns.", show_default="the column that stands out"),
    ] = None,
    task: Annotated[_Task | None, typer.Option(help="What is learned.", show_default="by the label's values")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("pipeline.yaml"),
    rows: Annotated[int, typer.Option("--sample", min=1, help="Rows to look at.")] = 20_000,
) -> None:
    """Write a pipeline YAML from a look at data. Every line says why it is there."""
    from pipeline.init.init import init as write_pipeline

    written = write_pipeline(data, output=str(output), label=label, task=task, rows=rows)
    for line in written.summary:
        typer.echo(line)


@app.command()
def check(
    file: _File,
    data: Annotated[bool, typer.Option("--data", help="Also look at a sample of the data.")] = False,
    rows: Annotated[int, typer.Option("--sample", min=1, help="Rows to look at, with --data.")] = 20_000,
) -> None:
    """Check a pipeline YAML: every mistake, with its line."""
    from components.ingest.spans import find_window
    from pipeline.overview import overview

    loaded = _checked(file)
    typer.echo(overview(loaded.config, find_window(loaded.config.data, loaded.resolve).lines()))
    if data:
        from pipeline.data_check.check import check_data, table

        report = check_data(loaded, rows=rows)
        typer.echo(f"\n{table(report)}")
        if report.has_errors:
            raise typer.Exit(EXIT_CONFIG)


@app.command("plan-shards")
def plan_shards(
    file: _File,
    readers: Annotated[
        int | None, typer.Option(min=1, help="Hosts that training reads on.", show_default="records.readers")
    ] = None,
) -> None:
    """Print the rows, bytes and files per split that a run will write, and what would read faster."""
    from pipeline.plan import plan, table

    typer.echo(table(plan(_checked(file), readers=readers)))


@app.command()
def show(file: _File) -> None:
    """Print the YAML with every default filled in. The output is a pipeline YAML itself."""
    from pipeline.loading.load import load
    from pipeline.show import resolved_yaml

    typer.echo(resolved_yaml(load(file).config), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the YAML, for editors."""
    import json

    from pipeline.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command()
def run(
    file: _File,
    root: Annotated[
        Path | None, typer.Option(help="Folder of artifacts, metadata and logs, instead of root of the YAML.")
    ] = None,
    from_node: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Start here; take what comes before from earlier runs.")
    ] = None,
    to_node: Annotated[str | None, typer.Option("--to", metavar="NODE", help="Stop after this node.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat every node, though nothing has changed.")] = False,
    span: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="The newest span to train on, as a date (2013-01-05) or a number, or A:B for a window of its own.",
            show_default="latest",
        ),
    ] = None,
    gate: Annotated[
        Literal["stop", "warn"],
        typer.Option(help="warn: train on data that the gate would stop at; what moved is told all the same."),
    ] = "stop",
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Nodes that run at the same time.", show_default="one per core")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for another run on the same root, instead of refusing.")
    ] = False,
) -> None:
    """Run the pipeline here, from raw data to a pushed model. Unchanged nodes are not repeated."""
    loaded = _checked(file)
    from pipeline.run import run as run_pipeline

    code = run_pipeline(
        loaded,
        root=root,
        from_node=from_node,
        to_node=to_node,
        fresh=fresh,
        span=span,
        gate=gate,
        parallel=parallel,
        wait=wait,
    )
    # Everything is written; taking TFX and TensorFlow apart again would keep the user waiting for seconds.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@app.command("compile")
def compile_(
    file: _File,
    env: Annotated[Path, typer.Option(help="The environment file: image, resources, secrets, volumes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The package to write.")] = Path("package.yaml"),
) -> None:
    """Compile the pipeline to a package for Kubeflow Pipelines, checked against the rules of its release."""
    loaded = _checked(file, runs_here=False)
    # Found by name, as at the end of this file.
    import_module("kubeflow.cli").compile_to(loaded, env, output)


@app.command()
def diagnose(
    file: _File,
    root: Annotated[Path | None, typer.Option(help="Folder of the run, instead of root of the YAML.")] = None,
    seconds: Annotated[float, typer.Option(min=10, help="Time for all measurements.")] = 60.0,
    apply: Annotated[bool, typer.Option("--apply", help="Write the settings that help into the YAML.")] = False,
    batch_size: Annotated[
        bool, typer.Option("--batch-size", help="With --apply: training.batch_size too, which changes the model.")
    ] = False,
    places: Annotated[
        bool, typer.Option("--places", help="Compare computing features in transform, input and model instead.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=100, help="Rows to measure on, with --places.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure each stage of the newest run's input and its model: input-bound or compute-bound, and what to set."""
    loaded = _checked(file)
    if places:
        if apply or batch_size:
            raise typer.BadParameter("--places only compares. Write `input: {place: ...}` yourself.")
        _compare_places(loaded, rows=rows, as_json=as_json)
        return
    if batch_size and not apply:
        raise typer.BadParameter("--batch-size goes with --apply.")
    from pipeline.diagnose.input import diagnose as diagnose_input

    found = diagnose_input(
        loaded,
        root=root,
        seconds=seconds,
        apply=apply,
        batch_size=batch_size,
        say=lambda text: typer.echo(f"measuring {text}", err=True),
    )
    from pipeline.diagnose.report import dumped, table

    if as_json:
        typer.echo(dumped(found.diagnosis, {"page": str(found.page), "applied": found.changes}))
        return
    typer.echo(f"{table(found.diagnosis)}\nChart: {found.page}")
    if apply:
        typer.echo(f"\n{found.diff}" if found.diff else f"\nNothing to write into {file}.")


def _compare_places(loaded: "Loaded", *, rows: int, as_json: bool) -> None:
    from pipeline.diagnose.cost import report_json, table
    from pipeline.execution.noise import noise_to

    with noise_to(Path(os.devnull)):
        from pipeline.diagnose.places import compare_places

    found = compare_places(loaded, rows=rows, say=lambda text: typer.echo(f"measuring {text}", err=True))
    typer.echo(report_json(found) if as_json else table(found))


@app.command()
def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model's folder, the folder models are pushed to, or the YAML.")
    ],
    rows: Annotated[Path, typer.Argument(metavar="INPUT", help="Raw rows: CSV, JSON lines or Parquet, by file name.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write.", show_default="JSON lines on standard output"),
    ] = None,
) -> None:
    """Predict raw rows with a trained model. A column that the rows lack counts as missing."""
    target = pushed_to(model)
    from trainer.predict import absent_columns, load_export, predict_file, predict_tables
    from trainer.tables import to_json

    exported = load_export(target)
    if output is not None:
        predicted = predict_file(exported, str(rows), str(output))
        absent = predicted.absent
        typer.echo(f"{predicted.rows:,} rows predicted, in {output}")
    else:
        absent = ()
        for table in predict_tables(exported, str(rows)):
            absent = absent_columns(exported, table.column_names)
            for row in table.to_pylist():
                typer.echo(to_json(row))
    if absent:
        typer.echo(f"Columns that {rows} lacks, taken as missing: {', '.join(absent)}", err=True)


@app.command()
def rollback(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
    ] = Path("pipeline.yaml"),
    to: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Version to serve.", show_default="one back")
    ] = None,
) -> None:
    """Serve an earlier model again, or with --to a later one. Newer versions are put aside, not deleted."""
    from components.push import rollback as roll_back

    typer.echo(f"Now served: version {roll_back(pushed_to(target), to)}")


app.command()(bless)
app.command()(models)
app.command()(lineage)
app.command()(gc)


@app.command()
def version() -> None:
    """Print the versions of Fullpass and its engine."""
    for package in ("fullpass", "tfx", "tensorflow", "tensorflow-transform", "apache-beam", "keras"):
        typer.echo(f"{package} {installed_version(package)}")
    typer.echo(f"python {sys.version.split()[0]}")


def _checked(file: Path, *, runs_here: bool = True) -> "Loaded":
    from pipeline.loading.checked import load_checked

    return load_checked(file, runs_here=runs_here)


def _explained(error: Exception) -> str:
    from pipeline.loading.problems import ConfigError

    if isinstance(error, ConfigError):
        return f"{error}\n{error.count}"
    if isinstance(error, UserError):
        return str(error)
    return f"{type(error).__name__}: {error}\nThis is a defect of Fullpass. --debug shows where it arose."


def _exit_code(error: Exception) -> int:
    from components.ingest.spans import SpanNotFoundError
    from pipeline.loading.problems import ConfigError

    if isinstance(error, SpanNotFoundError):
        return EXIT_NO_SPAN
    return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED


import_module("pipeline.schedule.cli").register(app, schedule)
# The command line stands above all layers, this module does not: what is above it is found by name.
import_module("kubeflow.deploy.cli").register(app, schedule)


if __name__ == "__main__":
    main()
