"""Plans the models that `model: auto` tries: about how long each learns, by count, and what bounds it.

Work is counted, not timed, so that the same data trains the same models on any machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fullpass.trainer.config import ModelConfig, TrainingSpec, Trees, auto_network
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.linear.fit_linear import linear_seconds
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs
from fullpass.trainer.models.network_work import epoch_seconds
from fullpass.trainer.models.tasks import logit_names
from fullpass.trainer.trees.work import Work

_NETWORK_SECONDS = 60.0
"""Seconds that the network may learn."""
_USUAL_EPOCHS, _FEWEST_EPOCHS = 30, 10
"""Epochs of a network that the estimate assumes, and the fewest."""


@dataclass(frozen=True)
class Planned:
    """A model to try.

    Attributes:
        kind: `trees`, `wide_deep` or `linear`.
        model: Its section of the YAML; None for a linear model, which is fitted exactly.
        about: About how many processor seconds it takes.
        most: The most that it takes.
        most_epochs: The epochs, given or bounded, after which it has taken them; 0 for a linear model.
    """

    kind: str
    model: ModelConfig | None
    about: float
    most: float
    most_epochs: int = 0


def plan_models(data: TrainingData, spec: TrainingSpec, work: Work) -> list[Planned]:
    """Returns the models in the order in which they are tried.

    Trees are left out if they take too long, a linear model if it has too many weights or its loss is not exact.

    Args:
        work: What the growth of trees costs.
    """
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    outputs = len(logit_names(spec.preprocessing.label.task, data.statistics.names, spec.config.training.loss))
    rows, network = data.train.counts.weighted_rows, auto_network(data.train.counts.weighted_rows)
    epoch = epoch_seconds(inputs, network, outputs=outputs, rows=rows, updates=data.steps_per_epoch)
    training = spec.config.training
    grown = epochs = training.goes_on_to
    if training.epochs == "auto":
        grown, epochs = min(grown, work.bounded_epochs), min(epochs, max(_FEWEST_EPOCHS, int(_NETWORK_SECONDS / epoch)))
    trees = Planned("trees", Trees(kind="trees"), *work.seconds_expected(grown), grown)
    found = [] if work.too_long else [trees]
    found.append(Planned(network.kind, network, epoch * min(_USUAL_EPOCHS, epochs), epoch * epochs, epochs))
    linear = linear_seconds(inputs, outputs) if training.loss.linear else 0.0
    return [*found, Planned("linear", None, linear, linear)] if linear else found


def plan_words(plan: Sequence[Planned]) -> str:
    """Returns which models are tried, and how long that takes.

    Example:
        >>> plan_words([Planned("trees", None, 9.8, 90.0), Planned("linear", None, 0.4, 0.4)])
        'tries trees and linear in about 10 s of processor, at most 90 s'
    """
    *others, last = (one.kind for one in plan)
    kinds = f"{', '.join(others)} and {last}" if others else last
    about, most = sum(one.about for one in plan), sum(one.most for one in plan)
    return f"tries {kinds} in about {about:.0f} s of processor, at most {most:.0f} s"
