"""TFX's Tuner with an executor that also writes the trials' curves for TensorBoard to the artifact `tuner_results`."""

from typing import Any

from tfx import types
from tfx.components.tuner import executor
from tfx.components.tuner.component import Tuner as TfxTuner

from fullpass.components.internals.tfx_internals import artifact_utils, executor_spec, json_utils
from fullpass.trainer.tuning.config import CURVES_ENTRY, CURVES_FOLDER


class TunerExecutor(executor.Executor):
    """Passes the location of the output artifact to the search, because TFX passes no outputs to a `tuner_fn`."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        results = artifact_utils.get_single_uri(output_dict["tuner_results"])
        custom = {**json_utils.loads(exec_properties["custom_config"]), CURVES_ENTRY: f"{results}/{CURVES_FOLDER}"}
        super().Do(input_dict, output_dict, {**exec_properties, "custom_config": json_utils.dumps(custom)})


class Tuner(TfxTuner):
    """TFX's Tuner with the custom executor."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(TunerExecutor)
