"""The Parity component, which compares training with serving."""

import json

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.progress import report as progress
from fullpass.components.artifacts import ParityReport
from fullpass.components.ingest.component import by_span, rows_of_split
from fullpass.components.parity.compare import Tolerance, check_parity, report_json
from fullpass.preprocessing.config import PreprocessingConfig


@component
def Parity(
    examples: InputArtifact[list[standard_artifacts.Examples]],
    ready: InputArtifact[list[standard_artifacts.Examples]],
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    model: InputArtifact[standard_artifacts.Model],
    model_run: InputArtifact[standard_artifacts.ModelRun],
    report: OutputArtifact[ParityReport],
    preprocessing: Parameter[str],
    options: Parameter[str],
) -> None:
    """Computes features and predictions of eval rows by every path of training and serving; fails if two differ.

    * The model inputs of training = the export's `transform_features` on the raw rows, feature by feature. Depending on
      `compute_at`, a feature of training is read from `ready` as Transform wrote it, or computed by the input function
      or in the model.
    * The trained model's predictions = the export's `serving_default` on the raw rows.
    * `serving_default` (serialized examples) = `serving_raw` (named columns), output by output.

    Rows pass through all paths batch by batch, so memory does not grow with the split. The comparison stops after the
    batch in which a feature has as many mismatches as are shown. `report` contains `parity.json` and has the custom
    property `rows`.
    """
    # These modules import Keras and TensorFlow, which are not needed to build a pipeline.
    from fullpass.components.parity.compare_paths import SPLIT, compare_paths
    from fullpass.preprocessing.apply.graph_optimizer import optimized_for

    settings = json.loads(options)
    config = PreprocessingConfig.model_validate_json(preprocessing)
    with optimized_for(rows_of_split(by_span(examples), SPLIT), config):
        compared, rows = compare_paths(
            config,
            Tolerance(settings["rtol"], settings["atol"]),
            None if settings["rows"] == "all" else settings["rows"],
            examples=examples,
            ready=ready,
            transform_graph=transform_graph,
            model=model,
            model_run=model_run,
        )
    with fileio.open(f"{report.uri}/parity.json", "w") as f:
        f.write(report_json(compared))
    report.set_int_custom_property("rows", rows)
    check_parity(compared)
    progress(rows, rows, "rows")
