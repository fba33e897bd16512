"""Decides by lineage which records and files of a root are needed; reads and writes no files.

These artifacts are kept with their files:

- all inputs and outputs of the kept runs,
- the examples of the window, which the next run reuses,
- for each kept model: the model, its evaluation, blessing and reports, its transform graph and the inputs of that
  graph, except the examples.

For all other ancestors of a kept artifact, the record stays for the lineage, and the files are removed. A model that
was the baseline or the warm start of another model does not count as its ancestor.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fullpass.pipeline.registry.retention.records import LIVE, Execution, Records, Removal, Run

EXAMPLES, MODEL, REPORT = "Examples", "Model", "Report"
_BLESSED_KEPT = 2
"""The last blessed model, and the one before, which was its baseline."""
DAY = 24 * 3600.0


@dataclass(frozen=True)
class Policy:
    """The runs to keep: this number of newest runs, and those younger than this many days."""

    runs: int
    days: float


@dataclass(frozen=True)
class Kept:
    """The ids to keep.

    Attributes:
        files: Those of them that are kept with their files.
    """

    runs: frozenset[int]
    executions: frozenset[int]
    records: frozenset[int]
    files: frozenset[int]
    models: frozenset[int]


def find_kept(records: Records, policy: Policy, pushed: Collection[str], spans: Collection[int], now: float) -> Kept:
    """Returns the records and files to keep.

    Args:
        pushed: The addresses of pushed models, which are kept regardless of their run.
        now: Seconds since 1970.
    """
    makers = records.makers()
    runs = kept_runs(records, policy, now)
    executions = {one for run in runs for one in run.executions if one in records.executions}
    files = _artifacts_of(records, executions) | _window_examples(records, spans)
    models = _kept_models(records, pushed) | {one for one in files if records.artifacts[one].type == MODEL}
    # All ancestors, evaluations and reports of a kept model are kept; for examples and other models, only the records.
    about = _evaluations_and_reports(records, models) | _ancestry(records, makers, models)
    files |= models
    files |= {one for one in _artifacts_of(records, about) if records.artifacts[one].type not in (EXAMPLES, MODEL)}
    executions |= about | _ancestry(records, makers, files)
    return Kept(
        runs=frozenset(run.id for run in runs),
        executions=frozenset(executions),
        records=frozenset(files | _artifacts_of(records, executions)),
        files=frozenset(files),
        models=frozenset(models),
    )


def removal_of(records: Records, kept: Kept) -> Removal:
    """Returns all records except the kept ones, and the kept records whose files are removed."""
    live = {artifact.id for artifact in records.artifacts.values() if artifact.state == LIVE}
    used = {run.id for run in records.runs if run.executions & kept.executions}
    return Removal(
        artifacts=frozenset(records.artifacts.keys() - kept.records),
        executions=frozenset(records.executions.keys() - kept.executions),
        runs=frozenset(run.id for run in records.runs) - kept.runs - used,
        gone=frozenset(live & kept.records - kept.files),
    )


def kept_runs(records: Records, policy: Policy, now: float) -> list[Run]:
    """Returns the runs that a policy keeps, oldest first."""
    newest = records.runs[-policy.runs :] if policy.runs else ()
    return [run for run in records.runs if run in newest or run.created > now - policy.days * DAY]


def _kept_models(records: Records, pushed: Collection[str]) -> set[int]:
    """Returns the pushed models, served or not, and the last blessed ones."""
    models = {artifact.id for artifact in records.artifacts.values() if artifact.type == MODEL}
    blessings = sorted(
        (a for a in records.artifacts.values() if a.type == "ModelBlessing" and a.properties.get("blessed") == 1),
        key=lambda artifact: -artifact.id,
    )
    blessed = list(dict.fromkeys(int(blessing.properties.get("current_model_id", 0)) for blessing in blessings))
    return {m for m in models if records.artifacts[m].uri in pushed} | (set(blessed[:_BLESSED_KEPT]) & models)


def _window_examples(records: Records, spans: Collection[int]) -> set[int]:
    """Returns the raw examples of the window: the last ingested ones of each span."""
    raw = (a for a in records.artifacts.values() if a.type == EXAMPLES and a.properties.get("fingerprint"))
    live = sorted((a for a in raw if a.state == LIVE), key=lambda artifact: artifact.id)
    newest = {artifact.properties.get("span"): artifact.id for artifact in live}
    return {artifact for span, artifact in newest.items() if span in spans}


def _evaluations_and_reports(records: Records, models: Collection[int]) -> set[int]:
    """Returns the executions that evaluated models, and those that reported on them."""
    found = [e for e in records.executions.values() if e.models & set(models) and MODEL not in _types_made(records, e)]
    outputs = {made for execution in found for made in execution.outputs}
    reports = [e for e in records.executions.values() if e.node == REPORT and e.inputs & outputs]
    return {execution.id for execution in (*found, *reports)}


def _ancestry(records: Records, makers: dict[int, int], artifacts: Iterable[int]) -> set[int]:
    """Returns the executions that produced artifacts and their ancestors.

    The previous model and the previous vocabularies are no ancestors, since their chain would reach back to the first
    run: an execution's models, and inputs of the type of its own outputs, are not followed.
    """
    found: set[int] = set()
    waiting = [makers[artifact] for artifact in artifacts if artifact in makers]
    while waiting:
        execution = records.executions[waiting.pop()]
        if execution.id not in found:
            found.add(execution.id)
            skipped = (_types_made(records, execution) | {MODEL}) - {EXAMPLES}
            waiting += [makers[a] for a in execution.inputs if a in makers and records.artifacts[a].type not in skipped]
    return found


def _types_made(records: Records, execution: Execution) -> set[str]:
    return {records.artifacts[artifact].type for artifact in execution.outputs}


def _artifacts_of(records: Records, executions: Iterable[int]) -> set[int]:
    """Returns all inputs and outputs of executions."""
    found = (records.executions[execution] for execution in executions)
    return {artifact for execution in found for artifact in execution.inputs | execution.outputs}
