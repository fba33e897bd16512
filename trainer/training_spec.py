"""The specification of a training, without its rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import TrainerConfig

if TYPE_CHECKING:
    import tensorflow_transform as tft


@dataclass(frozen=True)
class TrainingSpec:
    """The sections of the YAML that define a training, and the transform graph.

    Attributes:
        preprocessing: Declares the features and the label.
        config: The sections `model:`, `training:` and `input:`.
        tft_output: The transform graph's output.
    """

    preprocessing: PreprocessingConfig
    config: TrainerConfig
    tft_output: "tft.TFTransformOutput"
