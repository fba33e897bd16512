"""A run that has ended, from the record that it wrote: what `Pipeline.run` and `Pipeline.runs` return."""

import os
import webbrowser
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from fullpass.base.errors import UserError
from fullpass.components.pages import notebook_html as html
from fullpass.components.pages.vega import Chart
from fullpass.components.push.pushed_version import pushed_version
from fullpass.pipeline.api import run_tables as tables
from fullpass.pipeline.api.frames import Rows
from fullpass.pipeline.api.model import Model, compare, evaluate, open_model
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.list_runs import ListedRun, run_cells
from fullpass.pipeline.registry.compared_model import find_model
from fullpass.pipeline.startup import large_imports, noise_to, set_notebook_environment

if TYPE_CHECKING:
    import pandas as pd

    from fullpass.components.predict.explanation import Explanation
    from fullpass.pipeline.registry.compare import Comparison
    from fullpass.pipeline.registry.compare_several import Comparisons
    from fullpass.pipeline.registry.evaluate import Evaluation

_PATHS = ("model", "pushed_to", "served", "report")
_SHOWN_RUNS = 5
"""Number of newest runs that an error proposes."""


class Metrics(dict[str, float]):
    """Metric -> value on the eval split, and the table with intervals that a notebook shows.

    Attributes:
        table: One row per metric: `value`, `low` and `high` (the 95 % interval; NaN where unknown), and `last_blessed`,
            the value of the last blessed model if one was compared.
    """

    def __init__(self, values: Mapping[str, float], evaluation: str | None = None) -> None:
        """Takes the values, and the folder of the evaluation with their errors."""
        super().__init__(values)
        self._evaluation = evaluation

    @property
    def table(self) -> "pd.DataFrame":
        return tables.metrics(self._evaluation, self)

    def _repr_html_(self) -> str:
        return str(html.frame(self.table))


