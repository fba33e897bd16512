"""The signatures of the export, as TensorFlow functions over the transform graph and the model.

`serving_default(examples)`: string [batch] of serialized tf.Examples; label and training-only columns may be absent.
`serving_raw(**columns)`: one tensor per raw column that features read, by its key in `column_keys`:
    number float32 [batch], NaN for missing; string [batch], "" for missing; vector float32 [batch, width], a row of
    NaN for missing. A column of length 0 is missing in every row; this is the default of every column. Columns may
    therefore be omitted in `loaded.serving_raw(...)` in Python and in TF Serving's gRPC Predict
    (SignatureDef.defaults). Over its REST API an omitted column is an empty list in the columnar form
    `{"inputs": {"fare": []}}`. `loaded.signatures["serving_raw"]` requires all columns.
`serving_features(**features)`: one tensor per transformed feature that the network reads, by its key in
    `feature_keys`, in the form in which `transform_features` returns it.
`transform_features(examples)`: the transformed features, label, weight, row number and span of raw examples.

The loaded export also has the function `labels(examples)`, which returns only the label, weight, row number and span of
`transform_features`. It is separate because a signature computes all of its outputs, even those that are not used.

The serving signatures return:
    scores: the input of metrics. binary: float32 [batch], the probability of class 1. multiclass, multilabel: float32
        [batch, classes]. regression: float32 [batch], the predicted value.
    prediction: string [batch], the likeliest class, or the positive class if its probability is above the threshold of
        `evaluation.decision`; for a multilabel task all classes with a probability of at least
        0.5, joined by the label's separator; regression: float32 [batch].
    probabilities, classes: float32 and string [batch, classes], per class; not for regression.
    quantiles, levels: float32 [batch, levels], the quantiles in rising order, and the share of the labels of which each
        quantile is the upper bound; only for a regression with `loss: quantile`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.transform_graph import TransformGraph, missing_column, raw_row_count
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN, feature_names, input_name
from fullpass.preprocessing.columns.raw_columns import ROW_BITS, SPAN_FILE_BITS, RawColumn, request_columns
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.internals.tf_internals import saving
from fullpass.preprocessing.list_text import list_text
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.export.eval_scores import scores_of
from fullpass.trainer.export.export_files import SERVING_DEFAULT, SERVING_FEATURES, SERVING_RAW, TRANSFORM_FEATURES
from fullpass.trainer.export.joined_tables import JoinedTable
from fullpass.trainer.input.decoder import as_pixels, with_dense_label
from fullpass.trainer.input.raw_tensors import DTYPES, dense_shape, empty_column, names_by_dtype, to_sparse
from fullpass.trainer.loss_config import levels_of
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.records.blocks import dense, without_gaps


@dataclass(frozen=True)
class Served:
    """The network, graph and names from which an export is built.

    Attributes:
        tft_output: The transform graph, with the specs of its inputs and outputs.
        names: The class names in id order; empty for regression.
        levels: The levels of the quantiles that a regression returns; empty without any.
        threshold: The probability above which class 1 is predicted, float32 []; None predicts the likeliest class.
        tables: The joined tables that the export contains.
    """

    network: Network
    tft_output: tft.TFTransformOutput
    columns: Mapping[str, RawColumn]
    features: Sequence[str]
    label: Label
    names: tuple[str, ...]
    levels: tuple[float, ...] = ()
    threshold: tf.Variable | None = None
    tables: Sequence[JoinedTable] = ()


@dataclass(frozen=True)
class TracedExport:
    """A module that holds everything the signatures use, and the traced signatures by name.

    They read the weights, the corrections of the head and the threshold that the variables have when they are called.
    """

    served: Served
    module: tf.Module
    signatures: Mapping[str, Callable[..., dict[str, tf.Tensor]]]


def served_model(
    spec: TrainingSpec,
    network: Network,
    names: tuple[str, ...],
    tables: Sequence[JoinedTable] = (),
    threshold: tf.Variable | None = None,
) -> Served:
    """Returns the parts of an export of a network."""
    return Served(
        network=network,
        tft_output=spec.tft_output,
        columns=request_columns(spec.preprocessing),
        tables=tables,
        features=feature_names(transformed_outputs(spec.preprocessing, spec.tft_output)),
        label=spec.preprocessing.label,
        names=names,
        levels=levels_of(spec.config.training.loss),
        threshold=threshold,
    )


def feature_keys(model: keras.Model) -> dict[str, str]:
    """Returns, per Keras input of a network, the name of its input in `serving_features`."""
    return column_keys([tensor.name for tensor in model.inputs])


def trace_export(served: Served) -> TracedExport:
    """Traces the signatures of an export."""
    spec = served.tft_output.raw_feature_spec()
    graph = TransformGraph(served.tft_output.transform_savedmodel_dir)
    saved = graph.saved
    sparse = {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}

    module = tf.Module()
    module.serving_features = _serving_features(served)

    @tf.function(autograph=False, input_signature=[sparse])
    def predict(raw: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        transformed = saved.transform_fn(raw)
        inputs = {input_name(name): as_pixels(dense(transformed[name])) for name in served.features}
        return module.serving_features(*(inputs[tensor.name] for tensor in served.network.model.inputs))

    # Tracks the transform graph's tables and files and the variables. TensorFlow cannot revive Keras objects.
    module.transform = saved
    module.tables = list(served.tables)
    module.weights = [variable.value for variable in served.network.model.variables]
    module.heads = [number for head in _heads(served.network.model) for number in head.numbers]
    module.threshold = served.threshold
    part = graph.part([LABEL, EXAMPLE_WEIGHT, ROW_ID])
    module.serving_default, module.serving_raw = request_signatures(served.columns, served.tables, spec, predict)
    module.transform_features = _of_examples(spec, lambda raw: _block(served, saved.transform_fn(raw)))
    module.labels = _of_examples({name: spec[name] for name in part.columns}, lambda raw: _block(served, part(raw)))
    names = (SERVING_DEFAULT, SERVING_RAW, SERVING_FEATURES, TRANSFORM_FEATURES)
    signatures = {name: getattr(module, name) for name in names}
    with saving():
        for function in (*signatures.values(), module.labels):
            function.get_concrete_function()
    return TracedExport(served, module, signatures)


def _heads(model: keras.Model) -> Iterator[Affine]:
    """Yields the heads of a network and of those that it blends."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _heads(layer)
        elif isinstance(layer, Affine):
            yield layer


