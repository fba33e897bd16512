"""A pipeline that can be run and asked for its runs and models: `fullpass.load` and `fullpass.init` return it."""

import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.push.push import rollback
from fullpass.pipeline.api.changed_yaml import named_settings, table_source, with_changes
from fullpass.pipeline.api.frames import Rows, write_parquet
from fullpass.pipeline.api.model import Model, open_model
from fullpass.pipeline.api.run import Run, Runs
from fullpass.pipeline.api.transform import Transform
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.defaults import SAMPLE_ROWS
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.record.facts import UNFINISHED, read_facts
from fullpass.pipeline.record.list_runs import read_runs
from fullpass.pipeline.registry.list_versions import Versions, read_versions
from fullpass.pipeline.registry.retention.collect import Freed
from fullpass.pipeline.registry.retention.free import free
from fullpass.pipeline.registry.root_page import write_pages_of
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.root.layout import RUN_FILE, RootLayout, pipeline_root, served_folder
from fullpass.pipeline.running.execution.display import NotebookDisplay, in_notebook
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.startup import set_notebook_environment

if TYPE_CHECKING:
    from fullpass.pipeline.authoring.data_page.data_page import DataPage
    from fullpass.pipeline.diagnose.diagnosis import Diagnosis

_TAIL = 40
"""Number of last lines of output that the error of a run that could not start shows."""
_ALL_RUNS = 2**31
_DAMAGED_FACTS = "Remove it: the run is then not listed."


