"""Statistics of all spans of a window together; TFX's own StatisticsGen takes a single Examples artifact."""

from typing import Any

import tensorflow_data_validation as tfdv
from tfx import types
from tfx.components import StatisticsGen as StockStatisticsGen
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.components.util import tfxio_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact_utils


class StatisticsExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs TFDV over each split."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See base class."""
        examples = input_dict["examples"]
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        statistics.split_names = examples[0].split_names
        statistics.span = max(artifact.span for artifact in examples)
        options = tfdv.StatsOptions.from_json(exec_properties["stats_options_json"])
        with self._make_beam_pipeline() as pipeline:
            for split in artifact_utils.decode_split_names(examples[0].split_names):
                source = tfxio_utils.get_split_tfxio(
                    examples=examples, split=split, telemetry_descriptors=["Fullpass", "StatisticsGen"]
                ).BeamSource()
                path = f"{artifact_utils.get_split_uri([statistics], split)}/{DEFAULT_FILE_NAME}"
                _ = (
                    pipeline
                    | f"Read[{split}]" >> source
                    | f"Statistics[{split}]" >> tfdv.GenerateStatistics(options)
                    | f"Write[{split}]" >> tfdv.WriteStatisticsToBinaryFile(path)
                )


class StatisticsGen(StockStatisticsGen):
    """TFX's StatisticsGen over a list of Examples artifacts."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(StatisticsExecutor)
