"""The Python API of `import fullpass`, for notebooks and tests (docs/api.md).

Each function imports heavy modules in its body, like the commands of the command line, which call the same code.
"""

import subprocess
import tempfile
import webbrowser
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.push.push import rollback as roll_back
from fullpass.pipeline.authoring.checks.check import load_checked, require
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.load import load as load_file
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.list_versions import Version, read_versions
from fullpass.pipeline.registry.locate_model import pushed_to
from fullpass.pipeline.root.layout import SUMMARY, RootLayout, pipeline_root
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.startup import set_environment
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, vocabulary_name
from fullpass.preprocessing.columns.raw_columns import raw_columns

if TYPE_CHECKING:
    from fullpass.components.predict.predict import Exported

Pipeline = Loaded
"""A loaded pipeline file without errors; its attributes include `config`, `file` and `folder`."""
PipelineFile = Loaded | Path | str
Rows = Any
"""A pyarrow Table or RecordBatch, a pandas or polars DataFrame, a list of dicts, or a dict of columns."""
_TAIL = 40
_DAMAGED_SUMMARY = "Remove it: the run is then not listed."


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run, as `fullpass run` prints it.

    Attributes:
        run_id: Name of the run and of its log folder.
        ok: Whether every node succeeded.
        blessed: Whether the model met its thresholds; None if no model was evaluated.
        metrics: Metric -> value on the eval split.
        baseline: Metric -> value of the last blessed model.
        reasons: Why the model was not blessed.
        rows: Split -> number of rows.
        model: Folder of the trained model.
        pushed_to: Folder of the version that the model was pushed as, in this run or an earlier one; None if the model
            was not pushed.
        served: Folder of the version that was served when the run ended. It differs from `pushed_to` if the run
            reproduced an older model.
        report: The HTML page of the run.
        logs: Folder of the run's logs.
        facts: All recorded facts of the run, the content of `summary.json` in `logs`.
    """

    run_id: str
    ok: bool
    blessed: bool | None
    metrics: Mapping[str, float]
    baseline: Mapping[str, float]
    reasons: tuple[str, ...]
    rows: Mapping[str, int]
    model: Path | None
    pushed_to: Path | None
    served: Path | None
    report: Path | None
    logs: Path
    facts: Mapping[str, Any] = field(repr=False)


def load(file: Path | str, *, runs_here: bool = True) -> Pipeline:
    """Returns a pipeline file after reading and checking it; its warnings are printed to standard error.

    Example:
        >>> pipeline = load("pipeline.yaml")  # doctest: +SKIP
        >>> pipeline.config.label.name  # doctest: +SKIP
        'tips'

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
        >>> [(p.line, p.path, p.message) for p in check("pipeline.yaml")]  # doctest: +SKIP
        []
    """

    try:
        return tuple(require(load_file(file), runs_here=runs_here))
    except ConfigError as error:
        return error.problems


def run(
    pipeline: PipelineFile,
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

    The run is a separate `fullpass run` process, because nodes are forked and TensorFlow does not survive a fork. That
    process reads the file from disk. Interrupting this call interrupts the run.

    Example:
        >>> outcome = run("pipeline.yaml")  # doctest: +SKIP
        >>> outcome.blessed, outcome.metrics["auc"]  # doctest: +SKIP
        (True, 0.944)

    Args:
        pipeline: A pipeline from `load`, or the path of a YAML.
        root: Folder of artifacts, metadata and logs, instead of `root:` of the YAML.
        from_node, to_node: The first and the last node to run, to run only a part of the pipeline.
        fresh: Repeat every node, even if nothing has changed.
        span: The newest span to train on, as a date or number, or A:B.
        gate: `warn` trains even if the data gate would stop the run.
        parallel: Maximum number of nodes that run at the same time.
        wait: Wait for another run on the same root, instead of refusing.
        quiet: Print nothing.

    Raises:
        ConfigError: The file has mistakes.
        UserError: The run could not start: the span does not exist, or another run holds the root.
    """
    loaded = _loaded(pipeline)
    with tempfile.TemporaryDirectory() as scratch:
        summary = Path(scratch, SUMMARY)
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
        )
        tail = _printed(request.command(loaded.file.absolute()), quiet=quiet)
        if not summary.is_file():
            raise UserError(tail)
        facts = state_file.read(summary, _DAMAGED_SUMMARY)
    return _outcome(facts, RootLayout(pipeline_root(loaded, request.root)))