def _of_examples(
    spec: Mapping[str, tf.io.VarLenFeature], compute: Callable[[Mapping[str, tf.SparseTensor]], dict[str, tf.Tensor]]
) -> Callable:
    """Returns the signature that applies `compute` to these raw columns of serialized examples."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def of_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return compute(tf.io.parse_example(examples, spec))

    return of_examples


def request_signatures(
    columns: Mapping[str, RawColumn],
    tables: Sequence[JoinedTable],
    spec: Mapping[str, tf.io.VarLenFeature],
    predict: Callable,
) -> tuple[Callable, Callable]:
    """Returns `serving_default` and `serving_raw`.

    Args:
        columns: Raw columns of a request.
        tables: Tables in which further columns are looked up.
        spec: The columns that `predict` takes, as sparse tensors.
    """
    known = {name: spec[name] for name in columns}
    default = _of_examples(known, lambda raw: predict(completed(tables, raw, spec, raw_row_count(raw))))
    keys = column_keys(tuple(columns))
    absent = {name: tf.constant(empty_column(c), DTYPES[c.type]) for name, c in columns.items()}

    def serving_raw(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        given = dict(zip(columns, values, strict=True))
        batch = _common_length(given)
        return predict(completed(tables, to_sparse(given, batch), spec, batch))

    # The defaults end up in SignatureDef.defaults, which TF Serving fills in for inputs that a gRPC request lacks.
    parameters = [
        inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=absent[name])
        for name, key in keys.items()
    ]
    serving_raw.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    specs = [tf.TensorSpec(dense_shape(c), DTYPES[c.type], name=keys[name]) for name, c in columns.items()]
    return default, tf.function(serving_raw, autograph=False, input_signature=specs)


def _serving_features(served: Served) -> Callable:
    model = served.network.model
    keys = feature_keys(model)

    def serving_features(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        return _outputs(served, served.network.logits(dict(zip(keys, values, strict=True))))

    parameters = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD) for key in keys.values()]
    serving_features.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    specs = [tf.TensorSpec(t.shape, t.dtype, name=keys[t.name]) for t in model.inputs]
    return tf.function(serving_features, autograph=False, input_signature=specs)


def _block(served: Served, transformed: Mapping[str, tf.Tensor | tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Returns outputs of the transform graph, which include label and row number, as dense tensors, plus the span."""
    block = with_dense_label({name: without_gaps(v) for name, v in transformed.items()}, len(served.names))
    span = tf.bitwise.right_shift(block[ROW_ID], tf.constant(ROW_BITS + SPAN_FILE_BITS, tf.int64))
    return {name: as_pixels(dense(value)) for name, value in block.items()} | {SPAN: span}