@dataclass(frozen=True)
class Run:
    """A run that has ended. It can be asked for its model, and a notebook shows it as a page of its own.

    Example:
        >>> run = fullpass.load("pipeline.yaml").runs()[-1]
        >>> run.blessed, run.pushed_to == run.served
        (True, True)
        >>> run.predict([{"fare": 30.0, "company": "Acme"}])["prediction"].to_pylist()
        ['1']

    Attributes:
        run_id: Name of the run and of its log folder.
        ok: Whether every node succeeded.
        blessed: Whether the model met its thresholds; None if no model was evaluated.
        metrics: Metric -> value on the eval split; `metrics.table` has their intervals.
        baseline: Metric -> value of the last blessed model.
        reasons: Why the model was not blessed.
        rows: Split -> number of rows.
        model_folder: Folder of the trained model.
        pushed_to: Folder of the version that the model was pushed as, in this run or before, which a person may have
            done; None if the model was not pushed.
        served: Folder of the version that was served when the run ended. It differs from `pushed_to` if the run
            reproduced an older model.
        report: The HTML page of the run.
        logs: Folder of the run's logs.
        facts: All recorded facts of the run by name, the content of `run.json` in `logs` (pipeline/record/facts.py).
        pipeline: The pipeline that ran, or by which the run was found.

    The properties `slices`, `history`, `importance`, `confusion` and `curves` are pandas DataFrames of what the nodes
    recorded (pipeline/api/run_tables.py). They are empty if the run recorded nothing of the kind.
    """

    run_id: str
    ok: bool
    blessed: bool | None
    metrics: Metrics
    baseline: Mapping[str, float]
    reasons: tuple[str, ...]
    rows: Mapping[str, int]
    model_folder: Path | None
    pushed_to: Path | None
    served: Path | None
    report: Path | None
    logs: Path
    facts: Mapping[str, Any] = field(repr=False)
    pipeline: Loaded = field(repr=False)

    @classmethod
    def of(cls, pipeline: Loaded, facts: RunFacts, logs: Path) -> "Run":
        """Returns a run from its facts. logs: where its logs are now."""
        paths = {name: Path(found) if (found := getattr(facts, name)) else None for name in _PATHS}
        return cls(
            run_id=facts.run_id,
            ok=facts.ok,
            blessed=facts.blessed,
            metrics=Metrics(facts.metrics, facts.evaluation),
            baseline=facts.baseline,
            reasons=tuple(facts.reasons),
            rows=facts.rows or {},
            model_folder=paths.pop("model"),
            **paths,
            logs=logs,
            facts=asdict(facts),
            pipeline=pipeline,
        )

    @property
    def known_as(self) -> Path:
        """The path by which `find_model` finds its model."""
        return self.logs

    @cached_property
    def model(self) -> Model:
        """The model that the run trained, loaded.

        Raises:
            UserError: The run trained none, or its files were removed.
        """
        found = find_model(str(self.logs), self.pipeline.file)
        if found.export is None:
            raise UserError(f"run {self.run_id}: {found.note}.")
        return open_model(found.export)

    def predict(self, rows: Rows, **read_as: Any) -> Any:
        """Predicts rows with the model of the run; see `Model.predict`."""
        return self.model.predict(rows, **read_as)

    def explain(self, rows: Rows, **read_as: Any) -> "Explanation":
        """Predicts rows and explains the predictions; see `Model.explain`."""
        return self.model.explain(rows, **read_as)

    def evaluate(self, rows: Rows, **read_as: Any) -> "Evaluation":
        """Measures the model of the run on labelled rows; see `Model.evaluate`."""
        return evaluate(str(self.logs), rows, read_as)

    def compare(self, *others: Any, rows: Rows = None, **read_as: Any) -> "Comparison | Comparisons":
        """Compares the model of the run with others; see `Model.compare`."""
        return compare(str(self.logs), others, rows, read_as)

    @property
    def lineage(self) -> Mapping[str, Any]:
        """The lineage of the model; see `Model.lineage`."""
        return self.model.lineage

    def bless(self, *, why: str) -> str:
        """Blesses and pushes the model that the Evaluator refused, like `fullpass bless --force`.

        Args:
            why: The reason to overrule the thresholds; it is recorded with your name.

        Returns:
            A sentence with the person and the pushed version.

        Raises:
            UserError: The run trained no model, the model was not refused or is worse than the served one, or another
                run holds the root.
        """
        if self.model_folder is None:
            raise UserError(f"run {self.run_id} trained no model.")
        set_notebook_environment()
        with noise_to(Path(os.devnull)), large_imports():
            from fullpass.pipeline.watching.bless_refused import bless_refused
        return bless_refused(self.pipeline, self.logs.parent.parent, model=self.model_folder.name, force=True, why=why)

    def open_report(self) -> Path:
        """Opens the report of the run in a browser, and returns the path of the page.

        Raises:
            UserError: The run has no report, the report was removed, or there is no browser.
        """
        page = self.find_report()
        if not webbrowser.open(page.as_uri()):
            raise UserError(f"No browser was found. Open {page} yourself.")
        return page

    def find_report(self) -> Path:
        """Returns the path of the report of the run, as `open_report` does, without opening it."""
        if self.report is None:
            raise UserError(f"run {self.run_id} has no report: it ended before the node Report. Its logs: {self.logs}.")
        if not self.report.is_file():
            raise UserError(f"{self.report}: the report of run {self.run_id} was removed since.")
        return self.report

    @property
    def slices(self) -> "pd.DataFrame":
        """One row per slice and metric of the evaluation, with the columns of `metrics.table`."""
        return tables.slices(self.facts.get("evaluation"))

    @property
    def history(self) -> "pd.DataFrame":
        """One row per epoch, from 1, and one column per recorded value, such as `loss` and `val_loss`."""
        return tables.history(self.facts.get("model_run"))

    @property
    def importance(self) -> "pd.DataFrame":
        """One row per feature, with its permutation importance."""
        return tables.importance(self.facts.get("model_run"))

    def leaderboard(self) -> "pd.DataFrame":
        """Returns one row per model that the run tried, alone and blended, and per trial of its search, by name.

        The columns are kept, blend_weight, metric (by which it was chosen), validation (its value on the rows that
        chose), `eval_` and each metric, train_seconds and predict_ms, the milliseconds of 1,000 rows.
        """
        return tables.leaderboard(self.facts)

    @property
    def confusion(self) -> "pd.DataFrame":
        """The confusion matrix of the eval split, actual classes in rows and predicted ones in columns, by weight."""
        return tables.confusion(self.facts.get("evaluation"))

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts of training and evaluation in the report, by their labels; a notebook draws each by itself."""
        return tables.charts(self.facts.get("evaluation"), self.facts.get("model_run"))

    @property
    def curves(self) -> "pd.DataFrame":
        """One row per point of the curves: `curve`, `x`, `y`, and the interval `low`, `high` of y."""
        return tables.curves(self.facts.get("evaluation"))

    def _repr_html_(self) -> str:
        not_served = pushed_version(str(self.pushed_to)).not_served if self.pushed_to else ""
        title, style = self._verdict(not_served)
        rows = ", ".join(f"{split} {count:,}" for split, count in self.rows.items())
        report = html.link(self.report) if self.report else None
        named = [
            ("rows", rows),
            ("model", self.pushed_to or self.model_folder),
            ("report", report),
            ("logs", self.logs),
        ]
        measured = html.frame(self.metrics.table) if self.metrics else ""
        lines = (*self.reasons, not_served, *self.facts.get("notes", ()))
        said = html.table((), [(line,) for line in lines if line])
        return html.block(f"{title} (run {self.run_id})", said, measured, html.facts(named), style=style)

    def _verdict(self, not_served: str) -> tuple[str, str]:
        if not self.ok:
            return "The run did not finish", html.BAD
        if self.blessed is None:
            return "Done", ""
        if not self.blessed:
            return f"Not blessed, {'pushed by a person' if self.pushed_to else 'not pushed'}", html.BAD
        if not_served:
            return "Blessed, but not served now", ""
        return f"Blessed{' and pushed' if self.pushed_to else ''}", html.GOOD


class Runs(list[Run]):
    """Runs, newest first, by position or by the beginning of an id. A notebook shows them as a table.

    Example:
        >>> runs = fullpass.load("pipeline.yaml").runs()
        >>> runs[runs[0].run_id] == runs[0], len(runs.table) == len(runs)
        (True, True)

    Attributes:
        table: One row per run: what `fullpass runs --json` has of it.
    """

    def __init__(self, found: Iterable[Run], listed: Iterable[ListedRun] = (), where: str = "") -> None:
        """Takes the runs and what is listed of each. where: the name of their pipeline."""
        super().__init__(found)
        self._listed, self._where = list(listed), where

    @overload
    def __getitem__(self, which: SupportsIndex | str) -> Run: ...
    @overload
    def __getitem__(self, which: slice) -> "Runs": ...
    def __getitem__(self, which: SupportsIndex | slice | str) -> "Run | Runs":
        if isinstance(which, slice):
            return Runs(super().__getitem__(which), self._listed[which], self._where)
        if not isinstance(which, str):
            return super().__getitem__(which)
        return next((run for run in self if run.run_id.startswith(which)), None) or self._refuse(f"no run {which}")

    def with_report(self) -> Run:
        """Returns the newest run that has a report.

        Raises:
            UserError: There is none.
        """
        return next((run for run in self if run.report), None) or self._refuse("no run with a report")

    def _refuse(self, what: str) -> Any:
        listed = ", ".join(run.run_id for run in self[:_SHOWN_RUNS]) or "none; `pipeline.run()` makes one"
        raise UserError(f"{self._where}: {what}. The newest runs: {listed}.")

    @property
    def table(self) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame([one.listing for one in self._listed])

    def _repr_html_(self) -> str:
        return html.block("Runs" if self else "No run has been made", html.table(*run_cells(self._listed, most=None)))
