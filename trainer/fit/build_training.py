"""Builds a network with everything that an update of its weights needs.

Trainer, Tuner and `fullpass diagnose` call `build_training`, so that a diagnosis measures the model that trains.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import keras
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.fit.optimizer import learning_rate_of, make_optimizer, peak_learning_rate
from fullpass.trainer.fit.steps import Blend, FineTunedVariable, Steps
from fullpass.trainer.fit.strategy import needs_fixed_shapes, precision, use_xla
from fullpass.trainer.fit.warm_start import BaseExport, WeightOrigin, initialize_from, keep_encodings
from fullpass.trainer.input.placement import InModel, placement_of, refuse_text, with_preprocessing
from fullpass.trainer.models import image_encoders
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import ModelInput, model_inputs, same_shapes, transformed_outputs
from fullpass.trainer.models.networks import build_network
from fullpass.trainer.models.train_statistics import TrainStatistics
from fullpass.trainer.models.weight_semantics import Network


@dataclass(frozen=True)
class BuiltTraining:
    """A model with everything that its updates need.

    Attributes:
        network: Reads transformed features only; its weights are those of the model.
        steps: The updates and the evaluation of the model, compiled according to the section `training:`.
        fixed_shapes: Whether every batch must have the same shape, because every new shape would be recompiled.
        weight_origins: How a warm start initialized each weight; empty for a cold start.
    """

    network: Network
    steps: Steps
    fixed_shapes: bool
    precision: str
    weight_origins: tuple[WeightOrigin, ...] = ()

    @property
    def model(self) -> keras.Model:
        """The model, which maps batches to logits."""
        return self.steps.model


def build_training(
    spec: TrainingSpec,
    train: TrainStatistics,
    in_model: InModel | None,
    *,
    updates: int,
    strategy: tf.distribute.Strategy,
    base: BaseExport | None = None,
) -> BuiltTraining:
    """Builds model, optimizer, loss and compile options of a training; the seed determines the initial weights.

    Args:
        train: Statistics that determine the initial logits, their unit, and the knots of numbers.
        in_model: Computes the features that are computed in the model; None without any.
        updates: The number of all updates of the training, over which the learning rate decays.
        base: The export that initializes the weights; None for a cold start.

    Raises:
        UserError: The model would process text with XLA or on a TPU.
    """
    training, task = spec.config.training, spec.preprocessing.label.task
    features = transformed_outputs(spec.preprocessing, spec.tft_output)
    if training.xla is True or needs_fixed_shapes(strategy):
        refuse_text(placement_of(spec.preprocessing, features), "XLA" if training.xla is True else "a TPU")
    keras.utils.set_random_seed(training.seed)
    with strategy.scope(), precision(training) as policy:
        inputs = model_inputs(
            keep_encodings(features, base), spec.tft_output, train.knots, training.mask_rate, train.moments
        )
        network = build_network(spec, train, inputs)
        weight_origins = tuple(initialize_from(base, network, spec.tft_output.transform_savedmodel_dir)) if base else ()
        model = with_preprocessing(network.model, in_model)
        table = base is None and _reads_a_table(inputs)
        peak = peak_learning_rate(training, strategy.num_replicas_in_sync, table=table)
        rate = learning_rate_of(training, updates, peak)
        optimizer = make_optimizer(training, rate, policy)
        optimizer.build(model.trainable_variables)
    xla = use_xla(training, strategy, in_model is None and same_shapes(network.inputs))
    steps = Steps(
        model=model,
        optimizer=optimizer,
        loss=loss_of(
            task,
            training.loss,
            label_smoothing=training.label_smoothing,
            label_deviation=train.counts.error_unit,
        ),
        task=task,
        strategy=strategy,
        accumulate=training.accumulate,
        xla=xla,
        rate=rate,
        blend=_blend_of(network.inputs, training.seed),
        declared=training.loss,
        clip_norm=training.clip_norm,
        fine_tuned=_fine_tuned_of(network, updates // training.max_epochs, strategy),
    )
    return BuiltTraining(network, steps, xla or needs_fixed_shapes(strategy), policy, weight_origins)


def _reads_a_table(inputs: Mapping[str, ModelInput]) -> bool:
    """Whether all inputs are numbers and single categories."""
    outputs = [item.output for item in inputs.values()]
    return all(output.kind != "image" and not output.multi for output in outputs)


def _blend_of(inputs: Mapping[str, ModelInput], seed: int) -> Blend | None:
    images = [item for item in inputs.values() if item.output.image is not None]
    alpha = max(
        (i.output.image.augment.mixup for i in images if i.output.image and i.output.image.augment), default=0.0
    )
    return Blend(tuple(item.keras_input.name for item in images), alpha, seed) if alpha else None


def _fine_tuned_of(
    network: Network, epoch_updates: int, strategy: tf.distribute.Strategy
) -> dict[int, FineTunedVariable]:
    """Returns the fine-tuned variables by id.

    Raises:
        UserError: Training uses several devices, which have copies of these variables.
    """
    images = {item.name: item.output.image for item in network.inputs.values() if item.output.image is not None}
    fine_tuned = image_encoders.fine_tuned_variables(network.model, images)
    if fine_tuned and strategy.num_replicas_in_sync > 1:
        raise UserError(
            "encoder.pretrained.train: fine_tune trains on one device. Set training.distribution: one_device, or "
            "train: frozen."
        )
    return {
        key: FineTunedVariable(config.frozen_epochs * max(1, epoch_updates), config.fine_tune_rate)
        for key, config in fine_tuned.items()
    }
