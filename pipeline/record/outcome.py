"""The outcome of a run, from the summary that the run wrote: what `fullpass.run` and `fullpass.runs` return."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullpass.components.pages import notebook_html as html
from fullpass.components.push.pushed_version import pushed_version
from fullpass.pipeline.record import outcome_tables as tables
from fullpass.pipeline.record.facts import RunFacts

if TYPE_CHECKING:
    import pandas as pd


_PATHS = ("model", "pushed_to", "served", "report")


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
class Outcome:
    """The outcome of a run, as `fullpass run` prints it. A notebook shows it as a page of its own.

    Example:
        >>> outcome = fullpass.runs("pipeline.yaml")[-1]
        >>> outcome.blessed, outcome.pushed_to == outcome.served
        (True, True)

    Attributes:
        run_id: Name of the run and of its log folder.
        ok: Whether every node succeeded.
        blessed: Whether the model met its thresholds; None if no model was evaluated.
        metrics: Metric -> value on the eval split; `metrics.table` has their intervals.
        baseline: Metric -> value of the last blessed model.
        reasons: Why the model was not blessed.
        rows: Split -> number of rows.
        model: Folder of the trained model.
        pushed_to: Folder of the version that the model was pushed as, in this run or before, which a person may have
            done; None if the model was not pushed.
        served: Folder of the version that was served when the run ended. It differs from `pushed_to` if the run
            reproduced an older model.
        report: The HTML page of the run.
        logs: Folder of the run's logs.
        facts: All recorded facts of the run by name, the content of `run.json` in `logs` (pipeline/record/facts.py).

    The properties `slices`, `history`, `importance`, `confusion` and `curves` are pandas DataFrames of what the nodes
    recorded (pipeline/record/outcome_tables.py). They are empty if the run recorded nothing of the kind.
    """

    run_id: str
    ok: bool
    blessed: bool | None
    metrics: Metrics
    baseline: Mapping[str, float]
    reasons: tuple[str, ...]
    rows: Mapping[str, int]
    model: Path | None
    pushed_to: Path | None
    served: Path | None
    report: Path | None
    logs: Path
    facts: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, facts: RunFacts, logs: Path) -> "Outcome":
        """Returns the outcome of a run. logs: where its logs are now."""
        recorded = {name: getattr(facts, name) for name in cls.__dataclass_fields__ if name != "facts"}
        given: dict[str, Any] = {name: Path(recorded[name]) if recorded[name] else None for name in _PATHS}
        given |= {"logs": logs, "metrics": Metrics(facts.metrics, facts.evaluation), "reasons": tuple(facts.reasons)}
        return cls(**recorded | given | {"rows": facts.rows or {}, "facts": asdict(facts)})

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

    @property
    def confusion(self) -> "pd.DataFrame":
        """The confusion matrix of the eval split, actual classes in rows and predicted ones in columns, by weight."""
        return tables.confusion(self.facts.get("evaluation"))

    @property
    def curves(self) -> "pd.DataFrame":
        """One row per point of the curves: `curve`, `x`, `y`, and the interval `low`, `high` of y."""
        return tables.curves(self.facts.get("evaluation"))

    def _repr_html_(self) -> str:
        not_served = pushed_version(str(self.pushed_to)).not_served if self.pushed_to else ""
        title, style = self._verdict(not_served)
        rows = ", ".join(f"{split} {count:,}" for split, count in self.rows.items())
        report = html.link(self.report) if self.report else None
        named = [("rows", rows), ("model", self.pushed_to or self.model), ("report", report), ("logs", self.logs)]
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
