"""The Evaluator component: TFX's, which finds out itself which of the spans that it reads is the newest."""

from collections.abc import Sequence
from typing import Any

from tfx import components, types
from tfx.components.evaluator import executor
from tfx.dsl.components.base import executor_spec
from tfx.types import standard_component_specs

from components.evaluation.eval_config import NEWEST
from preprocessing.columns import span_in_row_ids


class Executor(executor.Executor):
    """Evaluates by a config in which NEWEST stands for the newest span, as rows have it."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Runs TFX's executor; see there."""
        name = standard_component_specs.EVAL_CONFIG_KEY
        text = with_newest_span(exec_properties[name], input_dict[standard_component_specs.EXAMPLES_KEY])
        super().Do(input_dict, output_dict, {**exec_properties, name: text})


def with_newest_span(config: str, examples: Sequence[types.Artifact]) -> str:
    """Returns an evaluation config, as JSON, with the number of the newest span in it as row ids have it."""
    return config.replace(NEWEST, str(span_in_row_ids(max(artifact.span for artifact in examples))))


class Evaluator(components.Evaluator):
    """TFX's Evaluator.

    Which span is the newest follows from the examples, which caches compare anyway. As a parameter it would have to be
    known when the pipeline is built; a package for Kubeflow is built once for every window.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
