"""Builds a user-defined model by its import path."""

from collections.abc import Callable, Mapping

import keras

from fullpass.preprocessing.errors import UserError, did_you_mean
from fullpass.preprocessing.features.label import Task
from fullpass.preprocessing.user_modules import import_user_module
from fullpass.trainer.config import Module
from fullpass.trainer.models.model_inputs import ModelInput, keras_inputs


def build(inputs: Mapping[str, ModelInput], classes: int, config: Module, task: Task) -> keras.Model:
    """Returns the user-defined model that maps `inputs` to logits float32 [batch, classes].

    Raises:
        UserError: There is no such function, or its result is not a suitable model.
    """
    model = _function(config.function)(dict(inputs), task, classes, dict(config.options))
    _check(config.function, model, inputs, classes)
    return model


def _function(path: str) -> Callable[..., keras.Model]:
    module_name, _, name = path.partition(":")
    try:
        module = import_user_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UserError(
            f"model.function: no module {module_name!r}. It must be importable where the pipeline runs: put it beside "
            "the YAML, or install it."
        ) from error
    if not hasattr(module, name):
        raise UserError(f"model.function: {module_name} has no {name!r}.{did_you_mean(name, vars(module))}")
    return getattr(module, name)


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
