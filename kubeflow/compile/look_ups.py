"""Look-up tasks and importers, which replace the parts of TFX that query the metadata store.

The open-source backend runs no resolvers and calls no drivers. A small container, which is never cached, finds the
inputs and returns them as parameters. An importer converts a URI to an artifact. It accepts the URI only from the
inputs of the enclosing DAG, so it has a separate DAG.
"""

import json
from dataclasses import dataclass
from typing import Any

from fullpass.components.ingest.spans.span_pattern import Unit
from fullpass.kubeflow.compile.task import Output, Task, Value, artifact_type, task_name
from fullpass.kubeflow.kfp_internals import (
    IMPORTER_ARTIFACT,
    IMPORTER_URI,
    MESSAGE,
    SCHEDULE_TIME_PLACEHOLDER,
    SCHEDULE_TIME_SINCE,
    is_before,
    path_placeholder,
)
from fullpass.kubeflow.protocol import (
    DATA_PATH,
    EMPTY_ARTIFACT,
    MODEL_URI,
    PUSH_TO,
    REQUEST,
    SCHEDULE,
    SCHEDULE_TIME,
    SPAN,
    WINDOW,
    Json,
)
from fullpass.pipeline.schedule_config import ScheduleConfig

MODEL_TITLE = "tfx.Model"
_UNCACHED = {"enableCache": False}


@dataclass(frozen=True)
class LookUps:
    """The look-up tasks of a pipeline that keeps its records in a registry."""

    registry: str
    pipeline: str

    @property
    def _records(self) -> dict[str, Value]:
        return {"registry": self.registry, "pipeline": self.pipeline}

    def find_inputs(self, ingest: str, request: str, folder: str, *, by_path: bool, window: dict[str, str]) -> Task:
        """Returns the task that finds Ingest's files and their fingerprints when a run begins.

        Its output stays small: the list of files goes to the registry, and Ingest receives its name in the registry.

        Args:
            request: The request to Ingest, without files.
            by_path: Whether the source has paths that a run may replace.
            window: For a source with spans, SPANS, ENTRIES and the result of `schedule_time`; otherwise empty.
        """
        return Task(
            name=f"find-{task_name(ingest)}-inputs",
            parameters={REQUEST: request, "folder": folder, **self._records, **window},
            dag_inputs=((DATA_PATH,) if by_path else ()) + ((SPAN,) if window else ()),
            output_parameters=(REQUEST, WINDOW) if window else (REQUEST,),
        )

    def find_blessed_model(self, resolver: str, push_to: str, made_from: dict[str, Value], nothing: Output) -> Task:
        """Returns the task that finds the newest blessed model with other inputs, or `nothing`."""
        return Task(
            name=f"find-{task_name(resolver)}",
            parameters={**self._records, PUSH_TO: push_to, **made_from},
            artifacts={EMPTY_ARTIFACT: (nothing, "system.Artifact")},
            output_parameters=(MODEL_URI,),
        )

    def record_blessed_model(
        self, resolver: str, blessing: Output, made_from: dict[str, Value], window: dict[str, Value]
    ) -> Task:
        """Returns the task that records a blessed model for later runs; its only artifact is the small blessing.

        Args:
            window: For a source with spans, the window of the run, which it records too, blessed or not; otherwise
                empty.
        """
        return Task(
            name=f"record-{task_name(resolver)}",
            parameters={**self._records, **made_from, **window},
            artifacts={"blessing": (blessing, "tfx.ModelBlessing")},
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


def message_args(inputs: Any, outputs: Any) -> list[str]:
    """Returns the arguments with which a container receives the launcher's message and the paths of its artifacts."""
    args = ["--executor-input", MESSAGE]
    args += [f"--input={name}={path_placeholder('inputs', name)}" for name in inputs]
    return args + [f"--output={name}={path_placeholder('outputs', name)}" for name in outputs]


@dataclass(frozen=True)
class ModelImport:
    """A DAG that converts the URI found by a look-up to a model."""

    name: str
    found: str

    @property
    def importer(self) -> str:
        """Name of the importer in the DAG."""
        return f"import-{self.name}"

    @property
    def end(self) -> Task:
        """The task that ends the DAG, a container with END_COMMAND, which belongs into the DAG."""
        return Task(name=f"end-{self.name}", after=(self.importer,))

    def task_spec(self) -> Json:
        """Returns the entry of the root's tasks."""
        source = {"taskOutputParameter": {"producerTask": self.found, "outputParameterKey": MODEL_URI}}
        return {
            "taskInfo": {"name": self.name},
            "componentRef": {"name": f"comp-{self.name}"},
            "inputs": {"parameters": {MODEL_URI: source}},
            "dependentTasks": [self.found],
            "cachingOptions": _UNCACHED,
        }

    def components(self) -> Json:
        """Returns the components of the DAG and of the importer."""
        inner = {
            "taskInfo": {"name": self.importer},
            "componentRef": {"name": f"comp-{self.importer}"},
            "inputs": {"parameters": {IMPORTER_URI: {"componentInputParameter": MODEL_URI}}},
            "cachingOptions": _UNCACHED,
        }
        selected = [{"producerSubtask": self.importer, "outputArtifactKey": IMPORTER_ARTIFACT}]
        return {
            f"comp-{self.name}": {
                "dag": {
                    "tasks": {self.importer: inner},
                    "outputs": {"artifacts": {"model": {"artifactSelectors": selected}}},
                },
                **_converts(MODEL_URI, "model"),
            },
            f"comp-{self.importer}": {
                "executorLabel": f"exec-{self.importer}",
                **_converts(IMPORTER_URI, IMPORTER_ARTIFACT),
            },
        }

    def executor(self) -> Json:
        """Returns the executor of the importer."""
        return {
            "importer": {"artifactUri": {"runtimeParameter": IMPORTER_URI}, "typeSchema": artifact_type(MODEL_TITLE)}
        }


def _converts(uri: str, model: str) -> Json:
    return {
        "inputDefinitions": {"parameters": {uri: {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {model: {"artifactType": artifact_type(MODEL_TITLE)}}},
    }
