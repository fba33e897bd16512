"""Look-up tasks and importers, which replace the parts of TFX that query the metadata store.

The open-source backend runs no resolvers and calls no drivers. A small container, which is never cached, finds the
inputs and returns them as parameters. An importer converts a URI to an artifact. It accepts the URI only from the
inputs of the enclosing DAG, so it has a separate DAG.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fullpass.components.ingest.spans.span_pattern import Unit
from fullpass.kubeflow.compile.parts import Json, Output, Task, artifact_type, task_name
from fullpass.kubeflow.config import SCHEDULE_TIME_SINCE, EnvironmentConfig, is_before
from fullpass.pipeline.schedule_config import ScheduleConfig

COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.lookup")
END_COMMAND = ("true",)
"""Command of a container that exists only to end: the backend sets the state of a DAG when one of its containers ends
(v2/component/launcher_v2.go:200 at 2.5.0, :227 at 2.17.0), but not when an importer ends, which would leave the DAG in
the state RUNNING."""
DATA_PATH = "data_path"
"""Pipeline parameter: files to read instead of those in the YAML."""
SPAN = "span"
"""Pipeline parameter: the spans of a run, as in `fullpass run --span`, or NEW."""
NEW = "new"
"""Value of SPAN: the newest span, which must not have been trained on before."""
SCHEDULED = "scheduled"
"""Value of SPAN: the span of the scheduled time, which must not have been trained on before either."""
SCHEDULE_TIME = "schedule_time"
"""Scheduled time of a run, in UTC; for a manual run, its creation time."""
SCHEDULE_TIME_PLACEHOLDER = "{{$.pipeline_job_schedule_time_utc}}"
"""Placeholder that the driver replaces by SCHEDULE_TIME."""
SCHEDULE = "schedule"
"""JSON: lag and timezone of the YAML's schedule."""
REQUEST = "request"
"""JSON with the name of a request in the registry and a readable summary of the request."""
SPANS = "spans"
"""Widest window: a number, or `all`."""
ENTRIES = "entries"
"""The folder with the entry of each span, which names the span's records."""
WINDOW = "window"
MODEL_URI = "model_uri"
EMPTY_ARTIFACT = "nothing"
"""An empty artifact, whose URI is imported if a look-up found nothing."""
PUSH_TO = "push_to"
"""The folder of pushed models, which records rollbacks."""
MODEL_TITLE = "tfx.Model"
_URI, _ARTIFACT = "uri", "artifact"
"""Names of an importer's input and output in Kubeflow's SDK; its local runner supports no others."""


def find_inputs_task(
    ingest: str, pipeline: str, request: str, environment: EnvironmentConfig, *, by_path: bool, window: dict[str, str]
) -> Task:
    """Returns the task that finds Ingest's files and their fingerprints when a run begins.

    Its output stays small: the list of files goes to the registry, and Ingest receives its name in the registry.

    Args:
        ingest: id of the Ingest node.
        pipeline: name of the pipeline.
        request: the request to Ingest, without files.
        environment: the environment file.
        by_path: whether the source has paths that a run may replace.
        window: for a source with spans, SPANS, ENTRIES and the result of `schedule_time`; otherwise empty.
    """
    given: dict[str, str | int | float | bool | Output] = {
        "request": request,
        "folder": environment.folder,
        "pipeline": pipeline,
        "registry": environment.registry,
    }
    return Task(
        name=f"find-{task_name(ingest)}-inputs",
        label=ingest,
        parameters=given | window,
        component_inputs=({DATA_PATH: "STRING"} if by_path else {}) | ({SPAN: "STRING"} if window else {}),
        output_parameters={REQUEST: "STRING"} | ({WINDOW: "STRING"} if window else {}),
        cache=False,
    )


def schedule_time(schedule: ScheduleConfig | None, unit: Unit | None, release: str) -> dict[str, str]:
    """Returns the parameters from which a run determines the span of its scheduled time.

    They are empty unless the schedule has a lag, spans are dates, and the release provides the scheduled time.
    """
    has_scheduled_time = not is_before(release, SCHEDULE_TIME_SINCE) and unit not in (None, "number")
    if schedule is None or not has_scheduled_time or "lag" not in schedule.model_fields_set:
        return {}
    return {
        SCHEDULE_TIME: SCHEDULE_TIME_PLACEHOLDER,
        SCHEDULE: json.dumps({"lag": schedule.lag, "timezone": schedule.timezone}, sort_keys=True),
    }


def record_window_task(pipeline: str, found: Task, trainer: str, environment: EnvironmentConfig) -> Task:
    """Returns the task that records the window of a model after training."""
    return Task(
        name="record-window",
        label=trainer,
        parameters={"registry": environment.registry, "pipeline": pipeline, WINDOW: Output(found.name, WINDOW)},
        after=(task_name(trainer),),
        cache=False,
    )


