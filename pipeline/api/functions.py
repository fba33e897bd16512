"""The functions of `import fullpass`: how a pipeline or a model is opened. Everything else is a method of theirs."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.pipeline.api.frames import Rows, to_parquet
from fullpass.pipeline.api.pipeline import Pipeline
from fullpass.pipeline.authoring.checks.check import load_checked, require
from fullpass.pipeline.authoring.defaults import SAMPLE_ROWS, SEARCH_SECONDS
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.load import load as load_file
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.root.layout import pipeline_root
from fullpass.pipeline.startup import set_environment
from fullpass.preprocessing.features.label import Task

if TYPE_CHECKING:
    from tfx.orchestration import pipeline as tfx_types

    from fullpass.pipeline.running.tfx_components import TfxComponents


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
    return Pipeline.of(load_checked(Path(file), runs_here=runs_here))


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
    sample: int = SAMPLE_ROWS,
    overwrite: bool = False,
    search_seconds: float = SEARCH_SECONDS,
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
        output: The file to write. If it exists with the same content, as after a rerun of a cell, it stays.
        sample: Number of rows to look at.
        overwrite: Whether to replace files with another content: a YAML that was changed by hand, or another table.
        search_seconds: About how many processor seconds representations are tried for; 0 tries none.

    Raises:
        UserError: The data cannot be read or learned from, no column is clearly the label, or a file with another
            content exists.
    """
    from fullpass.pipeline.authoring.init.init import init as write_pipeline

    file = Path(output)
    with ExitStack() as undo:
        if not isinstance(data, Path | str):
            written, content = file.with_suffix(".parquet"), to_parquet(data)
            before = written.read_bytes() if written.exists() else None
            if before not in (None, content) and not overwrite:
                raise UserError(
                    f"{written} exists, and holds another table. Name another file with output=, or replace it with "
                    "overwrite=True."
                )
            if before != content:  # a file that is written again is new data for a run
                write_atomically(written, content)
                undo.callback(*((written.unlink,) if before is None else (write_atomically, written, before)))
            data = written
        summary = write_pipeline(
            str(data),
            output=str(file),
            label=label,
            task=task,
            rows=sample,
            existing="replace" if overwrite else "keep",
            search_seconds=search_seconds,
            say=print_text,
        ).summary
        undo.pop_all()
    for line in summary[:-1]:  # the last one names a command
        print_text(line)
    return load(file)


def tfx_components(
    pipeline: Loaded | Path | str, *, root: Path | str | None = None, span: str | None = None, ingest: bool = True
) -> "TfxComponents":
    """Returns what makes the components of a YAML one by one, for a pipeline of TFX that is written by hand.

    The environment of the process, such as which Keras `tf.keras` is, stays as it is.

    Example:
        >>> own = fullpass.tfx_components("pipeline.yaml")
        >>> ingest = own.Ingest()
        >>> ingest.outputs["examples"].type_name
        'Examples'

    Args:
        root: Folder of caches and unfinished work, instead of `root:` of the YAML plus the pipeline's name.
        span: The newest span, as for `tfx_pipeline`.
        ingest: Whether Ingest reads the data. If another ExampleGen does, `data.source` need not exist here.

    Raises:
        ConfigError: The YAML has mistakes.
        UserError: Source files or the span are missing, or the root is another pipeline's.
    """
    loaded = pipeline if isinstance(pipeline, Loaded) else load_checked(Path(pipeline), span=span, runs_here=ingest)
    folder = pipeline_root(loaded, None if root is None else Path(root))
    claim_root(folder, loaded.config.name)
    use_modules_of(loaded.folder)
    from fullpass.pipeline.running.build import paths_here
    from fullpass.pipeline.running.run_window import run_window
    from fullpass.pipeline.running.tfx_components import TfxComponents

    window = run_window(loaded, folder, span) if ingest else Window(span_unit(loaded.config.data), ())
    return TfxComponents(loaded, paths_here(loaded, folder, window))


def tfx_pipeline(
    pipeline: Loaded | Path | str, *, root: Path | str | None = None, span: str | None = None
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
    loaded = pipeline if isinstance(pipeline, Loaded) else load_checked(Path(pipeline), span=span)
    folder = pipeline_root(loaded, None if root is None else Path(root))
    claim_root(folder, loaded.config.name)
    use_modules_of(loaded.folder)
    from fullpass.pipeline.running.build import build
    from fullpass.pipeline.running.run_window import run_window

    return build(loaded, root=folder, window=run_window(loaded, folder, span))
