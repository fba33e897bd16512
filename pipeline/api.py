"""The Python API of `import fullpass`, for notebooks and tests (docs/api.md).

Each function imports heavy modules in its body, like the commands of the command line, which call the same code.
"""

import subprocess
import tempfile
import webbrowser
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.base.user_modules import use_modules_of
from fullpass.components.push.push import rollback as roll_back
from fullpass.pipeline.authoring.checks.check import load_checked, require
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.load import load as load_file
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem
from fullpass.pipeline.authoring.show_config import with_table
from fullpass.pipeline.frames import Rows, as_arrow, concatenated, like, to_parquet, write_parquet
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.record.facts import UNFINISHED, read_facts
from fullpass.pipeline.record.outcome import Outcome
from fullpass.pipeline.registry.list_versions import Version, read_versions
from fullpass.pipeline.registry.locate_model import pushed_to
from fullpass.pipeline.registry.root_page import write_pages_of
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.root.layout import RUN_FILE, RootLayout, pipeline_root, served_folder
from fullpass.pipeline.running.execution.display import NotebookDisplay, in_notebook
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.startup import set_environment
from fullpass.pipeline.transform import Transform
from fullpass.preprocessing.features.label import Task

if TYPE_CHECKING:
    from tfx.orchestration import pipeline as tfx_types

    from fullpass.components.predict.exported import Exported
    from fullpass.pipeline.registry.compare import Comparison
    from fullpass.pipeline.registry.evaluate import Evaluation

Pipeline = Loaded
"""A loaded pipeline file without errors; its attributes include `config`, `file` and `folder`."""
PipelineFile = Loaded | Path | str
_SHOWN_RUNS = 5
"""Number of newest runs that an error proposes."""
_TAIL = 40
"""Number of last lines of output that the error of a run that could not start shows."""
_DAMAGED_FACTS = "Remove it: the run is then not listed."


def load(file: Path | str, *, runs_here: bool = True) -> Pipeline:
    """Returns a pipeline file after reading and checking it; its warnings are printed to standard error.

    Example:
        >>> fullpass.load("pipeline.yaml").config.label.task
        'binary'

    Args:
        file: The pipeline YAML.
        runs_here: Whether the pipeline will run on this machine. If not, data that this machine lacks is a warning.

    Raises:
        ConfigError: The file has mistakes; `problems` holds all of them.
    """
    return load_checked(Path(file), runs_here=runs_here)


