"""Summarizes a pipeline file in a few lines."""

from collections import Counter
from collections.abc import Sequence

from fullpass.base.errors import listed
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import raw_columns, serving_columns


def overview(config: PipelineConfig, window: Sequence[str] = ()) -> str:
    """Returns the summary that `fullpass check` prints.

    Args:
        config: The pipeline.
        window: Lines about the spans that a run would use.
    """
    preprocessing = config.preprocessing_config
    features = len(config.all_features)
    kinds = Counter(feature.type for feature in config.all_features.values())
    serving = serving_columns(preprocessing)
    training_only = [name for name in raw_columns(preprocessing) if name not in serving]
    lines = [
        f"{config.name}: {config.label.task} label {config.label.name}, model {config.model.kind}",
        f"  features  {features}: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}",
        f"  crosses   {len(config.crosses)}",
        f"  serving   needs {len(serving)} columns: {listed(serving)}",
        f"  training  also needs: {listed(training_only) or 'nothing'}",
        f"  splits    {', '.join(config.data.split_names)}",
        *(f"  window    {line}" for line in window),
    ]
    return "\n".join([*lines, "No errors."])
