"""Components that write the schema declared by the features, and compare it with the data."""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.components.artifact_files import STATISTICS_FILE
from fullpass.components.artifacts import SchemaComparison as SchemaComparisonArtifact
from fullpass.components.internals.tfx_internals import base_node, io_utils
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RAW_TRAIN_ROW
from fullpass.preprocessing.columns.raw_schema import compare_schemas, describe_differences, raw_schema
from fullpass.preprocessing.config import PreprocessingConfig


@component
def DeclaredSchema(schema: OutputArtifact[standard_artifacts.Schema], declared: Parameter[str]) -> None:
    """Writes the schema of the raw examples. declared: the schema as text."""
    io_utils.write_pbtxt_file(f"{schema.uri}/schema.pbtxt", text_format.Parse(declared, schema_pb2.Schema()))


SCHEMA_NODE = "Schema"


def declared_schema(config: PreprocessingConfig) -> base_node.BaseNode:
    """Returns the node that writes the schema declared by the features, the label and the slices."""
    return DeclaredSchema(declared=text_format.MessageToString(raw_schema(config))).with_id(SCHEMA_NODE)


@component
def SchemaComparison(
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    schema: InputArtifact[standard_artifacts.Schema],
    comparison: OutputArtifact[SchemaComparisonArtifact],
) -> None:
    """Compares the declared schema with the schema that TFDV infers from the statistics of the split train."""
    # The small image runs DeclaredSchema, and has no TFDV.
    import tensorflow_data_validation as tfdv

    declared = io_utils.SchemaReader().read(f"{schema.uri}/schema.pbtxt")
    without_statistics = (RAW_ROW_ID, RAW_TRAIN_ROW)
    counted = [feature for feature in declared.feature if feature.name not in without_statistics]
    del declared.feature[:]
    declared.feature.extend(counted)
    statistics_of_train = tfdv.load_stats_binary(f"{statistics.uri}/Split-train/{STATISTICS_FILE}")
    differences = compare_schemas(declared, tfdv.infer_schema(statistics_of_train, max_string_domain_size=100))
    with fileio.open(f"{comparison.uri}/comparison.txt", "w") as f:
        f.write(describe_differences(differences) + "\n")
    comparison.set_int_custom_property("differences", len(differences))
