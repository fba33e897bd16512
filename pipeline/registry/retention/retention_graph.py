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

from fullpass.pipeline.registry.retention.metadata_graph import LIVE, Records, Removal, Run

EXAMPLES, MODEL, REPORT = "Examples", "Model", "Report"
# The last blessed model, and the one before, which was its baseline.
_BLESSED_KEPT = 2
_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Policy:
    """The runs to keep.

    Attributes:
        runs: number of newest runs to keep.
        days: runs younger than this many days are kept too.
    """

    runs: int
    days: float


@dataclass(frozen=True)
class Kept:
    """The ids to keep.

    Attributes:
        files: artifacts kept with their files.
        records: artifacts whose record is kept.
    """

    runs: frozenset[int]
    executions: frozenset[int]
    records: frozenset[int]
    files: frozenset[int]
    models: frozenset[int]


def kept_runs(records: Records, policy: Policy, now: float) -> list[Run]:
    """Returns the runs that a policy keeps, oldest first."""
    newest = records.runs[-policy.runs :] if policy.runs else ()
    return [run for run in records.runs if run in newest or run.created > now - policy.days * _DAY]


def kept_models(records: Records, pushed: Collection[str]) -> set[int]:
    """Returns the pushed models, served or not, and the last blessed ones.

    Args:
        records: The records of the root.
        pushed: The addresses of pushed models.
    """
    models = {artifact.id for artifact in records.artifacts.values() if artifact.type == MODEL}
    blessings = sorted(
        (a for a in records.artifacts.values() if a.type == "ModelBlessing" and a.properties.get("blessed") == 1),
        key=lambda artifact: artifact.id,
    )
    blessed = list(dict.fromkeys(int(b.properties.get("current_model_id", 0)) for b in reversed(blessings)))
    return {m for m in models if records.artifacts[m].uri in pushed} | (set(blessed[:_BLESSED_KEPT]) & models)


def find_kept(records: Records, runs: Iterable[Run], models: Collection[int], spans: Collection[int]) -> Kept:
    """Returns the records and files to keep.

    Args:
        records: The records of the root.
        runs: The runs to keep.
        models: The models to keep regardless of their run.
        spans: The numbers of the spans of the window.
    """
    runs = list(runs)
    makers = records.makers()
    executions = {identity for run in runs for identity in run.executions if identity in records.executions}
    files = {artifact for identity in executions for artifact in _inputs_and_outputs(records, identity)}
    files |= _window_examples(records, spans)
    models = {*models, *(identity for identity in files if records.artifacts[identity].type == MODEL)}
    evaluations = _evaluations_and_reports(records, models)
    # All ancestors, evaluations and reports of a kept model are kept; for examples and other models, only the records.
    about = evaluations | _ancestry(records, makers, models)
    files |= models
    files |= {
        a for e in about for a in _inputs_and_outputs(records, e) if records.artifacts[a].type not in (EXAMPLES, MODEL)
    }
    executions |= about | _ancestry(records, makers, files)
    ancestors = {artifact for identity in executions for artifact in _inputs_and_outputs(records, identity)}
    return Kept(
        runs=frozenset(run.id for run in runs),
        executions=frozenset(executions),
        records=frozenset(files | ancestors),
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


def _ancestry(records: Records, makers: dict[int, int], artifacts: Iterable[int]) -> set[int]:
    """Returns the executions that produced artifacts and their ancestors."""
    found: set[int] = set()
    waiting = [makers[artifact] for artifact in artifacts if artifact in makers]
    while waiting:
        execution = waiting.pop()
        if execution in found:
            continue
        found.add(execution)
        waiting += [makers[artifact] for artifact in _ancestor_inputs(records, execution) if artifact in makers]
    return found


def _ancestor_inputs(records: Records, execution: int) -> set[int]:
    """Returns the inputs of an execution that count as ancestors of its outputs.

    The previous model and the previous vocabularies do not count, since their chain would reach back to the first run.
    """
    followed = (_output_types(records, execution) | {MODEL}) - {EXAMPLES}
    inputs = (a for of in records.executions[execution].inputs.values() for a in of if a in records.artifacts)
    return {artifact for artifact in inputs if records.artifacts[artifact].type not in followed}


def _evaluations_and_reports(records: Records, models: Collection[int]) -> set[int]:
    """Returns the executions that evaluated models, and those that reported on them."""
    found = {
        execution.id
        for execution in records.executions.values()
        if not execution.inputs.get("model", frozenset()).isdisjoint(models)
        and MODEL not in _output_types(records, execution.id)
    }
    outputs = {artifact for identity in found for artifact in _outputs(records, identity)}
    reports = (e for e in records.executions.values() if e.node == REPORT)
    return found | {e.id for e in reports if any(not outputs.isdisjoint(of) for of in e.inputs.values())}


def _output_types(records: Records, execution: int) -> set[str]:
    return {records.artifacts[artifact].type for artifact in _outputs(records, execution)}


def _outputs(records: Records, execution: int) -> set[int]:
    return {a for of in records.executions[execution].outputs.values() for a in of if a in records.artifacts}


def _inputs_and_outputs(records: Records, execution: int) -> set[int]:
    """Returns all inputs and outputs of an execution."""
    found = records.executions[execution]
    return {a for of in (*found.inputs.values(), *found.outputs.values()) for a in of if a in records.artifacts}


def _window_examples(records: Records, spans: Collection[int]) -> set[int]:
    """Returns the raw examples of the window: the last ingested ones of each span."""
    raw = (a for a in records.artifacts.values() if a.type == EXAMPLES and a.properties.get("fingerprint"))
    live = sorted((a for a in raw if a.state == LIVE), key=lambda artifact: artifact.id)
    newest = {artifact.properties.get("span"): artifact.id for artifact in live}
    return {identity for span, identity in newest.items() if span in spans}
