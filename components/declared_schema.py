"""Components that write the schema declared by the features, and compare it with the data."""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts
from tfx.utils import io_utils

from fullpass.components.artifacts import SchemaComparison as SchemaComparisonArtifact
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID
from fullpass.preprocessing.columns.raw_schema import compare, describe, raw_schema
from fullpass.preprocessing.config import PreprocessingConfig


@component
def DeclaredSchema(
    schema: OutputArtifact[standard_artifacts.Schema],
    preprocessing: Parameter[str],
) -> None:
    """Writes the schema of the raw examples, as declared by the features, the label and the slices."""
    config = PreprocessingConfig.model_validate_json(preprocessing)
    io_utils.write_pbtxt_file(f"{schema.uri}/schema.pbtxt", raw_schema(config))


@component
def SchemaComparison(
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    schema: InputArtifact[standard_artifacts.Schema],
    comparison: OutputArtifact[SchemaComparisonArtifact],
) -> None:
    """Compares the declared schema with the schema that TFDV infers from the statistics of the split train."""
    import tensorflow_data_validation as tfdv

    declared = io_utils.SchemaReader().read(f"{schema.uri}/schema.pbtxt")
    counted = [feature for feature in declared.feature if feature.name != RAW_ROW_ID]  # has no statistics
    del declared.feature[:]
    declared.feature.extend(counted)
    statistics_of_train = tfdv.load_stats_binary(f"{statistics.uri}/Split-train/FeatureStats.pb")
    differences = compare(declared, tfdv.infer_schema(statistics_of_train, max_string_domain_size=100))
    with fileio.open(f"{comparison.uri}/comparison.txt", "w") as f:
        f.write(describe(differences) + "\n")
    comparison.set_int_custom_property("differences", len(differences))