def runs(pipeline: PipelineFile, *, root: Path | str | None = None) -> list[Outcome]:
    """Returns the outcomes of a pipeline's runs, newest first, without those that `fullpass gc` removed.

    Example:
        >>> runs("pipeline.yaml")[0].metrics  # doctest: +SKIP
        {'auc': 0.944, 'accuracy': 0.9}

    Raises:
        DamagedState: The summary of a run is damaged.
    """
    layout = RootLayout(pipeline_root(_read(pipeline), Path(root) if root else None))
    files = sorted(layout.logs.glob(f"*/{SUMMARY}"), key=lambda file: file.parent.name, reverse=True)
    return [_outcome(state_file.read(file, _DAMAGED_SUMMARY), layout) for file in files]


def metrics(pipeline: PipelineFile, run: str | None = None, *, root: Path | str | None = None) -> Mapping[str, float]:
    """Returns the metrics of one run, by default of the newest run that has metrics.

    Example:
        >>> metrics("pipeline.yaml")["auc"]  # doctest: +SKIP
        0.944

    Raises:
        UserError: There is no such run.
    """
    return _one_run(pipeline, run, root, "metrics").metrics


def open_report(pipeline: PipelineFile, run: str | None = None, *, root: Path | str | None = None) -> Path:
    """Opens the report of one run, by default the newest with a report, in a browser and returns the page's path.

    Raises:
        UserError: There is no such run.
    """
    page = _one_run(pipeline, run, root, "report").report
    if page is None:
        raise UserError(f"run {run} has no report: it ended before the node Report.")
    webbrowser.open(page.as_uri())
    return page


class Transform:
    """The transform of a pipeline's features, with the statistics of an analyzed table; `analyze` returns it.

    Example:
        >>> transform = analyze("pipeline.yaml", train)  # doctest: +SKIP
        >>> transform(test)["fare_xf"]  # doctest: +SKIP
        >>> transform.numpy(test)["fare_xf"].dtype  # doctest: +SKIP
        dtype('float32')

    Attributes:
        folder: Folder of the transform graph, in the layout of TensorFlow Transform's `TFTransformOutput`.
    """

    def __init__(self, pipeline: Pipeline, rows: Rows, folder: Path | str | None = None):
        """Analyzes rows; see `analyze`."""
        from fullpass.pipeline.running.build import with_absolute_files
        from fullpass.preprocessing.analysis.analyze import analyze_table
        from fullpass.preprocessing.values.raw_batches import raw_batches

        self._config = with_absolute_files(pipeline.config.preprocessing_config, pipeline.resolve)
        self._text = pipeline.config.data.source.raw_text
        self._scratch = None if folder else tempfile.TemporaryDirectory(prefix="fullpass-transform-")
        self.folder = Path(folder) if folder else Path(self._scratch.name, "graph")  # type: ignore[union-attr]
        batches = list(raw_batches(self._config, as_arrow(rows), self._text))
        self._graph = analyze_table(self._config, batches, str(self.folder))
        self._transformers: dict[bool, Any] = {}

    def __call__(self, rows: Rows) -> pa.Table:
        """Returns the transformed features of rows, and the label if the rows have it.

        A feature with one value per row is a column of values. A vector is a column of fixed-size lists. A feature of
        variable length is a column of lists.

        Raises:
            UserError: A column is absent, a value does not fit the type of its column, or there are no rows.
        """
        from fullpass.preprocessing.values.raw_batches import raw_batches

        table = as_arrow(rows)
        transformer = self._transformer(labelled=raw_columns(self._config).keys() <= set(table.column_names))
        widths = {f.name: [d.size for d in f.shape.dim] for f in transformer.schema.feature if f.HasField("shape")}
        batches = [transformer(batch) for batch in raw_batches(self._config, table, self._text, serving=True)]
        if not batches:
            raise UserError("The table has no rows.")
        transformed = pa.Table.from_batches(batches)
        names = transformed.column_names
        return pa.table({name: _plain(transformed[name].combine_chunks(), widths.get(name)) for name in names})

    def numpy(self, rows: Rows) -> dict[str, np.ndarray]:
        """Returns the transformed features as arrays: [rows], [rows, width], or [rows] of arrays of variable length."""
        arrays, table = {}, self(rows)
        for name in table.column_names:
            column = table[name].combine_chunks()
            if pa.types.is_fixed_size_list(column.type):
                arrays[name] = column.flatten().to_numpy().reshape(len(column), -1)
            else:
                arrays[name] = column.to_numpy(zero_copy_only=False)
        return arrays

    def vocabulary(self, feature: str) -> list[str]:
        """Returns the learned vocabulary of a feature or a cross, in id order.

        Raises:
            UserError: The feature learns no vocabulary.
        """

        name = vocabulary_name(self._config.vocabulary_owner(feature))
        if not Path(self._graph.vocabulary_file_by_name(name) or "").is_file():
            raise UserError(f"feature {feature!r} learns no vocabulary from the data.")
        return [token.decode("utf-8", "backslashreplace") for token in self._graph.vocabulary_by_name(name)]

    def _transformer(self, *, labelled: bool) -> Any:
        from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
        from fullpass.preprocessing.apply.transform_batches import BatchTransformer
        from fullpass.preprocessing.columns.raw_schema import raw_schema

        if labelled not in self._transformers:
            without = [EXAMPLE_WEIGHT, ROW_ID, *([] if labelled else [LABEL])]
            adapter = adapter_of(raw_schema(self._config))
            self._transformers[labelled] = BatchTransformer(self._graph, adapter, without=without)
        return self._transformers[labelled]