MadeFrom = Mapping[str, str | Output]
"""The inputs of a model: `made_from`, a digest of the parameters, and `request`, the data found by a look-up."""


def empty_artifact_task(resolver: str, environment: EnvironmentConfig) -> Task:
    """Returns the task that creates an empty artifact, because the backend has no empty inputs.

    Kubeflow's cache returns the same artifact to every later run, so nodes that read it are not repeated. A look-up,
    which is never cached, would create it at another URI each time.
    """
    return Task(
        name=f"no-{task_name(resolver)}",
        label=resolver,
        outputs={EMPTY_ARTIFACT: "system.Artifact"},
        cache=environment.node(resolver).cache is not False,
    )


def find_blessed_model_task(
    resolver: str, pipeline: str, push_to: str, made_from: MadeFrom, nothing: Task, environment: EnvironmentConfig
) -> Task:
    """Returns the task that finds the newest blessed model with other inputs, or `nothing`."""
    return Task(
        name=f"find-{task_name(resolver)}",
        label=resolver,
        parameters={"registry": environment.registry, "pipeline": pipeline, PUSH_TO: push_to, **made_from},
        artifacts={EMPTY_ARTIFACT: (Output(nothing.name, EMPTY_ARTIFACT), "system.Artifact")},
        output_parameters={MODEL_URI: "STRING"},
        cache=False,
    )


def record_blessed_model_task(
    resolver: str, pipeline: str, blessing: Output, made_from: MadeFrom, environment: EnvironmentConfig
) -> Task:
    """Returns the task that records a blessed model for later runs; its only artifact is the small blessing."""
    return Task(
        name=f"record-{task_name(resolver)}",
        label=resolver,
        parameters={"registry": environment.registry, "pipeline": pipeline, **made_from},
        artifacts={"blessing": (blessing, "tfx.ModelBlessing")},
        cache=False,
    )


def lookup_args(kind: str, task: Task) -> list[str]:
    """Returns the arguments of the container of a look-up."""
    args = ["--kind", kind, "--executor-input", "{{$}}"]
    args += [f"--input={name}={{{{$.inputs.artifacts['{name}'].path}}}}" for name in task.artifacts]
    return args + [f"--output={name}={{{{$.outputs.artifacts['{name}'].path}}}}" for name in task.outputs]


@dataclass(frozen=True)
class ModelImport:
    """A DAG that converts a URI to a model.

    name: name of the importer in the DAG. dag_task, dag: the task and the component of the DAG. component, executor: of
    the importer. end: the task that ends the DAG, a container with END_COMMAND, which the caller must add to the DAG.
    """

    name: str
    dag_task: Json
    dag: Json
    component: Json
    executor: Json
    end: Task


def import_model(task: str, found: Task) -> ModelImport:
    """Returns the DAG that converts the URI found by a look-up to a model.

    Args:
        task: name of the task that replaces the resolver.
        found: the look-up.
    """
    importer = f"import-{task}"
    end = Task(name=f"end-{task}", label=found.label, after=(importer,), cache=False)
    uri = {"parameters": {MODEL_URI: {"parameterType": "STRING"}}}
    model = {"artifacts": {"model": {"artifactType": artifact_type(MODEL_TITLE)}}}
    dag_task = {
        "taskInfo": {"name": task},
        "componentRef": {"name": f"comp-{task}"},
        "inputs": {
            "parameters": {
                MODEL_URI: {"taskOutputParameter": {"producerTask": found.name, "outputParameterKey": MODEL_URI}}
            }
        },
        "dependentTasks": [found.name],
        "cachingOptions": {"enableCache": False},
    }
    inner = {
        "taskInfo": {"name": importer},
        "componentRef": {"name": f"comp-{importer}"},
        "inputs": {"parameters": {_URI: {"componentInputParameter": MODEL_URI}}},
        "cachingOptions": {"enableCache": False},
    }
    dag = {
        "inputDefinitions": uri,
        "outputDefinitions": model,
        "dag": {
            "tasks": {importer: inner},
            "outputs": {
                "artifacts": {
                    "model": {"artifactSelectors": [{"producerSubtask": importer, "outputArtifactKey": _ARTIFACT}]}
                }
            },
        },
    }
    component = {
        "executorLabel": f"exec-{importer}",
        "inputDefinitions": {"parameters": {_URI: {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {_ARTIFACT: {"artifactType": artifact_type(MODEL_TITLE)}}},
    }
    spec = {"importer": {"artifactUri": {"runtimeParameter": _URI}, "typeSchema": artifact_type(MODEL_TITLE)}}
    return ModelImport(importer, dag_task, dag, component, spec, end)
