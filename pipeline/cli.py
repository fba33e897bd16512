"""The command line `fullpass`. It only parses arguments: each command imports in its body what takes 20 ms or more."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, cast

import typer
import typer.core
from typer import Argument, Option

from fullpass.base.errors import UsageError, UserError
from fullpass.base.processes import flush_streams
from fullpass.components.ingest.readers.crashes import continue_in_fork
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.predict.input_source import AS_TRAINED
from fullpass.components.predict.write_tables import row_json
from fullpass.components.push import push
from fullpass.pipeline import options, printing
from fullpass.pipeline.authoring.checks.check import load_checked, overview
from fullpass.pipeline.authoring.defaults import SAMPLE_ROWS, SEARCH_SECONDS
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.show_config import resolved_yaml
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.diagnose.command import diagnose
from fullpass.pipeline.exit_codes import ExitCode, exit_code, explained
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.commands import compare, evaluate, export, gc, lineage, models, refresh, runs
from fullpass.pipeline.registry.locate_model import pushed_to
from fullpass.pipeline.registry.root_page import write_page_after_run, write_pages_of
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.beam_args import prediction_args
from fullpass.pipeline.running.execution import failure
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.running.run_window import gated_window
from fullpass.pipeline.scheduling import commands
from fullpass.pipeline.serving.command import serve
from fullpass.pipeline.startup import large_imports, noise_to, set_environment, without_keras
from fullpass.pipeline.watching.command import bless, watch
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import ADDRESS

_DEBUG = "--debug"
_Gate = Literal["stop", "warn"]

TASKS = {
    "Write a pipeline": ("init", "check", "show", "schema"),
    "Run it": ("run", "runs", "report", "predict", "diagnose", "schedule", "backfill"),
    "Serve it": ("serve", "watch"),
    "Manage models": ("models", "compare", "evaluate", "lineage", "bless", "rollback", "refresh", "export", "gc"),
    "Use a cluster": ("compile", "submit", "input-service"),
    "About": ("version",),
}
"""Task -> its commands, in the order of `fullpass --help`."""
_WHOLE = 1_000
"""Longer than the first sentence of any help."""
ABOVE = ("fullpass.kubeflow.deploy.deploy_command",)
"""Modules of the layer above that add commands, each with a function `register`. They are imported by name, because no
layer may import a layer above it, and the command line is above all layers."""


class _WholeHelp(typer.core.TyperGroup):
    """Shows each command with the whole first sentence of its help; those of `fullpass` by task."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the sections."""
        width = max(map(len, self.commands))
        for heading, names in (TASKS if self.name == app.info.name else {"Commands": self.commands}).items():
            with formatter.section(heading):
                formatter.write_dl([(n.ljust(width), self.commands[n].get_short_help_str(_WHOLE)) for n in names])


