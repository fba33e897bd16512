"""Builds the network of the section `model:`."""

from collections.abc import Mapping

import keras

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import Dcn, Linear, Mlp, ModelConfig, Module, TrainingSpec, Trees, TreesOrNetwork, WideDeep
from fullpass.trainer.models import dcn, linear, mlp, user_model, wide_deep
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.tasks import add_head, logit_names
from fullpass.trainer.models.train_statistics import TrainStatistics
from fullpass.trainer.models.weight_semantics import Network


def build_network(spec: TrainingSpec, train: TrainStatistics, inputs: Mapping[str, ModelInput]) -> Network:
    """Returns the network of the section `model:` with its head, which is initialized from the labels of train."""
    task, loss = spec.preprocessing.label.task, spec.config.training.loss
    names = logit_names(task, train.names, loss)
    model = build_model(inputs, task=task, classes=len(names), config=spec.config.model)
    model = add_head(model, task, train.counts, train.factors, loss)
    return Network(model, inputs, spec.preprocessing, names if any(names) else ())


def build_model(inputs: Mapping[str, ModelInput], *, task: Task, classes: int, config: ModelConfig) -> keras.Model:
    """Returns an uncompiled model that maps `inputs` to logits float32 [batch, classes].

    Args:
        inputs: The inputs by name of transformed feature.
        task: The task of the label.
        classes: The columns of the logits: 1 for binary and regression, one per level for quantiles.
        config: The section `model:`; for `kind: auto` the network is built.
    """
    match config:
        case Linear():
            return linear.build(inputs, classes, config)
        case Mlp():
            return mlp.build(inputs, classes, config)
        case WideDeep():
            return wide_deep.build(inputs, classes, config)
        case Dcn():
            return dcn.build(inputs, classes, config)
        case Module():
            return user_model.build(inputs, classes, config, task)
        case TreesOrNetwork():
            return wide_deep.build(inputs, classes, WideDeep(kind="wide_deep"))
        case Trees():
            raise TypeError("trees are grown (trainer/trees/), not built")