class Pipeline(Loaded):
    """A pipeline file without errors. It can be run, and knows its runs and models.

    Example:
        >>> pipeline = fullpass.load("pipeline.yaml")
        >>> pipeline.file.name, pipeline.config.name
        ('pipeline.yaml', 'trips')
        >>> pipeline.runs()[-1].blessed, pipeline.model.classes
        (True, ['0', '1'])

    Attributes:
        config: The typed configuration, with all defaults.
        file, folder: The path of the YAML as it was given, and its absolute folder.
    """

    @classmethod
    def of(cls, loaded: Loaded) -> "Pipeline":
        """Returns a loaded file as a pipeline."""
        return cls(**vars(loaded))

    def run(
        self,
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
        **changes: Any,
    ) -> Run:
        """Runs the pipeline from raw data to a pushed model and returns the run. Unchanged nodes are not repeated.

        The run is a separate `fullpass run` process, because nodes are forked and TensorFlow does not survive a fork.
        That process reads the file from disk. Interrupting this call interrupts the run.

        Args:
            rows: A table in memory, to be read instead of `data.source`. The folder `tables` of the root keeps it.
            root: Folder of artifacts, metadata and logs, instead of `root:` of the YAML.
            from_node, to_node: The first and the last node to run, to run only a part of the pipeline.
            fresh: Repeat every node, even if nothing has changed.
            span: The newest span to train on, as a date or number, or A:B.
            gate: `warn` trains even if the data gate would stop the run, and releases its stopped spans for later runs.
            parallel: Maximum number of nodes that run at the same time.
            wait: Wait for another run on the same root, instead of refusing.
            quiet: Print nothing.
            changes: Settings of the YAML for this run alone, by their last key, such as `epochs=3`, or by their whole
                path, such as `training__epochs=3`. The YAML that the lineage records contains them.

        Raises:
            ConfigError: The file has mistakes, or does not accept a change.
            UserError: The run could not start: the span does not exist, or another run holds the root.
        """
        with ExitStack() as stack:
            at = pipeline_root(self, Path(root) if root else None)
            changed = named_settings(self, changes)
            if rows is not None:
                claim_root(at, self.config.name)
                changed |= table_source(self, write_parquet(rows, RootLayout(at).tables))
            loaded = stack.enter_context(with_changes(self, changed))
            if changed:
                require(replace(loaded, span=span))  # the run prints the warnings
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
            run = None
            try:
                tail = _output(request.command(loaded.file.absolute()), None if quiet else say)
                if not summary.is_file():
                    raise UserError(tail)
                facts = read_facts(summary, _DAMAGED_FACTS)
                run = Run.of(self, facts, RootLayout(at).run_logs(facts.run_id))
            finally:
                if shown:
                    shown.end(run)
        return run

    def data_page(
        self, against: Rows | Path | str = None, *, span: str | None = None, sample: int = SAMPLE_ROWS
    ) -> "DataPage":
        """Returns the page of the data before training, like `fullpass check --data --page`; a notebook shows it.

        Args:
            against: Other data to compare with: a table in memory, a path, a request log, or a span of the source; None
                compares the splits.
            span: The span or spans to look at; by default those of the next run.
            sample: Number of rows to look at.

        Raises:
            UserError: The data cannot be read at all, or there is no such other data.
        """
        from fullpass.pipeline.authoring.data_check.data_check import check_data
        from fullpass.pipeline.authoring.data_page.data_page import page_of_report

        report = check_data(replace(self, span=span), rows=sample, every_column=True)
        if against is None or isinstance(against, Path | str):
            return page_of_report(report, None if against is None else str(against), rows=sample)
        with tempfile.TemporaryDirectory() as folder:
            return page_of_report(report, str(write_parquet(against, Path(folder))), rows=sample, name="the table")

    def runs(self, *, root: Path | str | None = None) -> Runs:
        """Returns the runs that have ended, newest first, without those that `gc` removed.

        Raises:
            DamagedState: The file of a run is damaged.
        """
        at = pipeline_root(self, Path(root) if root else None)
        layout = RootLayout(at)
        listed = [
            one
            for one in read_runs(at, _ALL_RUNS)
            if one.facts.outcome != UNFINISHED and layout.run_file(one.facts.run_id).is_file()
        ]
        found = [Run.of(self, one.facts, layout.run_logs(one.facts.run_id)) for one in listed]
        return Runs(found, listed, self.config.name)

    @property
    def model(self) -> Model:
        """The served model, loaded.

        Raises:
            UserError: No model has been pushed.
        """
        return open_model(self)

    def versions(self) -> Versions:
        """Returns the pushed models, newest first, each with its state, metrics, spans and who blessed it."""
        return read_versions(served_folder(self))

    def rollback(self, to: int | None = None) -> int:
        """Serves an earlier model again, or with `to` a later one; returns the version that is now served.

        Raises:
            UserError: There is no such version.
        """
        folder = served_folder(self)
        served = rollback(folder, to)
        write_pages_of(folder)
        return served

    def analyze(self, rows: Rows, folder: Path | str | None = None) -> Transform:
        """Analyzes rows in memory with the features of the pipeline, like a run analyzes its train split.

        Args:
            rows: The train split, with all columns that the YAML reads.
            folder: Folder to write the transform graph to; it must not exist yet. The default is a temporary folder.

        Raises:
            UserError: A column is absent, a value does not fit the type of its column, or a feature cannot be computed.
        """
        require(self, runs_here=False)
        set_notebook_environment()
        use_modules_of(self.folder)
        return Transform(self, rows, folder)

    def diagnose(self, *, root: Path | str | None = None, seconds: float = 60.0) -> "Diagnosis":
        """Measures what slows the training of the newest run down and what to set, like `fullpass diagnose`.

        Args:
            seconds: Time for all measurements.

        Raises:
            UserError: No run has written the examples that the YAML reads.
        """
        set_notebook_environment()
        from fullpass.pipeline.diagnose.diagnose import diagnose

        return diagnose(self, root=Path(root) if root else None, seconds=seconds)

    def gc(self, keep_runs: int = 10, *, root: Path | str | None = None, dry_run: bool = False) -> Freed:
        """Removes what neither the newest runs, nor the pushed models, nor the next run need, like `fullpass gc`.

        Args:
            keep_runs: Number of newest runs to keep.
            dry_run: Whether to change nothing.

        Returns:
            Bytes and numbers of what was removed, by kind.

        Raises:
            UserError: There are no runs, or a run holds the root.
        """
        return free(self, pipeline_root(self, Path(root) if root else None), keep_runs, dry_run=dry_run)


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