def analyze(pipeline: PipelineFile, rows: Rows, folder: Path | str | None = None) -> Transform:
    """Analyzes rows in memory with the features of a pipeline, like a run analyzes its train split.

    Example:
        >>> transform = analyze("pipeline.yaml", pa.table({"fare": [5.0, 7.0], "tips": [1.0, 0.0]}))  # doctest: +SKIP
        >>> transform({"fare": [6.0]}).to_pydict()  # doctest: +SKIP
        {'fare_xf': [0.0]}

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


def open_model(model: PipelineFile) -> "Exported":
    """Loads an exported model by its own folder, by its push folder (newest version), or by the pipeline YAML.

    Example:
        >>> open_model("serving").classes  # doctest: +SKIP
        ('False', 'True')

    Raises:
        UserError: There is no export, or Fullpass did not write it.
    """
    set_environment()
    from fullpass.components.predict.predict import load_export

    return load_export(_pushed(model))


def predict(model: "Exported | PipelineFile", rows: Rows, *, explain: bool = False, **read_as: Any) -> pa.Table:
    """Returns rows with `prediction`, `probability_<class>` per class, and `bad_row`, like `fullpass predict`.

    Example:
        >>> predict("serving", "rows.csv", separator=";")["prediction"]  # doctest: +SKIP
        >>> predict(open_model("serving"), dataframe).to_pandas()  # doctest: +SKIP

    Args:
        model: A model from `open_model`, or any argument that `open_model` accepts.
        rows: A table in memory, or the path of a file, folder or glob. An absent column counts as missing.
        explain: Whether to add columns `effect_<column>`, which hold how much each column moved the score of a row.
        read_as: Keys of `data.source` that differ from those of the model's training data; only for files.

    Raises:
        UserError: The rows cannot be read, or none of them can be used.
    """
    exported = open_model(model) if isinstance(model, Loaded | Path | str) else model
    from fullpass.components.predict.predict import predict_table, predict_tables

    if isinstance(rows, Path | str):
        return pa.concat_tables(predict_tables(exported, str(rows), read_as, explained=explain), promote=True)
    return pa.concat_tables(predict_table(exported, as_arrow(rows), explained=explain))


def versions(target: PipelineFile) -> list[Version]:
    """Returns the pushed models, newest first, each with its state, metrics, spans and who blessed it.

    Example:
        >>> [(v.version, v.state) for v in versions("pipeline.yaml")]  # doctest: +SKIP
        [(1795376318, 'served')]

    Args:
        target: A pipeline, its YAML, or the folder that models are pushed to.
    """
    return read_versions(_pushed(target))


def rollback(target: PipelineFile, to: int | None = None) -> int:
    """Serves an earlier model again, or with `to` a later one; returns the version that is now served.

    Raises:
        UserError: There is no such version.
    """

    return roll_back(_pushed(target), to)


def as_arrow(rows: Rows) -> pa.Table:
    """Returns rows in memory as an Arrow table.

    Raises:
        UserError: The rows have none of the types of `Rows`, or a column holds values of several types.
    """
    from fullpass.components.ingest.readers.frames import as_table

    try:
        table = as_table(rows)
        if table is None and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            table = pa.table(
                {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for r in rows for n in r)}
            )
        elif table is None and isinstance(rows, dict):
            table = pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"The rows are no table: {error}. Give each column values of one type.") from error
    if table is None:
        raise UserError(
            f"Received: {type(rows).__module__}.{type(rows).__name__}. Accepted: a pyarrow Table or RecordBatch, a "
            "pandas or polars DataFrame, a list of dicts, or a dict of columns."
        )
    return table


def _loaded(pipeline: PipelineFile, *, runs_here: bool = True) -> Loaded:
    return pipeline if isinstance(pipeline, Loaded) else load_checked(Path(pipeline), runs_here=runs_here)


def _read(pipeline: PipelineFile) -> Loaded:
    """Returns a pipeline file without running the checks that need its data."""

    return pipeline if isinstance(pipeline, Loaded) else load_file(pipeline)


def _pushed(target: PipelineFile) -> Path:
    if isinstance(target, Loaded):
        return Path(target.resolve(target.config.push.to))
    return pushed_to(Path(target).absolute())


def _printed(command: list[str], *, quiet: bool) -> str:
    """Runs a command, prints its output as it arrives, and returns the last lines."""
    tail: deque[str] = deque(maxlen=_TAIL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8") as process:
        try:
            for line in process.stdout or ():
                tail.append(line)
                if not quiet:
                    print_text(line, nl=False)
        except BaseException:
            process.terminate()  # interrupts its nodes; their finished work is kept
            raise
    return "".join(tail).strip()


def _outcome(facts: Mapping[str, Any], layout: RootLayout) -> Outcome:
    def path(name: str) -> Path | None:
        return Path(facts[name]) if facts.get(name) else None

    return Outcome(
        run_id=facts["run_id"],
        ok=facts["ok"],
        blessed=facts["blessed"],
        metrics=facts["metrics"],
        baseline=facts["baseline"],
        reasons=tuple(facts["reasons"]),
        rows=facts["rows"] or {},
        model=path("model"),
        pushed_to=path("pushed_to"),
        served=path("served"),
        report=path("report"),
        logs=layout.run_logs(facts["run_id"]),
        facts=facts,
    )


def _one_run(pipeline: PipelineFile, run: str | None, root: Path | str | None, wanted: str) -> Outcome:
    known = runs(pipeline, root=root)
    found = [one for one in known if (getattr(one, wanted) if run is None else one.run_id == run)]
    if not found:
        what = f"no run {run}" if run else f"no run with {'a report' if wanted == 'report' else wanted}"
        listed = ", ".join(one.run_id for one in known[:5]) or "none; `fullpass.run` makes one"
        raise UserError(f"{_read(pipeline).config.name}: {what}. The newest runs: {listed}.")
    return found[0]


def _plain(column: pa.Array, shape: list[int] | None) -> pa.Array:
    """Returns a column of lists as a column of values or fixed-size lists, if the feature has a fixed shape."""
    if shape is None:
        return column
    return pa.FixedSizeListArray.from_arrays(column.flatten(), shape[0]) if shape else column.flatten()
