"""Look-up tasks and importers, which replace the parts of TFX that query the metadata store.

The open-source backend runs no resolvers and calls no drivers. One small container, which is never cached, finds the
inputs of a run and returns them as parameters. An importer converts a URI to an artifact. It accepts the URI only from
the inputs of the enclosing DAG, so all nodes are in a DAG that gets them from the look-up.
"""

import json
from dataclasses import dataclass
from typing import Any

from fullpass.components.ingest.spans.span_pattern import Unit
from fullpass.kubeflow import protocol
from fullpass.kubeflow.compile.task import DagInput, Task, TaskOutput, Value, artifact_type
from fullpass.kubeflow.kfp_internals import (
    IMPORTER_ARTIFACT,
    IMPORTER_URI,
    MESSAGE,
    SCHEDULE_TIME_PLACEHOLDER,
    SCHEDULE_TIME_SINCE,
    is_before,
    path_placeholder,
)
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.schedule_config import ScheduleConfig

MODEL_TITLE = "tfx.Model"
FIND_INPUTS = "find-inputs"
"""Name of the task that finds the inputs of a run."""


def find_inputs_task(given: dict[str, Value], *, by_path: bool, window: dict[str, str]) -> Task:
    """Returns the task that finds the inputs of a run when it begins: Ingest's files, and the last blessed model.

    Its outputs stay small: the list of files goes to the registry, and Ingest receives its name in the registry.

    Args:
        given: REQUEST without files, their folder, registry, pipeline, PUSH_TO, MADE_FROM and GATES.
        by_path: Whether the source has paths that a run may replace.
        window: For a source with spans, SPANS, ENTRIES and the result of `schedule_time`; otherwise empty.
    """
    return Task(
        name=FIND_INPUTS,
        parameters={
            **given,
            **window,
            **{name: DagInput(name) for name in (protocol.DATA_PATH,) if by_path},
            **{name: DagInput(name) for name in (protocol.SPAN,) if window},
            protocol.GATE: DagInput(protocol.GATE),
        },
        outputs={protocol.EMPTY_ARTIFACT: "system.Artifact"},
        output_parameters=(
            protocol.REQUEST,
            protocol.MADE_FROM,
            protocol.MODEL_URI,
            protocol.KNOWN,
            *((protocol.WINDOW,) if window else ()),
        ),
    )


def schedule_time(schedule: ScheduleConfig | None, unit: Unit | None, release: str) -> dict[str, str]:
    """Returns the parameters from which a run determines the span of its scheduled time.

    They are empty unless the schedule has a lag, spans are dates, and the release provides the scheduled time.
    """
    has_scheduled_time = not is_before(release, SCHEDULE_TIME_SINCE) and unit not in (None, "number")
    if schedule is None or not has_scheduled_time or "lag" not in schedule.model_fields_set:
        return {}
    return {
        protocol.SCHEDULE_TIME: SCHEDULE_TIME_PLACEHOLDER,
        protocol.SCHEDULE: json.dumps({"lag": schedule.lag, "timezone": schedule.timezone}, sort_keys=True),
    }


def message_args(inputs: Any, outputs: Any) -> list[str]:
    """Returns the arguments with which a container receives the launcher's message and the paths of its artifacts."""
    args = ["--executor-input", MESSAGE]
    args += [f"--input={name}={path_placeholder('inputs', name)}" for name in inputs]
    return args + [f"--output={name}={path_placeholder('outputs', name)}" for name in outputs]


@dataclass(frozen=True)
class ModelImport:
    """The importer of the model whose URI is the parameter MODEL_URI of the enclosing DAG."""

    name: str

    @property
    def model(self) -> TaskOutput:
        """The model."""
        return TaskOutput(self.name, IMPORTER_ARTIFACT)

    @property
    def _task(self) -> Task:
        uri = {IMPORTER_URI: DagInput(protocol.MODEL_URI)}
        return Task(self.name, parameters=dict(uri), outputs={IMPORTER_ARTIFACT: MODEL_TITLE})

    def task_spec(self) -> Json:
        """Returns the entry of the DAG's tasks."""
        return self._task.task_spec()

    def component(self) -> Json:
        """Returns the component."""
        return self._task.component()

    def executor(self) -> Json:
        """Returns the executor."""
        address = {"runtimeParameter": IMPORTER_URI}
        return {"importer": {"artifactUri": address, "typeSchema": artifact_type(MODEL_TITLE)}}
