"""A version of a served model: its signatures, called with NumPy arrays and with TensorFlow alone."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google.protobuf
import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from fullpass.components.predict.exported import describe_export, load_signatures
from fullpass.components.serving.rest import Signatures
from fullpass.components.serving.tensors import Input
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.export.export_files import EXTRA, SERVING_DEFAULT, column_of, verify_export

WARM_UP = f"{EXTRA}/tf_serving_warmup_requests"
"""File with calls that TensorFlow Serving makes before it serves a version."""
_ALL_FIELDS = (
    "including_default_value_fields"
    if google.protobuf.__version__.startswith("4.")
    else "always_print_fields_with_no_presence"
)


@dataclass(frozen=True)
class ServedModel:
    """A loaded version.

    Attributes:
        version: Its number.
        name: The pipeline that trained it.
        signatures: The inputs of its signatures.
        methods: Signature -> the name of its method, which says whether it predicts, classifies or regresses.
        metadata: Its signatures as the REST API shows them.
        columns: Raw column -> its description.
        personal: Raw columns with data of persons.
        keys: Raw column -> its input in `serving_raw`.
        is_regression: Whether it predicts numbers.
    """

    version: int
    name: str
    signatures: Signatures
    methods: Mapping[str, str]
    metadata: Mapping[str, Any]
    columns: Mapping[str, RawColumn]
    personal: Collection[str]
    keys: Mapping[str, str]
    is_regression: bool
    _call: Callable[..., Mapping[str, tf.Tensor]]

    def outputs(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature.

        Raises:
            tf.errors.OpError: The model refuses the inputs, or fails.
        """
        dtypes = {"O": tf.string}
        tensors = {key: tf.constant(array, dtypes.get(array.dtype.kind)) for key, array in inputs.items()}
        return {key: tensor.numpy() for key, tensor in self._call(signature, **tensors).items()}


def load_version(folder: Path) -> ServedModel:
    """Loads a pushed version, and answers its sample requests: TensorFlow prepares a graph when it first runs.

    Raises:
        UserError: Fullpass did not write it, or it is damaged.
    """
    _, description = describe_export(folder)
    verify_export(str(folder))
    [graph] = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs
    definitions = dict(graph.signature_def)
    model = ServedModel(
        version=int(folder.name),
        name=description["name"],
        signatures={name: _inputs(one) for name, one in definitions.items() if not name.startswith("__")},
        methods={name: one.method_name for name, one in definitions.items()},
        metadata={name: _described(one) for name, one in sorted(definitions.items())},
        columns={column["name"]: column_of(column) for column in description["columns"]},
        personal=description.get("personal", ()),
        keys={column["name"]: column["key"] for column in description["columns"]},
        is_regression=description["task"] == "regression",
        _call=load_signatures(folder),
    )
    for record in tf.data.TFRecordDataset(str(folder / WARM_UP)).as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        model.outputs(request.model_spec.signature_name or SERVING_DEFAULT, inputs)
    return model


def _inputs(definition: Any) -> dict[str, Input]:
    return {
        key: Input(
            np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype),
            [size if size >= 0 else None for size in (dim.size for dim in info.tensor_shape.dim)],
            key in definition.defaults,
        )
        for key, info in definition.inputs.items()
    }


def _described(definition: Any) -> dict[str, Any]:
    return MessageToDict(definition, preserving_proto_field_name=True, **{_ALL_FIELDS: True})
