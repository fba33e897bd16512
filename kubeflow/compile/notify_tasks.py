"""`notify:` in a package: a task that records the outcome of a run, and an exit task that notifies receivers."""

import json
from collections.abc import Sequence

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.task import Dag, DagInput, Task, TaskOutput
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.kfp_internals import EXIT, NOTIFY_SINCE, is_before
from fullpass.kubeflow.protocol import SENT, Json
from fullpass.pipeline.config import Hook, PipelineConfig

NODE = "Notify"
"""Name of the tasks that record outcomes and notify receivers, as used in the environment file."""
RUN = "pipeline"
"""Name of the DAG with all tasks that the exit task waits for."""


def check(hooks: Sequence[Hook], environment: EnvironmentConfig) -> None:
    """Checks that receivers can be notified.

    Raises:
        UserError: The release does not support it, or the notifying container lacks a variable.
    """
    if is_before(environment.kubeflow, NOTIFY_SINCE):
        raise UserError(
            f"notify: needs Kubeflow Pipelines {NOTIFY_SINCE} or later: in {environment.kubeflow} a task without "
            "outputs cannot identify its run, so it cannot report a failure. Remove notify, or set a later kubeflow in "
            "the environment file."
        )
    node = environment.node(NODE)
    given = {*node.env, *(name for secret in node.secrets for name in secret.env)}
    for number, hook in enumerate(hooks):
        for key, name in (("url_env", hook.url_env), ("token_env", hook.token_env)):
            if name is not None and name not in given:
                raise UserError(
                    f"notify[{number}].{key}: the container that notifies receivers has no variable {name}. Add to the "
                    f"environment file nodes.{NODE}: {{secrets: [{{name: SECRET, env: {{{name}: KEY}}}}]}}."
                )


def outcome_task(artifacts: dict[str, tuple[TaskOutput, str]], after: Sequence[str]) -> Task:
    """Returns the task that records the outcome of a run, after all other tasks.

    Args:
        artifacts: `evaluation`, `blessing`, `pushed_model` and `report`, with their types.
        after: Tasks that need not have ended when these exist.
    """
    return Task("record-outcome", artifacts=artifacts, after=tuple(after))


def notify_task(config: PipelineConfig, file: str, folder: str) -> Task:
    """Returns the exit task."""
    hooks = json.dumps([hook.model_dump(mode="json", exclude_none=True) for hook in config.notify])
    return Task(
        name="notify",
        parameters={"pipeline": config.name, "file": file, "hooks": hooks, "folder": folder},
        outputs={SENT: "system.Artifact"},
        after=(RUN,),
    )


def with_exit_task(pipeline: Json, task: Task) -> Json:
    """Returns a pipeline whose tasks are moved into a separate DAG, with `task` beside it, which runs after that DAG.

    Args:
        pipeline: A specification that has the component and executor of `task`, but not yet the task.
    """
    root = pipeline["root"]
    parameters = root.get("inputDefinitions", {}).get("parameters", {})
    run = Dag(RUN, root["dag"]["tasks"], {name: DagInput(name) for name in parameters})
    return {
        **pipeline,
        "components": {**pipeline["components"], f"comp-{RUN}": run.component()},
        "root": {
            **root, "dag": {"tasks": {RUN: run.task_spec(), task.name: {**task.task_spec(), "triggerPolicy": EXIT}}}
        },
    }  # fmt: skip
