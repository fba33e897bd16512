"""Counts how long a network of a table learns, so that a bound on it does not depend on the machine."""

from collections.abc import Mapping

from fullpass.trainer.config import DeepNetwork
from fullpass.trainer.models.model_inputs import NUMBER_WIDTH, ModelInput, embedding_width, encodes_one_hot

_UPDATE, _INPUT, _WEIGHT = 0.8e-3, 14e-6, 2.4e-9
"""Seconds of an update on two cores of 2024: of any, of each input, and of each weight, all of which Adam reads."""
_PRODUCT = 1.6e-10
"""Seconds in which a row passes a weight of the first hidden layer, and its gradient returns."""


def epoch_seconds(
    inputs: Mapping[str, ModelInput], config: DeepNetwork, *, outputs: int, rows: int, updates: int
) -> float:
    """Returns about how long an epoch takes.

    Example: 44 numbers and 39 categories, 47 updates of 32 rows: 0.1 s.

    Args:
        outputs: The columns of the output, for which the wide part has a weight of each id.
        rows: The rows of the epoch.
        updates: The updates of the epoch.
    """
    columns = tables = 0
    for item in inputs.values():
        of_ids = item.output.kind == "ids"
        embedded = embedding_width(item) if of_ids and not encodes_one_hot(item) else 0
        columns += embedded or (item.size if of_ids else item.width * (NUMBER_WIDTH + 1))
        tables += item.size * (outputs + embedded)
    kernel = columns * config.hidden[0]
    return updates * (_UPDATE + _INPUT * len(inputs) + _WEIGHT * (kernel + tables)) + rows * kernel * _PRODUCT
