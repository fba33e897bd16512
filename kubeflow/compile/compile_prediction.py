"""Compiles batch prediction to a package of its own: one task, and two that fetch the model if a look-up finds it.

It is declared in the environment file, because it says where rows, model and output are in the cluster.
"""

import json
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from fullpass.base.files import is_address
from fullpass.base.tfx_line import line
from fullpass.components.predict.write_tables import format_to_write
from fullpass.kubeflow import protocol
from fullpass.kubeflow.compile.compile import (
    PREDICT,
    Compiled,
    check_engines,
    redacted_environment,
    redacted_pipeline,
)
from fullpass.kubeflow.compile.look_ups import MODEL_TITLE, ModelImport, message_args
from fullpass.kubeflow.compile.package import check_package
from fullpass.kubeflow.compile.package_builder import PackageBuilder, text_parameter
from fullpass.kubeflow.compile.task import Output, Task, task_name
from fullpass.kubeflow.config import PredictionConfig, beam_config, seconds
from fullpass.kubeflow.environment import Environment, require
from fullpass.kubeflow.kfp_internals import SCHEDULE_TIME_PLACEHOLDER, SCHEDULE_TIME_SINCE, is_before
from fullpass.kubeflow.page_outputs import METRICS
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys

_PUSHED, _BLESSED = "pushed", "blessed"


def compile_prediction(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package that the section `predict` of an environment file declares, for models of a pipeline.

    Raises:
        UserError: The section is missing, does not fit, or the release would reject the package.
    """
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    declared = replace(environment, config=config).prediction
    check_engines(loaded, config, [PREDICT])
    format_to_write(declared.output)
    push_to = _absolute(config.push_to or loaded.config.push.to, config.folder)
    model = push_to if declared.model == _PUSHED else declared.model
    lasting: list[tuple[Keys, str, str]] = [(("predict", "output"), PREDICT, _absolute(declared.output, config.folder))]
    if declared.model == _BLESSED:
        lasting.append((("registry",), PREDICT, config.registry))
    elif declared.model == _PUSHED:
        lasting.append((("push_to",), PREDICT, push_to))
    warnings = require(environment, list(config.nodes), lasting)
    # Notifications and MLflow are of trainings.
    name = protocol.name_of_prediction(loaded.config.name)
    own = loaded.config.model_copy(update={"name": name, "notify": (), "mlflow": None})
    builder = _Builder(replace(loaded, config=own), config, spanned=False, declared=declared, model=model)
    builder.add_prediction(loaded.config.name, push_to)
    package = builder.package()
    check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


def _absolute(path: str, folder: str) -> str:
    return path if is_address(path) else str(PurePosixPath(folder) / path)


@dataclass(kw_only=True)
class _Builder(PackageBuilder):
    """The package of a batch prediction. model: folder or address of the model, or `blessed`."""

    declared: PredictionConfig
    model: str

    def add_prediction(self, pipeline: str, push_to: str) -> None:
        """Adds the tasks."""
        environment = self.environment
        settings = environment.node(PREDICT)
        knows_time = not is_before(environment.kubeflow, SCHEDULE_TIME_SINCE)
        task = Task(
            task_name(PREDICT),
            parameters={protocol.SCHEDULE_TIME: SCHEDULE_TIME_PLACEHOLDER} if knows_time else {},
            artifacts={protocol.MODEL: (self._blessed_model(pipeline, push_to), MODEL_TITLE)}
            if self._is_blessed
            else {},
            outputs={"metrics": METRICS},
            dag_inputs=tuple(self._run_parameters()),
        )
        plan = {
            "line": line(),
            "read_as": self.declared.source,
            "explain": self.declared.explain,
            "lag": seconds(self.declared.lag) if self.declared.lag else 0,
            "beam": beam_config(settings.beam, self.loaded.config.beam, environment.pipeline_root).model_dump(
                mode="json"
            ),
            "folder": environment.folder,
            "artifacts": environment.artifacts,
        }
        args = ["--plan", json.dumps(plan, sort_keys=True), *message_args(task.artifacts, task.outputs)]
        self._add_container(task, protocol.PREDICT_COMMAND, args, settings)

    @property
    def _is_blessed(self) -> bool:
        return self.model == _BLESSED

    def _blessed_model(self, pipeline: str, push_to: str) -> Output:
        given = {"registry": self.environment.registry, "pipeline": pipeline, protocol.PUSH_TO: push_to}
        found = Task("find-model", parameters=dict(given), output_parameters=(protocol.MODEL_URI,))
        self._add_lookup("model", found, PREDICT, volumes=self._push_volume(PREDICT, push_to))
        return self._add_import(PREDICT, ModelImport("fetched-model", found.name))

    def _run_parameters(self) -> Json:
        dated = "{YYYY}, {MM}, {DD} and {HH} are the date of the run."
        declared = {
            protocol.ROWS: text_parameter(
                self.declared.rows, f"Rows to predict: a file, folder, glob or address. {dated}"
            ),
            protocol.OUTPUT: text_parameter(self.declared.output, f"Folder or address to write. {dated}"),
            protocol.DATE: text_parameter(
                "", "Date of the run, as 2026-01-02 or 2026-01-02T03; by default the planned one."
            ),
        }
        if not self._is_blessed:
            declared[protocol.MODEL] = text_parameter(self.model, "Folder or address of the model, or of its versions.")
        return declared
