"""The Evaluator: TFX's, which finds out which span is the newest, judges slices, and tells readers without TFMA.

Which span is the newest follows from the examples, which caches compare anyway. As a parameter it would have to be
known when the pipeline is built; a package for Kubeflow is built once for every window.

TFMA can hold thresholds per slice, but not only those of slices with rows enough: where `min_slice_size` leaves a slice
out, its thresholds count as missed.
"""

import logging
from collections.abc import Sequence
from typing import Any

from tfx import types
from tfx.components.evaluator import executor
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, component_spec, standard_artifacts, standard_component_specs
from tfx.utils import json_utils

from components.evaluation.config import EvaluationConfig
from components.evaluation.eval_config import NEWEST, eval_config
from components.evaluation.measured import write_measured
from components.evaluation.verdict import read_verdict
from preprocessing.columns import span_in_row_ids


class Executor(executor.Executor):
    """Evaluates as TFX does, by a config in which NEWEST is the newest span; blesses nothing that misses on a slice."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See base class."""
        name = standard_component_specs.EVAL_CONFIG_KEY
        text = with_newest_span(exec_properties[name], input_dict[standard_component_specs.EXAMPLES_KEY])
        super().Do(input_dict, output_dict, {**exec_properties, name: text})
        config = EvaluationConfig.model_validate_json(exec_properties["evaluated"])
        evaluation, blessing = (
            artifact_utils.get_single_instance(output_dict[name]) for name in ("evaluation", "blessing")
        )
        write_measured(evaluation.uri)
        verdict = read_verdict(evaluation.uri, config, blessed=False)
        if blessing.get_int_custom_property("blessed") and not verdict.slices_hold:
            fileio.remove(f"{blessing.uri}/BLESSED")
            with fileio.open(f"{blessing.uri}/NOT_BLESSED", "w") as file:
                file.write("")
            blessing.set_int_custom_property("blessed", 0)
        if not blessing.get_int_custom_property("blessed"):
            logging.warning("Not blessed:\n%s", "\n".join(verdict.reasons))


def with_newest_span(config: str, examples: Sequence[types.Artifact]) -> str:
    """Returns an evaluation config, as JSON, with the number of the newest span in it as row ids have it."""
    return config.replace(NEWEST, str(span_in_row_ids(max(artifact.span for artifact in examples))))


class EvaluatorSpec(standard_component_specs.EvaluatorSpec):
    """TFX's, with `evaluation:` of the YAML."""

    PARAMETERS = {
        **standard_component_specs.EvaluatorSpec.PARAMETERS,
        "evaluated": component_spec.ExecutionParameter(type=str),
    }


class Evaluator(base_beam_component.BaseBeamComponent):
    """Measures a model, and the last blessed one, on the eval split, and blesses it if it holds.

    Outputs: `evaluation`, as TFMA writes it, and `measured.json`; `blessing`.
    """

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        config: EvaluationConfig,
        *,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        baseline_model: types.BaseChannel,
        spanned: bool,
    ):
        """Constructs the component.

        Args:
            config: the section of the YAML.
            examples: raw examples of every span.
            model: the new one.
            baseline_model: the last blessed one, if there is one.
            spanned: whether the source has spans.
        """
        super().__init__(
            EvaluatorSpec(
                examples=examples,
                model=model,
                baseline_model=baseline_model,
                eval_config=eval_config(config, spanned=spanned),
                evaluated=config.model_dump_json(),
                example_splits=json_utils.dumps(None),
                fairness_indicator_thresholds=json_utils.dumps(None),
                evaluation=types.Channel(type=standard_artifacts.ModelEvaluation),
                blessing=types.Channel(type=standard_artifacts.ModelBlessing),
            )
        )
