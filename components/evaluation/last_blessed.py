"""Whether the last blessed model can be measured on the rows of a pipeline."""

from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import read_description

_KINDS = {"number": "a number", "string": "text", "vector": "a vector"}


def why_not_measured(export: str, config: PreprocessingConfig) -> str:
    """Returns why a model cannot be measured on the rows of a pipeline; "" if it can.

    The rows contain the columns that the pipeline reads. A model would take any other column as missing in every row,
    and seem worse than it is.

    Args:
        export: The folder of its SavedModel; an early release has not described its columns.
        config: Features and label of the pipeline.
    """
    described = read_description(export)
    if described is None:
        return ""
    told, label = f"{described['label']} ({described['task']})", f"{config.label.column} ({config.label.task})"
    if told != label:
        return f"the last blessed model predicts {told}, and this pipeline {label}"
    rows = raw_columns(config)
    if absent := [column["name"] for column in described["columns"] if column["name"] not in rows]:
        return f"the last blessed model reads {', '.join(absent)}, which this pipeline no longer reads"
    for name, kind in ((column["name"], column["type"]) for column in described["columns"]):
        if (here := rows[name].type) != kind:
            return f"the last blessed model reads {name} as {_KINDS[kind]}, and this pipeline as {_KINDS[here]}"
    return ""