def check(file: Path | str, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns all errors and warnings of a pipeline file in file order, without raising; empty if there are none.

    Example:
        >>> fullpass.check("pipeline.yaml")
        ()
        >>> [problem.path for problem in fullpass.check("wrong.yaml")]
        ['features.fare']
    """
    try:
        return tuple(require(load_file(file), runs_here=runs_here))
    except ConfigError as error:
        return error.problems


def init(
    data: Rows | Path | str,
    label: str | None = None,
    *,
    task: Task | None = None,
    output: Path | str = "pipeline.yaml",
    sample: int = 20_000,
) -> Pipeline:
    """Writes a pipeline YAML from data, like `fullpass init`, and returns the pipeline. Comments in it give reasons.

    Example:
        >>> pipeline = fullpass.init("trips.csv", "fare", output="drafted.yaml")
        drafted.yaml: 2 features, from 400 rows looked at
        label: fare (regression; numbers, median 9.93, ...)
        >>> list(pipeline.config.features)
        ['company', 'tipped']

    Args:
        data: A table in memory, which is written as a Parquet file beside the YAML; or the path of a file, folder or
            glob, or `package:NAME/PATH`.
        label: A column, or a condition over columns; None takes the column that stands out.
        task: The task of the label; None decides by its values.
        output: The file to write; it must not exist yet.
        sample: Number of rows to look at.

    Raises:
        UserError: The data cannot be read or learned from, no column is clearly the label, or a file already exists.
    """
    from fullpass.pipeline.authoring.init.init import init as write_pipeline

    file = Path(output)
    with ExitStack() as undo:
        if not isinstance(data, Path | str):
            written = file.with_suffix(".parquet")
            for taken in (one for one in (file, written) if one.exists()):
                raise UserError(f"{taken} already exists. Name another file with output=, or remove it.")
            write_atomically(written, to_parquet(data))
            undo.callback(written.unlink)
            data = written
        summary = write_pipeline(str(data), output=str(file), label=label, task=task, rows=sample).summary
        undo.pop_all()
    for line in summary[:-1]:  # the last one names a command
        print_text(line)
    return load(file)


def run(
    pipeline: PipelineFile,
    rows: Rows = None,
    *,
    root: Path | str | None = None,
    from_node: str | None = None,
    to_node: str | None = None,
    fresh: bool = False,
    span: str | None = None,
    gate: Literal["stop", "warn"] = "stop",
    parallel: int | None = None,
    wait: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Runs a pipeline from raw data to a pushed model and returns the outcome. Unchanged nodes are not repeated.

    Example:
        >>> outcome = fullpass.run("pipeline.yaml", quiet=True)
        >>> outcome.ok, outcome.blessed, outcome.rows
        (True, True, {'train': 321, 'eval': 79})

    The run is a separate `fullpass run` process, because nodes are forked and TensorFlow does not survive a fork. That
    process reads the file from disk. Interrupting this call interrupts the run.

    Args:
        pipeline: A pipeline from `load`, or the path of a YAML.
        rows: A table in memory, to be read instead of `data.source`. The folder `tables` of the root keeps it.
        root: Folder of artifacts, metadata and logs, instead of `root:` of the YAML.
        from_node, to_node: The first and the last node to run, to run only a part of the pipeline.
        fresh: Repeat every node, even if nothing has changed.
        span: The newest span to train on, as a date or number, or A:B.
        gate: `warn` trains even if the data gate would stop the run, and releases its stopped spans for later runs.
        parallel: Maximum number of nodes that run at the same time.
        wait: Wait for another run on the same root, instead of refusing.
        quiet: Print nothing.

    Raises:
        ConfigError: The file has mistakes.
        UserError: The run could not start: the span does not exist, or another run holds the root.
    """
    with ExitStack() as stack:
        loaded = _loaded(pipeline, span=span) if rows is None else _read(pipeline)
        at = pipeline_root(loaded, Path(root) if root else None)
        if rows is not None:
            claim_root(at, loaded.config.name)
            table = write_parquet(rows, RootLayout(at).tables)
            loaded = _loaded(stack.enter_context(with_table(loaded, table)).file)
        summary = Path(stack.enter_context(tempfile.TemporaryDirectory()), RUN_FILE)
        request = RunRequest(
            root=Path(root) if root else None,
            from_node=from_node,
            to_node=to_node,
            fresh=fresh,
            span=span,
            gate=gate,
            parallel=parallel,
            wait=wait,
            summary=summary,
            events=in_notebook() and not quiet,
        )
        shown = NotebookDisplay(loaded.config.name) if request.events else None
        say = shown.line if shown else partial(print_text, nl=False)
        outcome = None
        try:
            tail = _output(request.command(loaded.file.absolute()), None if quiet else say)
            if not summary.is_file():
                raise UserError(tail)
            facts = read_facts(summary, _DAMAGED_FACTS)
            outcome = Outcome.of(facts, RootLayout(at).run_logs(facts.run_id))
        finally:
            if shown:
                shown.end(outcome)
    return outcome


def runs(pipeline: PipelineFile, *, root: Path | str | None = None) -> list[Outcome]:
    """Returns the outcomes of a pipeline's runs, newest first, without those that `fullpass gc` removed.

    Example:
        >>> [outcome.blessed for outcome in fullpass.runs("pipeline.yaml")][-1]
        True

    Raises:
        DamagedState: The file of a run is damaged.
    """
    layout = RootLayout(pipeline_root(_read(pipeline), Path(root) if root else None))
    files = sorted(layout.logs.glob(f"*/{RUN_FILE}"), key=lambda file: file.parent.name, reverse=True)
    found = [(read_facts(file, _DAMAGED_FACTS), file.parent) for file in files]
    return [Outcome.of(facts, logs) for facts, logs in found if facts.outcome != UNFINISHED]


def metrics(pipeline: PipelineFile, run: str | None = None, *, root: Path | str | None = None) -> Mapping[str, float]:
    """Returns the metrics of one run, by default of the newest run that has metrics.

    Example:
        >>> metrics = fullpass.metrics("pipeline.yaml")
        >>> list(metrics), metrics["auc"] > 0.9
        (['auc', 'auc_pr', 'accuracy', 'log_loss'], True)

    Raises:
        UserError: There is no such run.
    """
    return _one_run(pipeline, run, root, "metrics").metrics


def find_report(pipeline: PipelineFile, run: str | None = None, *, root: Path | str | None = None) -> Path:
    """Returns the path of the report of one run.

    Args:
        run: Its id, or the beginning of the id: then the newest such run. None takes the newest run with a report.

    Raises:
        UserError: There is no such run, it has no report, or its files were removed.
    """
    found = _one_run(pipeline, run, root, "report")
    if found.report is None:
        raise UserError(f"run {found.run_id} has no report: it ended before the node Report. Its logs: {found.logs}.")
    if not found.report.is_file():
        raise UserError(f"{found.report}: the report of run {found.run_id} was removed since.")
    return found.report


def open_report(pipeline: PipelineFile, run: str | None = None, *, root: Path | str | None = None) -> Path:
    """Opens the report of one run in a browser, as `find_report` finds it, and returns the page's path.

    Example:
        >>> fullpass.open_report("pipeline.yaml").name
        'report.html'

    Raises:
        UserError: There is no such run, it has no report, or there is no browser.
    """
    page = find_report(pipeline, run, root=root)
    if not webbrowser.open(page.as_uri()):
        raise UserError(f"No browser was found. Open {page} yourself.")
    return page


def analyze(pipeline: PipelineFile, rows: Rows, folder: Path | str | None = None) -> Transform:
    """Analyzes rows in memory with the features of a pipeline, like a run analyzes its train split.

    Example:
        >>> rows = {"fare": [1.0, 3.0], "company": ["Acme", "Blue"], "tipped": [0, 1]}
        >>> transform = fullpass.analyze("pipeline.yaml", rows)
        >>> transform([{"fare": 1.0, "company": "Blue"}])["fare_xf"].to_pylist()
        [-1.0]

    Args:
        pipeline: A pipeline from `load`, or the path of a YAML.
        rows: The train split, with all columns that the YAML reads.
        folder: Folder to write the transform graph to; it must not exist yet. The default is a temporary folder.

    Raises:
        UserError: A column is absent, a value does not fit the type of its column, or a feature cannot be computed.
    """
    loaded = _loaded(pipeline, runs_here=False)
    set_environment()
    use_modules_of(loaded.folder)
    return Transform(loaded, rows, folder)


def tfx_pipeline(
    pipeline: PipelineFile, *, root: Path | str | None = None, span: str | None = None
) -> "tfx_types.Pipeline":
    """Returns the TFX pipeline of a YAML for a DAG runner of TFX.

    Such a runner runs the nodes one after the other in its own process, and keeps no record for `fullpass runs`.

    Example:
        >>> from tfx import v1 as tfx
        >>> pipeline = fullpass.tfx_pipeline("pipeline.yaml")
        >>> tfx.orchestration.LocalDagRunner().run(pipeline)  # doctest: +SKIP

    Args:
        root: Folder of artifacts and metadata, instead of `root:` of the YAML plus the pipeline's name.
        span: The newest span to train on, as a date or number, or A:B; by default the newest existing span.

    Raises:
        ConfigError: The YAML has mistakes.
        UserError: Source files or the span are missing, the root is another pipeline's, or a node of `nodes:` does not
            fit.
    """
    set_environment()
    loaded = _loaded(pipeline, span=span)
    folder = pipeline_root(loaded, None if root is None else Path(root))
    claim_root(folder, loaded.config.name)
    use_modules_of(loaded.folder)
    from fullpass.pipeline.running.build import build
    from fullpass.pipeline.running.run_window import run_window

    return build(loaded, root=folder, window=run_window(loaded, folder, span))


def open_model(model: PipelineFile, *, warm: bool = False) -> "Exported":
    """Loads an exported model by its own folder, by its push folder (newest version), or by the pipeline YAML.

    Example:
        >>> fullpass.open_model("serving").classes
        ['0', '1']

    Args:
        model: The folder, or the YAML.
        warm: Whether to predict a row first, so that the first answer comes as fast as later ones.

    Raises:
        UserError: There is no export, or Fullpass did not write it.
    """
    set_environment()
    from fullpass.components.predict.exported import load_export

    exported = load_export(_pushed(model))
    if warm:
        exported.warm_up()
    return exported


def predict(model: "Exported | PipelineFile", rows: Rows, *, explain: bool = False, **read_as: Any) -> Any:
    """Returns rows with `prediction`, `probability_<class>` per class, and `bad_row`, like `fullpass predict`.

    Example:
        >>> rows = [{"fare": 30.0, "company": "Acme"}, {"fare": 3.5}, {"fare": "much"}]
        >>> predicted = fullpass.predict("serving", rows)
        >>> predicted["prediction"].to_pylist()
        ['1', '0', None]
        >>> predicted["bad_row"].to_pylist()[2]
        "row 2: column 'fare': not a number"

    Args:
        model: A model from `open_model`, or any argument that `open_model` accepts.
        rows: A table in memory, or the path of a file, folder or glob. An absent column counts as missing, and is
            named on standard error. Rows of a list of dicts may differ in types, as JSON lines may.
        explain: Whether to add columns `effect_<column>`, which hold how much each column moved the score of a row.
        read_as: Keys of `data.source` that differ from those of the model's training data; only for files.

    Returns:
        A pandas or polars DataFrame if the rows are one, with the index and the column types of the rows; else an
        Arrow table.

    Raises:
        UserError: The rows cannot be read, or none of them can be used.
    """
    exported = open_model(model) if isinstance(model, Loaded | Path | str) else model
    from fullpass.components.predict.predict import predict_table, predict_tables

    in_files = isinstance(rows, Path | str)
    if in_files:
        predictions = predict_tables(exported, str(rows), read_as, explained=explain)
    else:
        predictions = predict_table(exported, as_arrow(rows, row_by_row=True), explained=explain)
    predicted = concatenated(predictions) if in_files else pa.concat_tables(predictions)
    for line in predictions.tally.notes():
        print_text(line, err=True)
    return predicted if in_files else like(rows, predicted, given=list(map(str, getattr(rows, "columns", ()))))


def compare(
    a: "Outcome | PipelineFile | int",
    b: "Outcome | PipelineFile | int",
    rows: Rows = None,
    *,
    file: Path | str = "pipeline.yaml",
    **read_as: Any,
) -> "Comparison":
    """Compares two models: YAMLs, features and data, and metrics and slices on the same rows, like `fullpass compare`.

    Example:
        >>> compared = fullpass.compare("pipeline.yaml", "serving", "trips.csv")
        >>> compared.rows
        'trips.csv'

    Args:
        a, b: An outcome, a pipeline or its YAML (its newest run), a run's id, a version, or a folder of a model.
        rows: Labelled rows in memory or the path of files; None takes the rows of the eval split.
        file: The YAML, or folder of models, whose runs and versions a bare id or number means.
        read_as: Keys of `data.source` that differ from those of the model's training data; only for files.

    Raises:
        UserError: There is no such model, or the rows cannot be read.
    """
    set_environment()
    from fullpass.pipeline.registry.compare import compare_models

    with ExitStack() as stack:
        data, how = (None, read_as) if rows is None else _labelled(stack, rows, read_as)
        found = compare_models(_model_name(a), _model_name(b), Path(file), data, how)
    return found if rows is None or isinstance(rows, Path | str) else replace(found, rows="the table")


def evaluate(
    model: "Outcome | PipelineFile | int", rows: Rows, *, file: Path | str = "pipeline.yaml", **read_as: Any
) -> "Evaluation":
    """Measures a model on labelled rows with the metrics, intervals and slices of the Evaluator.

    Example:
        >>> evaluation = fullpass.evaluate("pipeline.yaml", "trips.csv")
        >>> evaluation.rows, evaluation.metrics["auc"] > 0.9
        (400, True)

    Args:
        model, file, read_as: As `a`, `file` and `read_as` of `compare`.
        rows: A table in memory, or the path of a file, folder or glob.

    Raises:
        UserError: There is no such model, the rows cannot be read, or none of them has a usable label.
    """
    set_environment()
    from fullpass.pipeline.registry.evaluate import evaluate_model

    with ExitStack() as stack:
        data, how = _labelled(stack, rows, read_as)
        found = evaluate_model(_model_name(model), data, Path(file), how)
    return found if isinstance(rows, Path | str) else replace(found, data="the table")


def versions(target: PipelineFile) -> list[Version]:
    """Returns the pushed models, newest first, each with its state, metrics, spans and who blessed it.

    Example:
        >>> [version.state for version in fullpass.versions("serving")]
        ['served']

    Args:
        target: A pipeline, its YAML, or the folder that models are pushed to.
    """
    return read_versions(_pushed(target))


def rollback(target: PipelineFile, to: int | None = None) -> int:
    """Serves an earlier model again, or with `to` a later one; returns the version that is now served.

    Example:
        >>> (version,) = fullpass.versions("serving")
        >>> fullpass.rollback("serving", to=version.version) == version.version
        True

    Raises:
        UserError: There is no such version.
    """
    folder = _pushed(target)
    served = roll_back(folder, to)
    write_pages_of(folder)
    return served


def _loaded(pipeline: PipelineFile, *, runs_here: bool = True, span: str | None = None) -> Loaded:
    return pipeline if isinstance(pipeline, Loaded) else load_checked(Path(pipeline), runs_here=runs_here, span=span)


def _read(pipeline: PipelineFile) -> Loaded:
    """Returns a pipeline file without running the checks that need its data."""
    return pipeline if isinstance(pipeline, Loaded) else load_file(pipeline)


def _model_name(model: "Outcome | PipelineFile | int") -> str:
    if isinstance(model, Outcome):
        return str(model.logs)
    return str(model.file if isinstance(model, Loaded) else model)


def _labelled(stack: ExitStack, rows: Rows, read_as: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the path of labelled rows and how to read them; rows in memory become a temporary file."""
    if isinstance(rows, Path | str):
        return str(rows), read_as
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return str(write_parquet(rows, Path(folder))), {"format": "parquet"}


def _pushed(target: PipelineFile) -> Path:
    if isinstance(target, Loaded):
        return served_folder(target)
    return pushed_to(Path(target).absolute())


def _output(command: list[str], say: Callable[[str], None] | None) -> str:
    """Runs a command, says each line of its output as it arrives, and returns the last lines."""
    tail: deque[str] = deque(maxlen=_TAIL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as process:
        try:
            for line in process.stdout or ():
                tail.append(line)
                if say is not None:
                    say(line)
        except BaseException:
            process.terminate()  # interrupts its nodes; their finished work is kept
            raise
    return "".join(tail).strip()


def _one_run(pipeline: PipelineFile, run: str | None, root: Path | str | None, wanted: str) -> Outcome:
    known = runs(pipeline, root=root)
    found = [one for one in known if (getattr(one, wanted) if run is None else one.run_id.startswith(run))]
    if not found:
        what = f"no run {run}" if run else f"no run with {'a report' if wanted == 'report' else wanted}"
        listed = ", ".join(one.run_id for one in known[:_SHOWN_RUNS]) or "none; `fullpass.run` makes one"
        raise UserError(f"{_read(pipeline).config.name}: {what}. The newest runs: {listed}.")
    return found[0]