_GROUP: Any = {"cls": _WholeHelp, "no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(
    name="fullpass",
    **_GROUP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
schedule = typer.Typer(**_GROUP, help="Run the pipeline by the YAML's schedule.")
input_service = typer.Typer(
    **_GROUP, help="Run a tf.data service that parses and transforms for trainers (input.service)."
)
app.add_typer(schedule, name="schedule")
app.add_typer(input_service, name="input-service")


def main() -> None:
    """Runs the command line: the console entry `fullpass`."""
    set_environment()
    printing.open_streams()
    # Removed here, so --debug is accepted anywhere on the command line.
    debug = _DEBUG in sys.argv[1:]
    try:
        app([arg for arg in sys.argv[1:] if arg != _DEBUG])
    except Exception as error:
        if debug:
            raise
        printing.print_text(explained(error), err=True)
        printing.discard_unwritten()
        sys.exit(exit_code(error))


def _print_version(wanted: bool) -> None:
    if wanted:
        printing.print_text(f"fullpass {installed_version('fullpass')}")
        raise typer.Exit()


@app.callback(epilog=f"Exit codes: {', '.join(f'{code} {code.short}' for code in ExitCode)}.")
def fullpass(
    debug: Annotated[bool, Option(_DEBUG, help="Show tracebacks.")] = False,
    version: Annotated[
        bool, Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Turn raw data into a gated, pushed model that carries its own preprocessing, from one YAML file."""


@app.command()
def init(
    data: Annotated[str, Argument(metavar="DATA", help="A file, folder, pattern, or package:NAME/PATH.")],
    label: Annotated[
        str | None, Option(help="A column, or a condition over columns.", show_default="the column that stands out")
    ] = None,
    task: Annotated[
        str | None,
        Option(
            help="The task of the label.",
            show_default="by the label's values",
            **options.one_of("task", Task),
        ),
    ] = None,
    output: Annotated[Path, Option("--output", "-o", help="The file to write.")] = options.USUAL,
    rows: Annotated[int, Option("--sample", min=1, help="Rows to look at.")] = SAMPLE_ROWS,
    bad_rows: Annotated[
        float | None,
        Option(min=0, max=1, help="Share of rows that may be unreadable.", show_default="refuse above 0.01"),
    ] = None,
    tables: Annotated[
        str | None, Option(metavar="FOLDER", help="Also join the tables of a folder whose keys match.")
    ] = None,
    source: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="A key of data.source, which is not guessed then; repeatable."),
    ] = None,
    search_seconds: Annotated[
        float, Option(min=0, help="Processor seconds to try representations for, about; 0 tries none.")
    ] = SEARCH_SECONDS,
    page: Annotated[Path | None, Option(metavar="FILE", help="Also write an HTML page of the data.")] = None,
) -> None:
    """Write a pipeline YAML from a sample of the data. Each line has a comment with its reason."""
    from fullpass.pipeline.authoring.init.init import init as write_pipeline

    written = write_pipeline(
        data,
        output=str(output),
        label=label,
        task=cast(Task | None, task),
        rows=rows,
        bad_rows=bad_rows,
        tables=tables,
        source=options.key_values("--source", source or ()),
        search_seconds=search_seconds,
        say=printing.print_text,
    )
    for line in written.summary:
        printing.print_text(line)
    if page is not None:
        from fullpass.pipeline.authoring.data_page.data_page import page_of_init

        page_of_init(written).write(page)
        printing.print_text(f"Page: {page}")


@app.command()
def check(
    file: options.File = options.USUAL,
    data: Annotated[bool, Option("--data", help="Also look at a sample of the data.")] = False,
    rows: Annotated[int, Option("--sample", min=1, help="Rows to look at, with --data.")] = SAMPLE_ROWS,
    page: Annotated[
        Path | None, Option(metavar="FILE", help="With --data: also write an HTML page of the data.")
    ] = None,
    against: Annotated[
        str | None,
        Option(metavar="ROWS|SPAN", help="With --data: compare with a file or folder, a request log, or a span."),
    ] = None,
    span: options.Span = None,
) -> None:
    """Check a pipeline YAML and print every mistake with its line number."""
    loaded = load_checked(file, span=span)
    window = gated_window(loaded, pipeline_root(loaded), find_window(loaded.config.data, loaded.resolve, span))
    printing.print_text(overview(loaded.config, window.lines()))
    if not data and (page or against):
        raise UsageError("--page and --against show the data: add --data.")
    if data:
        from fullpass.pipeline.authoring.data_check.data_check import check_data, findings_table

        report = check_data(loaded, rows=rows, every_column=bool(page or against))
        printing.print_text(f"\n{findings_table(report)}")
        if report.sampled is not None and (page or against):
            from fullpass.pipeline.authoring.data_page.data_page import page_of_report

            shown = page_of_report(report, against, rows=rows)
            for line in shown.differences:
                printing.print_text(line)
            if page is not None:
                shown.write(page)
                printing.print_text(f"Page: {page}")
        if report.has_errors:
            raise typer.Exit(ExitCode.WRONG_USAGE)


@app.command()
def show(file: options.File = options.USUAL) -> None:
    """Print the YAML with every default filled in. The output is a pipeline YAML itself."""
    printing.print_data(resolved_yaml(load(file).config), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the YAML, for editors."""
    printing.print_data(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command()
def run(
    file: options.File = options.USUAL,
    root: options.RunRoot = None,
    from_node: Annotated[
        str | None, Option("--from", metavar="NODE", help="Start at this node, with the outputs of earlier runs.")
    ] = None,
    to_node: Annotated[str | None, Option("--to", metavar="NODE", help="Stop after this node.")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Run every node, even if nothing has changed.")] = False,
    span: options.Span = None,
    gate: Annotated[
        _Gate,
        Option(
            help="warn: train even if the data gate would stop the run, and release its stopped spans for later runs.",
            **options.one_of("policy of the data gate", _Gate),
        ),
    ] = "stop",
    parallel: Annotated[
        int | None, Option(min=1, help="Nodes that run at the same time.", show_default="one more than cores")
    ] = None,
    wait: Annotated[bool, Option("--wait", help="Wait for another run on the same root, instead of refusing.")] = False,
    summary: Annotated[
        Path | None, Option(metavar="FILE", help="Also write the outcome as JSON when the run has ended.")
    ] = None,
    events: Annotated[bool, Option("--events", hidden=True)] = False,
) -> None:
    """Run the pipeline on this machine, from raw data to a pushed model. Unchanged nodes are not repeated."""
    loaded = load_checked(file, span=span)
    from fullpass.pipeline.running.run import run as run_pipeline

    request = RunRequest(
        root=root,
        from_node=from_node,
        to_node=to_node,
        fresh=fresh,
        span=span,
        gate=gate,
        parallel=parallel,
        wait=wait,
        summary=summary,
        events=events,
    )
    code = run_pipeline(loaded, request)
    write_page_after_run(loaded, root)
    # All output is written. A normal exit would tear down TFX and TensorFlow, which takes seconds.
    # The exit code is that of the run, even if nobody reads its output.
    flush_streams()
    os._exit(code)


@app.command()
def report(
    run_id: Annotated[
        str | None,
        Argument(metavar="RUN", help="Id of a run, or its beginning.", show_default="the newest with a report"),
    ] = None,
    file: options.NamedFile = options.USUAL,
    root: options.Root = None,
    opened: Annotated[bool, Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Print the path of a run's report, and of the page of all runs and models."""
    from fullpass.pipeline.api.pipeline import Pipeline

    pipeline = Pipeline.of(load(file))
    known = pipeline.runs(root=root)
    run = known[run_id] if run_id else known.with_report()
    printing.print_data(str(run.open_report() if opened else run.find_report()))
    index = RootLayout(pipeline_root(pipeline, root)).index
    if index.is_file():
        printing.print_text(f"All runs and models: {index}", err=True)


@app.command()
@options.reads_rows
def predict(
    model: options.Model,
    rows: Annotated[str, Argument(metavar="INPUT", help="Raw rows: a file, folder, glob or address.")],
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="A file (.csv, .jsonl, .parquet, .tfrecord); with --runner a folder of such files.",
            show_default="JSON lines on standard output",
        ),
    ] = None,
    read_as: Mapping[str, Any] = AS_TRAINED,
    join: Annotated[
        list[str] | None,
        Option(metavar="NAME=PATH", help="The table of a join, if the rows lack its columns; repeatable."),
    ] = None,
    history: Annotated[
        list[str] | None,
        Option(metavar="NAME=PATH", help="The events of a history, if the rows lack its lists; repeatable."),
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Add the effect of each column on the score of each row.")
    ] = False,
    page: Annotated[
        Path | None, Option(metavar="FILE", help="With --explain: also write an HTML page of the first 20 rows.")
    ] = None,
    safe_csv: Annotated[
        bool, Option("--safe-csv", help="Write texts that a spreadsheet would compute behind an apostrophe.")
    ] = False,
    runner: Annotated[
        str | None,
        Option(
            help="Predict parts of the files in parallel, on Beam: direct (the cores of this machine), flink, spark ..."
        ),
    ] = None,
    beam: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="An option of Beam for --runner, with its value in YAML; repeatable."),
    ] = None,
) -> None:
    """Predict raw rows with a trained model. Rows are read like its training data, unless an option overrides that.

    An absent column counts as missing. A row that cannot be read has no prediction; `bad_row` holds the reason.
    """
    if page is not None and (not explain or runner is not None or beam):
        raise UsageError("--page shows explanations of one process: add --explain, and leave --runner out.")
    continue_in_fork()
    tables, events = options.paths_by_name("--join", join), options.paths_by_name("--history", history)
    without_keras()
    if runner is not None or beam:
        if tables or events:
            option = "--join" if tables else "--history"
            raise UsageError(f"{option} predicts in one process: leave --runner out, or give rows with these columns.")
        _predict_on_beam(model, rows, output, read_as, runner or "direct", beam or (), explained=explain, safe=safe_csv)
        return
    if safe_csv and output is None:
        raise UsageError("--safe-csv is for a file: give its name with -o, such as -o predictions.csv.")
    with large_imports():
        from fullpass.components.predict.exported import load_export

        exported = load_export(pushed_to(model.absolute()))
    from fullpass.components.predict.other_rows import other_rows
    from fullpass.components.predict.predict import predict_tables, write_predictions

    with TemporaryDirectory() as folder:
        others = other_rows(exported, tables, events, folder)
        predictions = predict_tables(exported, rows, read_as, others=others, explained=explain)
        if output is not None:
            done = write_predictions(predictions, str(output), safe=safe_csv)
            printing.print_text(f"{done.rows - done.bad:,} rows predicted, in {output}")
        else:
            for table in predictions:
                for row in table.to_pylist():
                    printing.print_data(row_json(row))
            done = predictions.tally
        if page is not None:
            printing.print_text(f"Page: {predictions.explanation().write(page)}", err=True)
    for line in done.notes():
        printing.print_text(line, err=True)


def _predict_on_beam(
    model: Path,
    rows: str,
    output: Path | None,
    read_as: Mapping[str, Any],
    runner: str,
    beam: Sequence[str],
    *,
    explained: bool,
    safe: bool,
) -> None:
    if output is None:
        raise UsageError("--runner writes a folder: give its name with -o, such as -o predictions.parquet.")
    config = BeamConfig(runner=runner, options=options.key_values("--beam", beam))
    try:
        with noise_to(Path(os.devnull)):
            with large_imports():
                from fullpass.components.predict.predict_parts import Batch, predict_parts
            batch = Batch(str(pushed_to(model.absolute())), rows, str(output), read_as, explained, safe)
            done = predict_parts(batch, lambda size: prediction_args(config, data_bytes=size))
    except Exception as error:  # Beam wraps the errors of its workers
        if isinstance(error, UserError) or not failure.causes(error)[1]:
            raise
        raise UserError(failure.explain(error)) from error
    printing.print_text(f"{done.rows - done.bad:,} rows predicted, in {output}")
    for line in done.notes():
        printing.print_text(line, err=True)


@app.command()
def rollback(
    target: options.Target = options.USUAL,
    to: Annotated[
        int | None, Option(metavar="VERSION", help="Version to serve.", show_default="the previous version")
    ] = None,
) -> None:
    """Serve an earlier model again, or with --to a later one. Newer versions are put aside, not deleted."""
    folder = pushed_to(target.absolute())
    served = push.rollback(folder, to)
    write_pages_of(folder)
    printing.print_text(f"Now served: version {served}")


for verb in (diagnose, runs, serve, watch, compare, evaluate, bless, models, lineage, refresh, export, gc):
    app.command()(verb)


@app.command()
def version() -> None:
    """Print the versions of Fullpass, its main dependencies and Python."""
    for package in ("fullpass", "tfx", "tensorflow", "tensorflow-transform", "apache-beam", "keras"):
        printing.print_text(f"{package} {installed_version(package)}")
    printing.print_text(f"python {sys.version.split()[0]}")


commands.register(app, schedule)
for module in ABOVE:
    import_module(module).register(app, schedule)


@input_service.command()
def dispatcher(
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 5050,
    work_dir: Annotated[
        Path | None,
        Option(help="Folder of the state from which a restarted dispatcher resumes.", show_default="no state is kept"),
    ] = None,
) -> None:
    """Run the dispatcher, which distributes files to workers, until it is stopped."""
    from fullpass.trainer.input.service.server import run_dispatcher

    run_dispatcher(port, print_text, work_dir)


@input_service.command()
def worker(
    address: Annotated[str, Argument(metavar="HOST:PORT", help="Address of the dispatcher.", show_default=False)],
    host: Annotated[
        str | None,
        Option(help="Name under which trainers reach this machine.", show_default="localhost, or the machine's name"),
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 0,
) -> None:
    """Run a worker, which reads, parses and transforms examples, until it is stopped."""
    from fullpass.trainer.input.service.server import run_worker

    if not ADDRESS.fullmatch(address):
        raise UserError(f"a worker needs the dispatcher's host:port. Received: {address!r}.")
    run_worker(address, print_text, host, port)


if __name__ == "__main__":
    main()