def _outputs(served: Served, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    task = served.label.task
    if task == "regression":
        scores = scores_of(task, logits)
        found = {"scores": scores, "prediction": scores}
        if served.levels:
            found["quantiles"] = logits[:, 1:]
            found["levels"] = tf.broadcast_to(tf.constant(served.levels, tf.float32), tf.shape(found["quantiles"]))
        return found
    probabilities = probabilities_of(task, logits)
    names = tf.constant(served.names)
    if task == "multilabel":
        chosen, counts = tf.where(probabilities >= 0.5)[:, 1], tf.math.count_nonzero(probabilities >= 0.5, axis=1)
        chosen = tf.RaggedTensor.from_row_lengths(tf.gather(names, chosen), counts, validate=False)
        prediction = tf.strings.reduce_join(chosen, axis=-1, separator=list_text(served.label.separator).joined_by)
    elif served.threshold is not None:
        prediction = tf.gather(names, tf.cast(probabilities[:, 1] > served.threshold, tf.int32))
    else:
        prediction = tf.gather(names, tf.argmax(probabilities, axis=1))
    return {
        "scores": scores_of(task, logits),
        "prediction": prediction,
        "probabilities": probabilities,
        "classes": tf.broadcast_to(names, tf.shape(probabilities)),
    }


def completed(
    tables: Sequence[JoinedTable],
    raw: Mapping[str, tf.SparseTensor],
    spec: Mapping[str, tf.io.VarLenFeature],
    batch: tf.Tensor,
) -> dict[str, tf.SparseTensor]:
    """Returns `raw` with every input column of the transform graph: absent columns are missing in every row.

    Columns of joined tables are looked up; a table may have a column of one above it as its key.
    """
    for table in tables:
        raw = {**raw, **table.look_up(raw, batch)}
    return {name: raw[name] if name in raw else missing_column(batch, f.dtype) for name, f in spec.items()}


def _common_length(values: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the number of rows of the longest column, int64 []; other columns must have as many rows, or none."""
    shapes: dict[str, tf.Tensor] = {}
    for names in names_by_dtype(values):
        shapes |= zip(names, tf.shape_n([values[name] for name in names], tf.int64), strict=True)
    # A rank-1 column has no other dimension, so no slice operation is needed.
    lengths = tf.concat([shapes[n] if value.shape.rank == 1 else shapes[n][:1] for n, value in values.items()], 0)
    longest = tf.reduce_max(lengths)
    message = f"columns differ in length; give all the same number of rows, or none. Rows of {', '.join(values)}:"
    fits = tf.debugging.Assert(tf.reduce_all((lengths == longest) | (lengths == 0)), [message, lengths], summarize=-1)
    with tf.control_dependencies([fits]):
        return tf.identity(longest)
