"""The whole preprocessing_fn: grouping, derived columns, absent columns, errors, and the outputs of the graph."""

import functools
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_transform import analyzer_nodes

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.label import TASKS
from fullpass.preprocessing.apply.number import ANALYZE
from fullpass.preprocessing.apply.quantities import COMPONENTWISE
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.features.label import Task
from fullpass.preprocessing.features.transforms import Bucketize, NumberTransform, Pca, VectorTransform
from fullpass.preprocessing.preprocessing_fn import function_of
from fullpass.preprocessing.spec import members_by_tag

pytestmark = pytest.mark.integration

CHAIN = {"type": "number", "missing": "median", "transforms": [{"clip": {"min": 0}}, "log1p", "z_score"]}


def analyzers(graph):
    # There is one entry per analyzer result; the results of one analyzer share its name scope.
    return graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)


def operations(graph):
    return [op for op in graph.get_operations() if "Placeholder" not in op.type and op.type != "Const"]


@pytest.mark.parametrize("feature", ["number", CHAIN])
def test_two_hundred_numbers_cost_a_handful_of_analyzers(trace, feature):
    few = trace({f"x{i}": feature for i in range(100)})
    many = trace({f"x{i}": feature for i in range(200)})
    assert 0 < len(analyzers(many)) == len(analyzers(few)) <= 5
    assert len(operations(many)) - len(operations(few)) < 2 * 100


@pytest.mark.parametrize("feature", ["category", {"type": "category", "vocabulary": {"tokens": ["a", "b"]}}])
def test_two_hundred_categories_cost_a_handful_of_operations(trace, feature):
    few = trace({f"x{i}": feature for i in range(100)})
    many = trace({f"x{i}": feature for i in range(200)})
    assert len(operations(many)) == len(operations(few)) < 100
    assert [op.type for op in many.get_operations()].count("LookupTableFindV2") == 1


def test_numbers_that_differ_only_in_their_constants_share_an_analyzer(trace):
    features = {
        f"x{i}": {
            "type": "number",
            "missing": i,
            "transforms": [{"clip": {"min": i, "max": i + 9}}, {"power": {"exponent": i}}, {"min_max": {"max": i + 1}}],
        }
        for i in range(20)
    }
    assert len(analyzers(trace(features))) == len(analyzers(trace({"x3": features["x3"]}))) == 2  # Minimum and maximum.


def test_different_chains_share_the_analyzers_of_moments(trace):
    leads = ([], ["log1p"], ["sqrt"], [{"clip": {"min": 0}}], ["log1p", "sqrt"])
    features = {
        f"x{i}_{rule}": {"type": "number", "missing": rule, "transforms": [*lead, last]}
        for i, lead in enumerate(leads)
        for rule, last in (("mean", "z_score"), ("median", "min_max"), (3, "z_score"))
    }
    # A sum, a variance with an unused mean, a minimum and a maximum, and quantiles.
    assert len(analyzers(trace(features))) == 1 + 2 + 2 + 1


def passes(graph):
    """Returns the number of passes over the data: one more than the longest chain of dependent analyzers."""
    made_by = {sink.tensor.ref(): sink.future for sink in analyzers(graph)}

    @functools.cache
    def of_tensor(reference):
        if reference in made_by:
            return 1 + of_node(made_by[reference])
        return max((of_tensor(tensor.ref()) for tensor in reference.deref().op.inputs), default=0)

    def of_node(node):
        tensors = getattr(node.parent_operation.operation_def, "tensors", ())
        before = [of_node(source) for source in node.parent_operation.inputs]
        return max([*before, *(of_tensor(tensor.ref()) for tensor in tensors)], default=0)

    return max(of_tensor(sink.tensor.ref()) for sink in analyzers(graph))


def test_a_fill_and_a_chain_are_analysed_in_one_pass(trace):
    one = {
        "a": CHAIN,
        "b": {"type": "number", "missing": "mean", "transforms": ["quantile_scale"]},
        "c": {"type": "number", "missing": "max", "transforms": ["log1p", {"bucketize": {"buckets": 4}}]},
        "d": {"type": "vector", "width": 2},
        "e": {"type": "number", "transforms": [{"z_score": {"key": "f"}}]},
        "f": "category",
        "g": "count",
        "h": {"type": "date", "parts": ["epoch"]},
        "i": {"type": "number", "transforms": ["scale_to_gaussian"]},
    }
    assert passes(trace(one)) == 1
    assert passes(trace({"x": {"type": "number", "transforms": [{"clip": {"max_quantile": 0.9}}, "z_score"]}})) == 2


