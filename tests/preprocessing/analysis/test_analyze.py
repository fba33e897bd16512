"""A table in memory is analyzed and transformed without Beam."""

import math

import pyarrow as pa
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.analysis import analyze, traced_preprocessing
from fullpass.preprocessing.analysis.analyze import analyze_table
from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.preprocessing_fn import preprocessing_fn
from fullpass.preprocessing.values.raw_batches import BATCH_ROWS, raw_batches

pytestmark = pytest.mark.integration

FEATURES = {
    "company": "category",
    "fare": {"type": "number", "missing": "max", "transforms": ["min_max"]},
    "position": {"type": "vector", "width": 2, "transforms": []},
}


def preprocessing(features=FEATURES, **sections):
    return PreprocessingConfig.model_validate(
        {"features": features, "label": {"name": "tip", "task": "regression"}, **sections}
    )


def table(**columns):
    position = pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.int16()))
    usual = {
        "company": ["a", "b", "b", ""],
        "fare": ["1", "2.5", "", "5"],
        "tip": [1, 2, 3, None],
        "position": position,
    }
    return pa.table(usual | columns)


def transformed(config, output, rows, *, without=("label", "row_id", "example_weight"), **options):
    """Returns the outputs of the graph for rows that are one batch, by name."""
    transform = BatchTransformer(output, adapter_of(raw_schema(config)), without=list(without))
    (batch,) = (transform(batch) for batch in raw_batches(config, rows, **options))
    return batch.to_pydict()


def test_a_table_of_any_types_becomes_a_graph_that_transforms_others(tmp_path, monkeypatch):
    config, traces = preprocessing(), []

    def traced(*given):
        traces.append(given)
        return preprocessing_fn(*given)

    monkeypatch.setattr(traced_preprocessing, "preprocessing_fn", traced)
    output = analyze_table(config, list(raw_batches(config, table())), str(tmp_path / "graph"))
    assert len(traces) == 1, "a trace serves the analysis and the graph"
    domains = output.transformed_domains()
    assert (domains["company_xf"].min, domains["company_xf"].max) == (0, 3), "missing, unknown, and two companies"
    assert output.vocabulary_by_name("vocabulary_company") == [b"b", b"a"]
    assert {feature.name for feature in output.raw_metadata.schema.feature} >= {"company", "fare", "position", "tip"}
    later = pa.table(
        {"fare": [3.0, None], "company": ["new", "a"], "position": [[7.0, 8.0], [9.0, 10.0]], "more": [1, 2]}
    )
    assert transformed(config, output, later, without=["example_weight"], serving=True) == {
        "company_xf": [[1], [3]],
        "fare_xf": [[0.5], [1.0]],
        "position_xf": [[7, 8], [9, 10]],
        "label": [[0], [0]],
        "row_id": [[0], [1]],
    }


def test_rows_are_numbered_across_batches():
    config = preprocessing({"fare": "number"})
    batches = list(raw_batches(config, table().select(["fare", "tip"]).take([0] * (BATCH_ROWS + 1))))
    ids = [row for batch in batches for (row,) in batch[RAW_ROW_ID].to_pylist()]
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, 1] and ids == list(range(BATCH_ROWS + 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fare": ["1", "2", "3", "abc"]}, r"column 'fare', row 3: 'abc' is not a number"),
        ({"position": [[1], [1, 2], [3, 4], [5, 6]]}, r"column 'position', row 0: \[1\] is not 2 numbers long"),
        ({"tip": None}, r"no column 'tip'.*Did you mean \"tips\""),
    ],
)
def test_errors_name_column_and_row(change, message):
    absent = [name for name, column in change.items() if column is None]
    changed = table(tips=[1, 1, 1, 1], **{name: column for name, column in change.items() if column is not None})
    with pytest.raises(UserError, match=message):
        list(raw_batches(preprocessing(), changed.drop(absent)))


def test_an_analyzer_that_needs_a_vocabulary_is_computed_in_a_second_pass(tmp_path, monkeypatch):
    """Of four rows, two have b and one has a, which is out of the vocabulary; z is in none."""
    config = preprocessing({"company": {"type": "text", "output": "tf_idf"}})
    monkeypatch.setattr(analyze, "analyze_on_beam", None)
    output = analyze.analyze_table(config, list(raw_batches(config, table())), str(tmp_path / "graph"))
    assert output.vocabulary_by_name("vocabulary_company") == [b"b"], "those that stand twice"
    known, unknown = 1 + math.log(5 / 3), 1 + math.log(5 / 2)
    assert transformed(config, output, table(company=["z b b", "", "a", "b"])) == {
        "company_xf": [[1, 2], [], [1], [2]],
        "company.weight_xf": [pytest.approx(row) for row in ([unknown / 3, 2 * known / 3], [], [unknown], [known])],
    }


def test_an_analyzer_of_users_code_that_needs_a_vocabulary_is_computed_on_beam(tmp_path):
    rank = "tests.preprocessing.apply.user_functions:rank_less_mean"
    columns = {"company": "string"}
    config = preprocessing({"rank": {"type": "custom", "function": rank, "columns": columns}})
    output = analyze_table(
        config, list(raw_batches(config, table(company=["b", "b", "b", "a"]))), str(tmp_path / "graph")
    )
    found = transformed(config, output, table())
    assert found == {"rank_xf": [[0.75], [-0.25], [-0.25], [-1.25]]}, "ranks 1, 0, 0 and -1 less 1 / 4"
