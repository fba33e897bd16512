"""Builds a user-defined model by its import path."""

from collections.abc import Mapping

import keras
import numpy as np

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.user_modules import import_function, own_code
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import Module
from fullpass.trainer.models.model_inputs import ModelInput, apply_model, keras_inputs

_SHOWN = 6
"""Inputs that an error names at most."""
_ROWS = 32
"""Rows of the trial."""
_LIST = 4
"""Ids of each list in it."""
_PIXEL = 256
"""Values of a pixel."""
_FAR = 10.0
"""Deviation of its numbers, larger than that of features, whose deviation is 1."""


def build(inputs: Mapping[str, ModelInput], classes: int, config: Module, task: Task) -> keras.Model:
    """Returns the user-defined model that maps `inputs` to logits float32 [batch, classes].

    Raises:
        UserError: There is no such function, or its result is not a suitable model.
    """
    with prefix_errors("model.function"):
        function = import_function(config.function)
    with own_code(config.function, _shapes(inputs)):
        model = function(dict(inputs), task, classes, dict(config.options))
    _check(config.function, model, inputs, classes)
    if task != "regression" and _outputs_probabilities(model, inputs):
        raise UserError(
            f"{config.function}: the model outputs probabilities: whatever its weights and inputs, all outputs are "
            "from 0 to 1. It must output logits, because the loss and the export apply the sigmoid or softmax "
            "themselves. Remove the sigmoid or softmax from the end of the model, such as `activation=` of its last "
            "Dense layer."
        )
    return model


def _shapes(inputs: Mapping[str, ModelInput]) -> str:
    """Returns the shapes of the inputs, as text: most layers need two dimensions, but a number or an id has one."""
    shapes = [f"{item.keras_input.name} {item.keras_input.dtype} {item.keras_input.shape}" for item in inputs.values()]
    more = ", ..." if len(shapes) > _SHOWN else ""
    return (
        f"The `keras_input`s are {', '.join(shapes[:_SHOWN])}{more}; `encode(inputs)` makes each float32 [batch, width]"
    )


def _outputs_probabilities(model: keras.Model, inputs: Mapping[str, ModelInput]) -> bool:
    """Returns whether all outputs are from 0 to 1 for random inputs and random weights, and are not all 0.

    So a sigmoid or softmax is found wherever it is: in a layer, in a nested or subclassed model, or in an operation.
    The weights are then restored.
    """
    drawn = np.random.default_rng(0)
    weights = [variable.numpy() for variable in model.trainable_variables]
    try:
        for variable in model.trainable_variables:
            variable.assign(drawn.normal(0.0, 1.0, variable.shape))
        logits = np.asarray(apply_model(model, _random_rows(model, inputs, drawn), training=False), np.float64)
    finally:
        for variable, value in zip(model.trainable_variables, weights, strict=True):
            variable.assign(value)
    return bool(np.all((logits >= 0) & (logits <= 1)) and logits.any())


def _random_rows(
    model: keras.Model, inputs: Mapping[str, ModelInput], drawn: np.random.Generator
) -> dict[str, np.ndarray]:
    """Returns values of the inputs of a model for some rows, by name."""
    sizes = {item.keras_input.name: item.size for item in inputs.values()}
    rows = {}
    for tensor in model.inputs:
        shape = (_ROWS, *(_LIST if width is None else width for width in tensor.shape[1:]))
        whole = keras.backend.is_int_dtype(tensor.dtype)
        most = sizes.get(tensor.name) or _PIXEL
        values = drawn.integers(0, most, shape) if whole else _FAR * drawn.normal(size=shape)
        rows[tensor.name] = values.astype(tensor.dtype)
    return rows


def _check(path: str, model: object, inputs: Mapping[str, ModelInput], classes: int) -> None:
    if not isinstance(model, keras.Model):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise UserError(f"{path} must return a keras.Model (Keras {keras.version()}). Received: {kind}.")
    unknown = sorted({tensor.name for tensor in model.inputs} - set(keras_inputs(inputs)))
    if unknown:
        raise UserError(
            f"{path}: the inputs of the model must be the `keras_input`s given. Received others: {', '.join(unknown)}."
        )
    outputs = model.outputs
    if len(outputs) != 1 or tuple(outputs[0].shape) != (None, classes):
        shapes = ", ".join(str(tuple(o.shape)) for o in outputs)
        raise UserError(
            f"{path}: the model must output logits of shape (None, {classes}), one column per class (one for binary "
            f"and regression, one per level of quantiles). Received: {shapes}."
        )
