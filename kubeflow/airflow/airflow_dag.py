"""`fullpass compile --for airflow`: a DAG file for Airflow 3 whose tasks run one node each, on one root.

A root belongs to one run at a time, so tasks run one after the other. Each task reuses the results of the previous
tasks, like `fullpass run --from`.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from tfx.orchestration.pipeline import Pipeline

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.span_pattern import Unit
from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.components.internals.tfx_internals import base_node
from fullpass.kubeflow.airflow.config import EXAMPLES, NAMES, AirflowConfig, TaskConfig
from fullpass.kubeflow.config import seconds
from fullpass.kubeflow.environment import unknown_nodes
from fullpass.pipeline.authoring.loading.load import FileForm, Loaded, load_as
from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.running.build import RunPaths, build_nodes
from fullpass.pipeline.schedule_config import ScheduleConfig, length

_FORMATS = {
    "year": ("years", "YYYY"),
    "month": ("months", "YYYY-MM"),
    "day": ("days", "YYYY-MM-DD"),
    "hour": ("hours", "YYYY-MM-DD[T]HH"),
}
"""Unit of a span -> its name and the format of its label, both in pendulum's syntax."""
_NO_RETRY = "DataGate"
"""The node whose failure is a finding; a retry would find the same."""
_TEMPLATE = Path(__file__).with_name("dag.py.jinja")


SETTINGS = FileForm(
    model=AirflowConfig,
    schema=cache(AirflowConfig.model_json_schema),
    examples=EXAMPLES,
    needed=(),
    names=NAMES,
    advice="Everyone in Airflow can read a DAG file. Set the variable in the environment of the workers.",
)


@dataclass(frozen=True)
class AirflowDag:
    """The content of a DAG file, and the ids of its tasks, in the order of the file."""

    text: str
    order: tuple[str, ...]


def airflow_dag(loaded: Loaded, settings: Path | None = None) -> AirflowDag:
    """Returns the DAG file of a config.

    Args:
        settings: The settings file; None means all defaults.

    Raises:
        ConfigError: The settings file has problems.
        UserError: The YAML requests something that a DAG file does not support.
    """
    use_modules_of(loaded.folder)
    nodes = pipeline_nodes(loaded)
    config = _settings(settings, [node.id for node in nodes])
    unit, schedule = span_unit(loaded.config.data), loaded.config.schedule or ScheduleConfig()
    _check(schedule, unit, config)
    tasks = dict(_tasks(loaded, config, nodes, unit, schedule))
    return AirflowDag(_dag_text(loaded, config, unit, schedule, tasks), tuple(tasks))


def pipeline_nodes(loaded: Loaded) -> Sequence[base_node.BaseNode]:
    """Returns the nodes in the order of the graph, without reading any data."""
    paths = RunPaths(
        resolve=loaded.resolve, window=Window(span_unit(loaded.config.data), ()), known=(), analyzer_cache="",
        span_statistics="", compress=True, push_to=loaded.resolve(loaded.config.push.to),
    )  # fmt: skip
    return Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, paths)
    ).components


def _settings(file: Path | None, nodes: Sequence[str]) -> AirflowConfig:
    if file is None:
        return AirflowConfig()
    config, tree = load_as(file, SETTINGS)
    problems = unknown_nodes(tree, config.nodes, nodes)
    if problems:
        raise ConfigError(file, problems)
    return config


def _check(schedule: ScheduleConfig, unit: Unit | None, config: AirflowConfig) -> None:
    """Raises UserError for settings that a DAG file does not support."""
    waits = schedule.wait_for is not None or length(schedule.timeout)
    unsupported = [key for key, given in (("new_span", schedule.new_span), ("drift", schedule.drift)) if given]
    unsupported += ["wait_for and timeout"] if waits else []
    if unsupported:
        raise UserError(
            f"schedule.{unsupported[0]}: a DAG file starts runs at set times and does not wait for data. Remove it, "
            "or run `fullpass schedule run FILE --once`, which waits, in a task of your own."
        )
    if schedule.cron and unit == "number":
        raise UserError(
            "schedule.cron: numbered spans have no scheduled time. Remove it and start the DAG with the parameter "
            "span, or run `fullpass schedule run FILE --once` in a task of your own."
        )
    if schedule.cron and len(schedule.cron.split()) == 6:
        raise UserError(f"schedule.cron: a DAG file accepts five fields, without seconds. Received: {schedule.cron}.")
    if schedule.cron and schedule.catch_up == "each" and config.start is None:
        raise UserError(
            "schedule.catch_up: `each` runs every scheduled time since a start date. Give `start: 2026-01-01` in the "
            "settings file (--env)."
        )


def _tasks(
    loaded: Loaded,
    config: AirflowConfig,
    nodes: Sequence[base_node.BaseNode],
    unit: Unit | None,
    schedule: ScheduleConfig,
) -> Iterator[tuple[str, dict[str, Any]]]:
    first, late = nodes[0].id, [int(ExitCode.NO_SPAN)] if schedule.on_late == "skip" else []
    for node in nodes:
        is_first = node.id == first
        settings = config.node(node.id)
        # The first task starts a run; the other tasks continue it.
        before = sorted(other.id for other in node.upstream_nodes) or ([] if is_first else [first])
        command = _command(loaded, config, node.id, is_first=is_first, spans=unit is not None)
        _check_braces(command, *settings.env.values())
        task = {"command": command, "after": before, "skip": late if is_first else [int(ExitCode.NOT_BLESSED)]}
        more = {
            "seconds": seconds(settings.timeout) if settings.timeout else None,
            "env": settings.env,
            "options": _options(settings, retried=node.id != _NO_RETRY),
        }
        yield node.id, task | {key: value for key, value in more.items() if value}


def _check_braces(*texts: str) -> None:
    for text in texts:
        if any(sign in text for sign in ("{{", "{%", "{#")):
            raise UserError(f"{text}: Airflow would replace the braces as a template. Use other names.")


def _command(loaded: Loaded, config: AirflowConfig, node: str, *, is_first: bool, spans: bool) -> str:
    part = ["--to", node] if is_first else ["--from", node, "--to", node]
    root = ["--root", config.root] if config.root else []
    words = [config.program, "run", config.file or str(loaded.file.absolute()), *part, *root, "--wait"]
    return shlex.join(words) + (' --span "$SPAN"' if spans else "")


def _options(settings: TaskConfig, *, retried: bool) -> dict[str, Any]:
    """Returns the arguments of the operator, with times in seconds."""
    options: dict[str, Any] = {} if retried else {"retries": 0}
    tries = settings.retries
    if tries and retried:
        options = {
            "retries": tries.count,
            "retry_delay": float(seconds(tries.backoff)),
            "retry_exponential_backoff": float(tries.factor),
            "max_retry_delay": float(seconds(tries.longest)),
        }
    given = {"pool": settings.pool, "queue": settings.queue}
    return options | {key: value for key, value in given.items() if value is not None}


def _dag_text(
    loaded: Loaded, config: AirflowConfig, unit: Unit | None, schedule: ScheduleConfig, tasks: dict[str, Any]
) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["python"] = repr
    plural, form = _FORMATS.get(unit, ("", "")) if unit else ("", "")
    span = "{{ params.span or span_of(dag_run.logical_date or dag_run.run_after) }}" if form else "{{ params.span }}"
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        name=loaded.config.name,
        source=ascii(loaded.file.name)[1:-1].replace('"', "'"),
        schedule=schedule,
        start=config.start or date(2000, 1, 1),
        tasks=tasks,
        unit=unit,
        dated=bool(form),
        plural=plural,
        form=form,
        span=span if unit else "",
    )