def test_derived_columns_may_read_each_other_and_only_the_label_reads_the_label(assert_transform):
    assert_transform(
        {
            "fare_per_mile": {"type": "number", "transforms": [], "missing": 0},
            "cheap": {"type": "category", "vocabulary": {"tokens": ["1", "0"]}},
            "slow": "boolean",
            "first": {"type": "category", "vocabulary": {"tokens": ["A"]}},
        },
        derive={
            "fare_per_mile": "fare / miles",
            "cheap": "fare_per_mile < 2",
            "slow": "miles < 1",
            "first": "upper(substr(company, 0, 1))",
            "big_tipper": "tips > 0.2 * fare",
        },
        types={"company": "string"},
        label={"name": "big_tipper", "task": "binary", "weight": "weight"},
        analyze={"fare": [1.0]},
        apply={
            "fare": [10.0, 2.0, None, 3.0],
            "miles": [2.0, 2.0, 1.0, 0.0],
            "company": ["acme", None, "", "zoo"],
            "tips": [3.0, 0.0, 1.0, None],
            "weight": [0.5, -1.0, 2.0, 3.0],
            "fullpass_row": [7, 8, None, 2**40],
        },
        expected={
            "fare_per_mile_xf": [5, 1, 0, 0],
            "cheap_xf": [3, 2, 0, 0],
            "slow_xf": [1, 1, 1, 2],
            "first_xf": [2, 0, 0, 1],
            "label": [1, 0, 0, 0],
            "example_weight": [0.5, 0, 0, 0],
            "row_id": [7, 8, -1, 2**40],
        },
    )


def test_every_member_of_the_unions_has_an_implementation():
    def members(union):
        return set(members_by_tag(union).values())

    assert members(NumberTransform) == ANALYZE.keys() | {Bucketize}
    assert members(VectorTransform) == COMPONENTWISE.keys() | {Pca}
    assert all(callable(function_of(kind)) for kind in FEATURE_TYPES.values())
    assert set(get_args(Task)) == TASKS.keys()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"crosses": [{"inputs": ["x", "c"]}]}, r"^crosses\[0\]: inputs: 'x' cannot be crossed. Accepted"),
        ({"crosses": [{"inputs": ["c", "cc"]}]}, r"^crosses\[0\]: inputs: 'cc' .*Did you mean \"c\""),
        ({"derive": {"d": "lower(x)"}}, r"^data.derive.d: "),
        ({"label": {"name": "c", "task": "binary", "weight": "d"}, "derive": {"d": "lower(c)"}}, r"^label: column 'd'"),
    ],
)
def test_errors_begin_with_the_yaml_path(trace, section, message):
    with pytest.raises(UserError, match=message):
        trace({"x": "number", "c": "category"}, **section)


def test_an_error_of_a_vocabulary_file_names_feature_and_file(trace, tmp_path):
    feature = {"c": {"type": "category", "vocabulary": {"file": str(tmp_path / "tokens.txt")}}}
    with pytest.raises(UserError, match=r"^features.c: vocabulary file .*tokens.txt.*cannot be read"):
        trace(feature)
    (tmp_path / "tokens.txt").write_text("a\n\nb")
    with pytest.raises(UserError, match=r"^features.c: vocabulary file .*tokens.txt.*line 2"):
        trace(feature)


EXPORT = """
import sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
result = model.signatures["serve"](c=tf.constant(["b", "new york", "?"]), x=tf.constant([1.0, 3.0, 2.0]))
print({name: value.numpy().tolist() for name, value in sorted(result.items())})
print(sorted(name for name in sys.modules if name.split(".")[0] in ("tensorflow_transform", "fullpass")))
"""


@pytest.mark.long
def test_the_graph_can_be_moved_and_served_by_tensorflow_alone(assert_transform, tmp_path):
    analysed = assert_transform(
        {
            "c": "category",
            "given": {"type": "category", "column": "c", "vocabulary": {"tokens": ["new york"]}},
            "count": {"type": "count", "column": "c"},
            "x": "number",
        },
        analyze={"c": ["b", "b", "new york"], "x": [1, 2, 3]},
        expected={"c_xf": [2, 2, 3]},
    )
    export(analysed, tmp_path / "export")
    moved = (tmp_path / "export").rename(tmp_path / "moved")
    for pipeline_root in tmp_path.glob("0*"):
        pipeline_root.rename(tmp_path / "gone")
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, str(moved)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    values, modules = done.stdout.strip().splitlines()
    z = 1.5**0.5
    received = eval(values)
    assert {name: received[name] for name in ("c", "count", "given")} == {
        "c": [2, 3, 1],
        "count": [2.0, 1.0, 0.0],
        "given": [1, 2, 1],
    }
    assert np.allclose(received["x"], [-z, z, 0])
    assert modules == "[]"


def export(analysed, directory):
    class Served(tf.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string, "c"), tf.TensorSpec([None], tf.float32, "x")],
            autograph=False,  # It would convert all of Keras and TF Transform, in ten seconds.
        )
        def serve(self, c, x):
            raw = {"c": tf.sparse.from_dense(c[:, tf.newaxis]), "x": tf.sparse.from_dense(x[:, tf.newaxis])}
            return {name.removesuffix("_xf"): value for name, value in self.layer(raw).items()}

    served = Served(analysed.output.transform_features_layer())
    tf.saved_model.save(served, str(directory), signatures={"serve": served.serve})
