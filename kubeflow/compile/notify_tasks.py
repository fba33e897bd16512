"""`notify:` in a package: a task that records the outcome of a run, and an exit task that notifies receivers.

The backend runs an exit task after the one task that it waits for, whether that succeeded or not
(v2/compiler/argocompiler/dag.go:65 at 2.5.0, a lifecycle hook of Argo). So all other tasks go into one separate DAG.
"""

import json
from collections.abc import Sequence

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.parts import Json, Output, Task
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.runtime.notify_container import SENT
from fullpass.kubeflow.runtime.pod_outcomes import VARIABLE
from fullpass.pipeline.config import Hook

NODE = "Notify"
"""Name of the tasks that record outcomes and notify receivers, as used in the environment file."""
RUN = "pipeline"
EXIT = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}


def check(hooks: Sequence[Hook], environment: EnvironmentConfig) -> None:
    """Checks that receivers can be notified.

    Raises:
        UserError: The release does not support it, or the notifying container lacks a variable.
    """
    if environment.kubeflow == "2.4":
        raise UserError(
            "notify: needs Kubeflow Pipelines 2.5 or later: in 2.4 a task without outputs cannot identify its run, "
            "so it cannot report a failure. Remove notify, or set a later kubeflow in the environment file."
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


def variables(pipeline: str, environment: EnvironmentConfig) -> dict[str, str]:
    """Returns the environment variables of every container of a pipeline with `notify:`."""
    return {VARIABLE: f"{environment.registry}/{pipeline}/outcomes"}


def outcome_task(evaluated: str, artifacts: dict[str, tuple[Output, str]], after: Sequence[str]) -> Task:
    """Returns the task that records the outcome of a run, after all other tasks.

    Args:
        evaluated: JSON of the config's section `evaluation`.
        artifacts: `evaluation`, `blessing`, `pushed_model` and `report`, with their types.
        after: tasks that end later than the producers of `artifacts`.
    """
    return Task(
        name="record-outcome",
        label=NODE,
        parameters={"evaluated": evaluated},
        artifacts=artifacts,
        after=tuple(after),
        cache=False,
    )


def notify_task(pipeline: str, file: str, hooks: Sequence[Hook], folder: str) -> Task:
    """Returns the exit task."""
    listed = json.dumps([hook.model_dump(mode="json", exclude_none=True) for hook in hooks])
    return Task(
        name="notify",
        label=NODE,
        parameters={"pipeline": pipeline, "file": file, "hooks": listed, "folder": folder},
        outputs={SENT: "system.Artifact"},
        after=(RUN,),
        cache=False,
    )


def with_exit_task(pipeline: Json, task: Task) -> Json:
    """Returns a pipeline whose tasks are moved into a separate DAG, with `task` beside it, which runs after that DAG.

    Args:
        pipeline: a specification that has the component and executor of `task`, but not yet the task.
        task: the exit task, which waits for RUN.
    """
    root = pipeline["root"]
    parameters = root.get("inputDefinitions", {}).get("parameters", {})
    component: Json = {"dag": root["dag"]}
    run: Json = {
        "taskInfo": {"name": RUN},
        "componentRef": {"name": f"comp-{RUN}"},
        "cachingOptions": {"enableCache": False},
    }
    if parameters:
        types = {name: {"parameterType": entry["parameterType"]} for name, entry in parameters.items()}
        component["inputDefinitions"] = {"parameters": types}
        run["inputs"] = {"parameters": {name: {"componentInputParameter": name} for name in parameters}}
    tasks = {RUN: run, task.name: {**task.task_spec(), "triggerPolicy": EXIT}}
    return {
        **pipeline,
        "components": {**pipeline["components"], f"comp-{RUN}": component},
        "root": {**root, "dag": {"tasks": tasks}},
    }
