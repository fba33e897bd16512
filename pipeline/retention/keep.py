"""Which records and which files of a root are needed, by lineage. Nothing here reads or writes anything.

Needed with their files are

- all that the kept runs took and made,
- the examples of the window, which the next run takes over,
- of each kept model: itself, what was found out about it (evaluation, blessing, reports), and what it was made of but
  the examples, that is its transform graph and what stands behind that.

Of all else that a needed artifact comes from, the record stays, so that its lineage can be told, and the files go. A
model that another one follows, as baseline or for its weights, is no part of that one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pipeline.retention.records import LIVE, Records, Removal, Run

EXAMPLES, MODEL, REPORT = "Examples", "Model", "Report"
# What the kept blessed models are: the last, and the one before, with which the last was compared.
_BLESSED_KEPT = 2
_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Policy:
    """runs: the newest that are kept. days: runs younger than that are kept too."""

    runs: int
    days: float


@dataclass(frozen=True)
class Kept:
    """What is needed, by id. files: artifacts with their files. records: artifacts. models: among them."""

    runs: frozenset[int]
    executions: frozenset[int]
    records: frozenset[int]
    files: frozenset[int]
    models: frozenset[int]


def kept_runs(records: Records, policy: Policy, now: float) -> list[Run]:
    """Returns the newest runs and the young ones, the oldest first."""
    newest = records.runs[-policy.runs :] if policy.runs else ()
    return [run for run in records.runs if run in newest or run.created > now - policy.days * _DAY]


def kept_models(records: Records, pushed: Collection[str]) -> set[int]:
    """Returns the models that are pushed, served or not, and those that were blessed last.

    Args:
        records: of the root.
        pushed: addresses of models.
    """
    models = {artifact.id for artifact in records.artifacts.values() if artifact.type == MODEL}
    blessings = sorted(
        (a for a in records.artifacts.values() if a.type == "ModelBlessing" and a.properties.get("blessed") == 1),
        key=lambda artifact: artifact.id,
    )
    blessed = list(dict.fromkeys(int(b.properties.get("current_model_id", 0)) for b in reversed(blessings)))
    return {m for m in models if records.artifacts[m].uri in pushed} | (set(blessed[:_BLESSED_KEPT]) & models)


def find_kept(records: Records, runs: Iterable[Run], models: Collection[int], spans: Collection[int]) -> Kept:
    """Returns what is needed.

    Args:
        records: of the root.
        runs: that are kept.
        models: that are kept whatever their run.
        spans: numbers of those of the window.
    """
    runs = list(runs)
    makers = records.makers()
    executions = {identity for run in runs for identity in run.executions if identity in records.executions}
    files = {artifact for identity in executions for artifact in _around(records, identity)}
    files |= _window(records, spans)
    models = {*models, *(identity for identity in files if records.artifacts[identity].type == MODEL)}
    judging = _judging(records, models)
    # Of all that made or judged a kept model the files stay, but for examples and other models; of those the records.
    about = judging | _ancestry(records, makers, models)
    files |= models
    files |= {a for e in about for a in _around(records, e) if records.artifacts[a].type not in (EXAMPLES, MODEL)}
    executions |= about | _ancestry(records, makers, files)
    ancestors = {artifact for identity in executions for artifact in _around(records, identity)}
    return Kept(
        runs=frozenset(run.id for run in runs),
        executions=frozenset(executions),
        records=frozenset(files | ancestors),
        files=frozenset(files),
        models=frozenset(models),
    )


def removal_of(records: Records, kept: Kept) -> Removal:
    """Returns what is to be taken out of the metadata for no more than what is needed to remain."""
    live = {artifact.id for artifact in records.artifacts.values() if artifact.state == LIVE}
    used = {run.id for run in records.runs if run.executions & kept.executions}
    return Removal(
        artifacts=frozenset(records.artifacts.keys() - kept.records),
        executions=frozenset(records.executions.keys() - kept.executions),
        runs=frozenset(run.id for run in records.runs) - kept.runs - used,
        gone=frozenset(live & kept.records - kept.files),
    )


def _ancestry(records: Records, makers: dict[int, int], artifacts: Iterable[int]) -> set[int]:
    """Returns the executions that artifacts come from, at whatever distance."""
    found: set[int] = set()
    waiting = [makers[artifact] for artifact in artifacts if artifact in makers]
    while waiting:
        execution = waiting.pop()
        if execution in found:
            continue
        found.add(execution)
        waiting += [makers[artifact] for artifact in _made_of(records, execution) if artifact in makers]
    return found


def _made_of(records: Records, execution: int) -> set[int]:
    """Returns the inputs that are part of what an execution made, not what it only followed.

    A model follows another one, and a vocabulary the one before, each that of the run before: the chain has no end.
    """
    followed = (_output_types(records, execution) | {MODEL}) - {EXAMPLES}
    inputs = (a for of in records.executions[execution].inputs.values() for a in of if a in records.artifacts)
    return {artifact for artifact in inputs if records.artifacts[artifact].type not in followed}


def _judging(records: Records, models: Collection[int]) -> set[int]:
    """Returns the executions that found something out about models, and those that report of them."""
    found = {
        execution.id
        for execution in records.executions.values()
        if not execution.inputs.get("model", frozenset()).isdisjoint(models)
        and MODEL not in _output_types(records, execution.id)
    }
    said = {artifact for identity in found for artifact in _outputs(records, identity)}
    reports = (e for e in records.executions.values() if e.node == REPORT)
    return found | {e.id for e in reports if any(not said.isdisjoint(of) for of in e.inputs.values())}


def _output_types(records: Records, execution: int) -> set[str]:
    return {records.artifacts[artifact].type for artifact in _outputs(records, execution)}


def _outputs(records: Records, execution: int) -> set[int]:
    return {a for of in records.executions[execution].outputs.values() for a in of if a in records.artifacts}


def _around(records: Records, execution: int) -> set[int]:
    """Returns all artifacts that an execution took and made."""
    one = records.executions[execution]
    return {a for of in (*one.inputs.values(), *one.outputs.values()) for a in of if a in records.artifacts}


def _window(records: Records, spans: Collection[int]) -> set[int]:
    """Returns the raw examples of the window: of each span what was ingested last."""
    raw = (a for a in records.artifacts.values() if a.type == EXAMPLES and a.properties.get("fingerprint"))
    live = sorted((a for a in raw if a.state == LIVE), key=lambda artifact: artifact.id)
    newest = {artifact.properties.get("span"): artifact.id for artifact in live}
    return {identity for span, identity in newest.items() if span in spans}
