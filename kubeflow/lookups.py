"""What stands in for the parts of TFX that ask the metadata store: tasks that look things up, and importers.

The open-source backend runs no resolvers and calls no drivers. So a small container, never cached, finds what a driver
or resolver would have found and gives it on as parameters; an address becomes an artifact again by an importer, which
takes its address only from the inputs of the DAG around it, and therefore has a DAG of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeflow.config import EnvironmentConfig
from kubeflow.parts import Json, Output, Task, artifact_type, task_name

COMMAND = ("python", "-m", "kubeflow.lookup")
DATA_PATH = "data_path"
"""Parameter of a pipeline: other files than those of the YAML."""
MODEL_URI = "model_uri"
NOTHING = "nothing"
"""Output of a look-up that found nothing: a folder whose address is imported in place of an artifact."""
MODEL_TITLE = "tfx.Model"


def find_inputs(ingest: str, request: str, environment: EnvironmentConfig, *, by_path: bool) -> Task:
    """Returns the task that finds the files Ingest reads, and their fingerprint, when a run begins.

    Args:
        ingest: the node.
        request: what it is asked for, without files.
        environment: the environment file.
        by_path: whether the source has paths that a run may replace.
    """
    return Task(
        name=f"find-{task_name(ingest)}-inputs",
        label=ingest,
        parameters={"request": request, "folder": environment.folder},
        component_inputs={DATA_PATH: "STRING"} if by_path else {},
        output_parameters={"request": "STRING"},
        cache=False,
    )


def found_inputs(task: Task) -> dict[str, Output]:
    """Returns the parameters of Ingest that the look-up gives."""
    return {name: Output(task.name, name) for name in task.output_parameters}


MadeFrom = Mapping[str, str | Output]
"""What a model follows from: `made_from`, a digest of the parameters, and `request`, the data as a look-up found it."""


def find_blessed_model(resolver: str, pipeline: str, made_from: MadeFrom, environment: EnvironmentConfig) -> Task:
    """Returns the task that finds the newest blessed model that was made from something else."""
    return Task(
        name=f"find-{task_name(resolver)}",
        label=resolver,
        parameters={"registry": environment.registry, "pipeline": pipeline, **made_from},
        outputs={NOTHING: "system.Artifact"},
        output_parameters={MODEL_URI: "STRING"},
        cache=False,
    )


def record_blessed_model(
    resolver: str, pipeline: str, blessing: Output, made_from: MadeFrom, environment: EnvironmentConfig
) -> Task:
    """Returns the task that remembers a blessed model for later runs; it takes the blessing alone, which is small."""
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
    """A DAG that turns an address into a model.

    name: of the importer in it. dag_task, dag: the task and the component of the DAG. component, executor: of the
    importer.
    """

    name: str
    dag_task: Json
    dag: Json
    component: Json
    executor: Json


def import_model(task: str, found: Task) -> ModelImport:
    """Returns the DAG that turns a found address into a model.

    Args:
        task: name of the task that stands for the resolver.
        found: the look-up.
    """
    importer = f"import-{task}"
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
        "inputs": {"parameters": {MODEL_URI: {"componentInputParameter": MODEL_URI}}},
        "cachingOptions": {"enableCache": False},
    }
    dag = {
        "inputDefinitions": uri,
        "outputDefinitions": model,
        "dag": {
            "tasks": {importer: inner},
            "outputs": {
                "artifacts": {
                    "model": {"artifactSelectors": [{"producerSubtask": importer, "outputArtifactKey": "model"}]}
                }
            },
        },
    }
    component = {"executorLabel": f"exec-{importer}", "inputDefinitions": uri, "outputDefinitions": model}
    spec = {"importer": {"artifactUri": {"runtimeParameter": MODEL_URI}, "typeSchema": artifact_type(MODEL_TITLE)}}
    return ModelImport(importer, dag_task, dag, component, spec)
