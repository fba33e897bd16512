"""The test harness of all transforms: analyzes rows, then applies the graph as Transform does and as a server does."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LABEL = {"name": "y", "task": "regression"}


@dataclass(frozen=True)
class Analysed:
    """A transform graph made by a test.

    output: tft.TFTransformOutput of the written graph. applied: transformed name -> one entry per row.
    """

    output: Any
    applied: dict[str, list]

    def size(self, name: str) -> int:
        """Returns the number of distinct ids of a transformed feature, as the Trainer reads it."""
        return self.output.num_buckets_for_transformed_feature(name)

    def vocabulary(self, name: str) -> list[str]:
        return [token.decode() for token in self.output.vocabulary_by_name(name)]


@pytest.fixture
def assert_transform(tmp_path):
    """Returns the function that asserts the transformed values of features; see `_assert_transform`."""
    calls = iter(range(100))

    def run(features: dict[str, Any], **kwargs: Any) -> Analysed:
        return _assert_transform(features, directory=tmp_path / str(next(calls)), **kwargs)

    return run


@pytest.fixture
def trace(tmp_path):
    """Returns the function that traces `preprocessing_fn` for features of a YAML, without data."""

    def run(features: dict[str, Any], **sections: Any) -> Any:
        return _trace(features, str(tmp_path), **sections)

    return run


def _trace(features: dict[str, Any], temporary: str, *, label: dict[str, Any] = LABEL, **sections: Any) -> Any:
    import tensorflow as tf

    from fullpass.preprocessing.apply.column_tensors import raw_feature_spec
    from fullpass.preprocessing.config import PreprocessingConfig
    from fullpass.preprocessing.internals.tft_internals import TFGraphContext, annotators
    from fullpass.preprocessing.preprocessing_fn import preprocessing_fn

    config = PreprocessingConfig.model_validate({"features": features, "label": label, **sections})
    spec = raw_feature_spec(config, serving=False)

    @tf.function(
        input_signature=[{name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}],
        autograph=False,
    )
    def traced(inputs: Any) -> None:
        preprocessing_fn(inputs, {"preprocessing": config.model_dump(mode="json")})

    context = TFGraphContext(module_to_export=tf.Module(), temp_dir=temporary, evaluated_replacements=None)
    with annotators.object_tracker_scope(annotators.ObjectTracker()), context:
        return traced.get_concrete_function().graph


def _assert_transform(
    features: dict[str, Any],
    *,
    analyze: dict[str, list],
    apply: dict[str, list] | None = None,
    expected: dict[str, list],
    directory: Path,
    label: dict[str, Any] = LABEL,
    tolerance: float = 1e-5,
    base_model: dict[str, Any] | None = None,
    **sections: Any,
) -> Analysed:
    """Asserts the transformed values of examples, for features as declared in the YAML.

    `analyze_table` analyzes the rows of `analyze` in two batches. The rows of `apply` (by default the same) are then
    transformed as in Transform. They are transformed again by the saved graph, which gets serving columns only, once
    all together and once row by row. All results must equal `expected`, and have the dtype, shape and domain of
    `outputs`.

    Args:
        features: The YAML section of that name; `label` and `sections` (crosses, derive ...) likewise.
        analyze: Raw column -> one value per row; None is missing, a list is a vector or several values.
        apply: As `analyze`.
        expected: Transformed name -> one value per row, which is a list for vectors and rows of ids. Other names are
            not compared.
        directory: Output folder of the graph.
        label: The YAML section of that name.
        tolerance: Relative and absolute tolerance of float comparisons.
        base_model: The model that stable ids are based on.
        **sections: The other YAML sections.
    """
    from fullpass.preprocessing.config import PreprocessingConfig

    config = PreprocessingConfig.model_validate({"features": features, "label": label, **sections})
    apply = analyze if apply is None else apply
    output, applied = _analyze_and_apply(config, analyze, apply, directory, base_model or {})
    _assert_promises(config, output, applied)
    _shape_images(config, applied)
    for name, values in expected.items():
        _assert_equal(applied[name], values, f"{name} as Transform writes it", tolerance)
    serve = _saved_graph(config, output)
    at_once = serve(apply)
    rows = [{name: [values[i]] for name, values in apply.items()} for i in range(_length(apply))]
    one_by_one = [serve(row) for row in rows]
    assert expected.keys() - at_once.keys() <= {"label", "example_weight", "row_id"}
    for name in expected.keys() & at_once.keys():
        _assert_equal(at_once[name], expected[name], f"{name} in the saved graph", tolerance)
        _assert_equal([row[name][0] for row in one_by_one], expected[name], f"{name} row by row", tolerance)
    _assert_finite(serve({name: [None, None] for name in apply}))
    return Analysed(output, applied)


def _analyze_and_apply(
    config: Any, analyze: dict[str, list], apply: dict[str, list], directory: Path, base_model: dict[str, Any]
) -> tuple[Any, dict[str, list]]:
    from fullpass.preprocessing.analysis.analyze import analyze_table
    from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
    from fullpass.preprocessing.apply.stable_ids import BaseModelRef
    from fullpass.preprocessing.apply.transform_batches import BatchTransformer
    from fullpass.preprocessing.columns.raw_schema import raw_schema

    half = (_length(analyze) + 1) // 2
    halves = [{name: values[part] for name, values in analyze.items()} for part in (slice(half), slice(half, None))]
    batches = [_record_batch(config, rows) for rows in halves if _length(rows)]
    output = analyze_table(config, batches, str(directory), base_model=BaseModelRef(**base_model))
    transform = BatchTransformer(output, adapter_of(raw_schema(config)))
    applied = transform(_record_batch(config, apply)).to_pydict()
    shapes = {name: getattr(feature, "shape", None) for name, feature in output.transformed_feature_spec().items()}
    return output, {name: [row[0] if shapes[name] == [] else row for row in applied[name]] for name in shapes}


def _saved_graph(config: Any, output: Any) -> Callable[[dict[str, list]], dict[str, list]]:
    """Returns the function that applies the saved graph as a server does: to the columns of a request, no label."""
    import tensorflow as tf

    from fullpass.preprocessing.apply.column_tensors import raw_feature_spec

    dtypes = {name: feature.dtype for name, feature in raw_feature_spec(config, serving=True).items()}
    specs = {name: tf.SparseTensorSpec([None, None], dtype) for name, dtype in dtypes.items()}
    # Called eagerly, TF Transform's layer would prune the graph again for every request.
    graph = tf.function(output.transform_features_layer(), input_signature=[specs], autograph=False)

    def serve(rows: dict[str, list]) -> dict[str, list]:
        missing = [None] * _length(rows)
        results = graph({name: _sparse(rows.get(name, missing), dtype) for name, dtype in dtypes.items()})
        return {
            name: _ragged(value) if isinstance(value, tf.SparseTensor) else value.numpy().tolist()
            for name, value in results.items()
        }

    return serve


def _assert_promises(config: Any, output: Any, applied: dict[str, list]) -> None:
    """Asserts dtype, shape and domain of every transformed feature against `outputs(config)`."""
    import tensorflow as tf

    from fullpass.preprocessing.columns.outputs import outputs

    spec = output.transformed_feature_spec()
    promised = outputs(config)
    weights = {o.weights for o in promised if o.weights}
    if promised:
        assert {o.name for o in promised} | weights | {"label", "example_weight", "row_id"} == spec.keys()
    for o in promised:
        feature = spec[o.name]
        assert feature.dtype == (tf.float32 if o.kind == "dense" else tf.int64), o.name
        most = 3 if o.image else o.kind == "dense" or o.multi
        assert isinstance(feature, tf.io.VarLenFeature) or len(feature.shape) <= most
        assert o.multi or isinstance(feature, tf.io.FixedLenFeature), o.name
        if o.kind == "ids":
            # A ragged row has no padding, except for the missing elements of a sequence.
            lowest = 0 if hasattr(feature, "shape") or o.sequence is not None else 1
            _assert_ids(output.num_buckets_for_transformed_feature(o.name), applied[o.name], lowest)
    for name in weights:
        assert spec[name] == tf.io.VarLenFeature(tf.float32)


def _shape_images(config: Any, applied: dict[str, list]) -> None:
    """Reshapes pixels, which an example holds as a flat list."""
    from fullpass.preprocessing.columns.outputs import outputs

    for o in outputs(config):
        if o.image is not None:
            applied[o.name] = [np.reshape(row, o.image.shape).tolist() for row in applied[o.name]]


def _assert_ids(size: int, rows: list, lowest: int) -> None:
    ids = [i for row in rows for i in (row if isinstance(row, list) else [row])]
    assert all(lowest <= i < size for i in ids), (ids, size)


def _assert_equal(received: list, expected: list, what: str, tolerance: float) -> None:
    assert len(received) == len(expected), f"{what}: {received} is not {expected}"
    for row, (a, b) in enumerate(zip(received, expected, strict=True)):
        assert np.shape(a) == np.shape(b), f"{what}, row {row}: {a} is not {b}"
        assert np.allclose(a, b, rtol=tolerance, atol=tolerance), f"{what}, row {row}: {a} is not {b}"


def _assert_finite(applied: dict[str, list]) -> None:
    for name, rows in applied.items():
        for row in rows:
            assert isinstance(row, bytes) or np.all(np.isfinite(row)), f"{name} of a missing example: {row}"


def _length(rows: dict[str, list]) -> int:
    return len(next(iter(rows.values())))


def _cells(values: list) -> list[list]:
    """Returns every cell as a list of values; None becomes an empty list."""
    listed = [v if isinstance(v, list) else [] if v is None else [v] for v in values]
    return [[v.encode() if isinstance(v, str) else v for v in cell] for cell in listed]


def _record_batch(config: Any, rows: dict[str, list]) -> Any:
    import pyarrow as pa

    from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
    from fullpass.preprocessing.columns.raw_schema import raw_schema

    schema = adapter_of(raw_schema(config)).arrow_schema
    cells = [_cells(rows.get(field.name, [None] * _length(rows))) for field in schema]
    arrays = [pa.array(values, field.type) for values, field in zip(cells, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sparse(values: list, dtype: Any) -> Any:
    import tensorflow as tf

    cells = _cells(values)
    indices = [[row, position] for row, cell in enumerate(cells) for position in range(len(cell))]
    flat = [value for cell in cells for value in cell]
    return tf.SparseTensor(
        tf.constant(indices, tf.int64, shape=[len(indices), 2]),
        tf.constant(flat, dtype, shape=[len(flat)]),
        [len(cells), max(map(len, cells), default=0)],
    )


def _ragged(sparse: Any) -> list[list]:
    rows: list[list] = [[] for _ in range(int(sparse.dense_shape[0]))]
    for (row, _), value in zip(sparse.indices.numpy(), sparse.values.numpy(), strict=True):
        rows[row].append(value.item())
    return rows
