"""`fullpass schedule`: recurring runs of Kubeflow Pipelines, one per pipeline, identified by the pipeline's name.

The API cannot change a recurring run, so a changed one is replaced. A recurring run pins a version: a package that is
uploaded later is scheduled only after the schedule is applied again. Every run looks up its files when it begins. A
missed run is therefore not caught up: it would read the files of the next run. If the source has spans, a scheduled run
takes the newest span and fails if a model was trained on it before. Unlike a date from the container's clock, this is
correct for spans of every unit, for runs that start late, and for files that arrive late. From 2.17 on a run may take
the span of its scheduled time.
"""

from dataclasses import dataclass
from typing import Any, Literal

from fullpass.base.errors import UserError
from fullpass.kubeflow.deploy.api_requests import Cluster, PipelineVersion, version_name
from fullpass.kubeflow.deploy.submit import RunSettings
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.printing import aligned


@dataclass(frozen=True)
class DesiredSchedule:
    """A schedule to create: name of the pipeline, a cron line of six fields, and the YAML of the package."""

    name: str
    cron: str
    package: str
    settings: RunSettings


@dataclass(frozen=True)
class SchedulePlan:
    """The changes of applying a schedule.

    Attributes:
        reasons: The differences, "old -> new".
        paused: Whether it is paused, and stays paused.
    """

    change: Literal["create", "keep", "replace"]
    reasons: tuple[str, ...] = ()
    kept: str | None = None
    obsolete: tuple[str, ...] = ()
    paused: bool = False

    def lines(self, desired: DesiredSchedule) -> list[str]:
        """Returns the plan as readable lines."""
        words = {"create": "will be created", "keep": "is up to date", "replace": "will be replaced"}
        lines = [f"{desired.name}: {words[self.change]} ({desired.cron}){', paused' if self.paused else ''}"]
        lines += [f"  {reason}" for reason in self.reasons]
        surplus = len(self.obsolete) - (self.change == "replace")
        return lines + ([f"  {surplus} more recurring runs of this name will be deleted"] if surplus else [])


def plan(cluster: Cluster, desired: DesiredSchedule) -> SchedulePlan:
    """Returns the plan of `apply` without changing anything."""
    found = cluster.recurring_runs(desired.name)
    if not found:
        return SchedulePlan("create")
    version = cluster.find_version(desired.name, desired.package)
    differences = {run.recurring_run_id: _differences(run, desired, version) for run in found}
    equal = [run for run in found if not differences[run.recurring_run_id]]
    paused = all(_is_paused(run) for run in found)
    if equal:
        kept = equal[0].recurring_run_id
        obsolete = tuple(run.recurring_run_id for run in found if run.recurring_run_id != kept)
        return SchedulePlan("keep", kept=kept, obsolete=obsolete, paused=_is_paused(equal[0]))
    reasons = tuple(differences[found[0].recurring_run_id])
    return SchedulePlan("replace", reasons, None, tuple(run.recurring_run_id for run in found), paused)


def apply(cluster: Cluster, desired: DesiredSchedule, planned: SchedulePlan) -> str:
    """Executes a plan and returns the id of the recurring run.

    The new recurring run is created before the old one is deleted, so an error while creating it changes nothing.
    """
    recurring_run_id = planned.kept or cluster.schedule(_body(cluster, desired, paused=planned.paused)).recurring_run_id
    for obsolete in planned.obsolete:
        cluster.delete(obsolete)
    return recurring_run_id


def change(cluster: Cluster, name: str, verb: Literal["pause", "resume", "delete"]) -> None:
    """Pauses, resumes or deletes the schedule of a pipeline.

    Raises:
        UserError: The pipeline has no schedule.
    """
    found = cluster.recurring_runs(name)
    if not found:
        others = sorted({run.display_name for run in cluster.recurring_runs()})
        raise UserError(
            f"{name} has no schedule at {cluster.host}. Existing schedules: {', '.join(others) or 'none'}. "
            "Create it with `fullpass schedule apply`."
        )
    for run in found:
        if verb == "delete":
            cluster.delete(run.recurring_run_id)
        else:
            cluster.enable(run.recurring_run_id, verb == "resume")


def table(runs: list[Any]) -> str:
    """Returns a table of recurring runs: name, cron, state, creation time, id."""
    rows = [("name", "cron", "state", "created (UTC)", "id")]
    for run in runs:
        created = f"{run.created_at:%Y-%m-%d %H:%M}" if run.created_at else ""
        state = "paused" if _is_paused(run) else "enabled"
        rows.append((run.display_name, _cron(run) or "periodic", state, created, run.recurring_run_id))
    return "\n".join(map(str.rstrip, aligned(rows)))


def _body(cluster: Cluster, desired: DesiredSchedule, *, paused: bool) -> Json:
    version = cluster.upload(desired.name, desired.package)
    return desired.settings.body(cluster, version, desired.name) | {
        "trigger": {"cron_schedule": {"cron": desired.cron}},
        "max_concurrency": "1",  # Two concurrent runs would push in the order in which they end.
        "no_catchup": True,
        "mode": "DISABLE" if paused else "ENABLE",
        **({"namespace": cluster.namespace} if cluster.namespace else {}),
    }


def _differences(run: Any, desired: DesiredSchedule, version: PipelineVersion | None) -> list[str]:
    reference = run.pipeline_version_reference
    runtime = run.runtime_config
    same_version = version is not None and reference and reference.pipeline_version_id == version.version_id
    parameters = dict((runtime.parameters if runtime else None) or {})
    account = desired.settings.service_account
    pairs = [
        ("cron", _cron(run), desired.cron),
        ("package", "another version", "another version" if same_version else version_name(desired.package)),
        ("parameters", parameters, dict(desired.settings.parameters or {})),
        # The server sets its own account if none is requested.
        ("service account", run.service_account if account else None, account),
        ("runs at a time", str(run.max_concurrency or ""), "1"),
        ("catches up on missed runs", not run.no_catchup, False),
    ]
    return [f"{name}: {old} -> {new}" for name, old, new in pairs if old != new]


def _cron(run: Any) -> str | None:
    return run.trigger.cron_schedule.cron if run.trigger and run.trigger.cron_schedule else None


def _is_paused(run: Any) -> bool:
    return run.status == "DISABLED" or (run.status != "ENABLED" and run.mode == "DISABLE")
