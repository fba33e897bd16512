"""The declared schema, its use in TF Transform and TFDV, and its comparison with an inferred schema."""

import pytest

from fullpass.preprocessing.columns.raw_schema import compare_schemas, describe_differences, raw_schema
from fullpass.preprocessing.config import PreprocessingConfig

CONFIG = PreprocessingConfig.model_validate(
    {
        "features": {
            "fare": "number",
            "company": "category",
            "embedding": {"type": "vector", "width": 3},
            "speed": "number",
            "started": {"type": "date", "column": "start"},
        },
        "derive": {"speed": "miles / hours", "tipped": "tips > 0.2 * fare"},
        "label": {"name": "tipped", "task": "binary", "weight": "weight"},
        "slices": ["zone"],
    }
)


def test_every_column_is_optional_and_serving_lacks_what_only_training_reads():
    columns = {
        feature.name: (
            feature.type,
            (feature.value_count.min, feature.value_count.max),
            list(feature.not_in_environment),
        )
        for feature in raw_schema(CONFIG).feature
    }
    text, integer, number = 1, 2, 3  # The enum values of the proto.
    assert columns == {
        "company": (text, (0, 1), []),
        "embedding": (number, (3, 3), []),
        "fare": (number, (0, 1), []),
        "fullpass_row": (integer, (0, 1), ["SERVING"]),
        "hours": (number, (0, 1), []),
        "miles": (number, (0, 1), []),
        "start": (text, (0, 1), []),
        "tips": (number, (0, 1), ["SERVING"]),
        "weight": (number, (0, 1), ["SERVING"]),
        "zone": (text, (0, 1), ["SERVING"]),
    }


@pytest.mark.integration
def test_parse_spec_of_the_schema_is_ours():
    from tensorflow_transform.tf_metadata import schema_utils

    from fullpass.preprocessing.apply.column_tensors import raw_feature_spec

    spec = schema_utils.schema_as_feature_spec(raw_schema(CONFIG)).feature_spec
    assert spec == raw_feature_spec(CONFIG, serving=False)
    only_training = {"fullpass_row", "tips", "weight", "zone"}
    assert spec.keys() - raw_feature_spec(CONFIG, serving=True).keys() == only_training


@pytest.mark.integration
def test_comparison_with_what_tfdv_infers():
    import pyarrow as pa
    import tensorflow_data_validation as tfdv
    from tensorflow_data_validation.statistics import stats_impl

    data = {
        "fare": pa.array([[1.5], [2.0], None]),
        "company": pa.array([["a"], ["b", "c"], ["d"]]),
        "embeding": pa.array([[1.0, 2.0, 3.0]] * 3),
        "hours": pa.array([["x"], ["y"], None]),
        "miles": pa.array([None, None, None], pa.list_(pa.float32())),
        "start": pa.array([["2024-01-01"]] * 3),
        "tips": pa.array([[1], [2], [3]]),
        "weight": pa.array([[1.0]] * 3),
        "zone": pa.array([["a"]] * 3),
        "fullpass_row": pa.array([[1], [2], [3]]),
    }
    batch = pa.RecordBatch.from_arrays(list(data.values()), list(data))
    statistics = stats_impl.generate_statistics_in_memory(batch)
    differences = compare_schemas(raw_schema(CONFIG), tfdv.infer_schema(statistics, infer_feature_shape=False))
    assert {(d.column, d.problem) for d in differences} == {
        ("company", "values"),
        ("embedding", "absent"),
        ("hours", "type"),
        ("miles", "empty"),
        ("tips", "type"),
        ("embeding", "unused"),
    }
    assert describe_differences(differences).splitlines() == [
        'embedding: declared as vectors of 3 numbers, absent from the data. Did you mean "embeding"?',
        "hours: declared as numbers, holds text.",
        "tips: declared as numbers, holds whole numbers.",
        "company: declared as text, one for each row; holds several in some rows.",
        "miles: declared as numbers, without any value in the data.",
        "embeding: no feature reads it.",
    ]


@pytest.mark.integration
def test_tfdv_finds_no_anomaly_in_data_as_declared():
    import pyarrow as pa
    import tensorflow_data_validation as tfdv
    from tensorflow_data_validation.statistics import stats_impl

    types = {1: pa.binary(), 2: pa.int64(), 3: pa.float32()}
    values = {1: b"x", 2: 1, 3: 1.0}
    served = [f for f in raw_schema(CONFIG).feature if "SERVING" not in f.not_in_environment]
    columns = {f.name: pa.array([[values[f.type]] * f.value_count.max, None], pa.list_(types[f.type])) for f in served}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    statistics = stats_impl.generate_statistics_in_memory(batch)
    anomalies = tfdv.validate_statistics(statistics, raw_schema(CONFIG), environment="SERVING")
    assert dict(anomalies.anomaly_info) == {}


def test_data_as_declared():
    assert describe_differences(()) == "The data matches the declaration."
