"""Reads TFX's FnArgs once, for the Trainer and for the Tuner."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tensorflow_transform as tft

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import VALIDATION, TrainerConfig, TrainingSpec
from fullpass.trainer.records.record_files import has_files, list_files

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs


@dataclass(frozen=True)
class TrainingInputs:
    """The parsed FnArgs of the Trainer or the Tuner.

    Attributes:
        spec: The configuration of the training, with the hyperparameters that a Tuner found.
        serving_model_dir: The folder of the export; "" for the Tuner.
        model_run_dir: The folder of training.json and of TensorBoard's logs; "" for the Tuner.
        base_model: The folder of the last blessed model, None without one.
        hyperparameters: The values that a Tuner found, by path in the YAML; empty without one.
        custom: `custom_config`, unchanged. It contains `preprocessing` and `trainer`, the dumps of PreprocessingConfig
            and TrainerConfig; `name` of the pipeline; `source`, how the raw data is read; `work`, the folder of
            unfinished work; `made_from`, the digest of the model's inputs; `tuning`, a dumped TuningConfig; `folds`,
            whether train rows may be cut into folds, because the splits were cut row by row.
    """

    spec: TrainingSpec
    train_files: tuple[str, ...]
    eval_files: tuple[str, ...]
    transform_output: str
    serving_model_dir: str
    model_run_dir: str
    base_model: str | None
    hyperparameters: Mapping[str, Any]
    custom: Mapping[str, Any]

    @property
    def validation_files(self) -> tuple[str, ...]:
        """The files of the split validation, beside those of train; empty if the data has none."""
        beside = [file.replace("/Split-train/", f"/Split-{VALIDATION}/") for file in self.train_files]
        patterns = [new for new, file in zip(beside, self.train_files, strict=True) if new != file]
        return tuple(list_files(patterns, VALIDATION)) if any(map(has_files, patterns)) else ()

    def files(self) -> list[str]:
        """Returns the files of all splits."""
        of_two = [*list_files(self.train_files, "train"), *list_files(self.eval_files, "eval")]
        return [*of_two, *self.validation_files]


def parse_fn_args(
    fn_args: "FnArgs", hyperparameters: Mapping[str, Any] = MappingProxyType({}), **sections: Mapping[str, Any]
) -> TrainingInputs:
    """Returns the parsed FnArgs of TFX's Trainer or Tuner.

    Args:
        hyperparameters: The values that a Tuner found, by path in the YAML.
        **sections: `trainer` and `preprocessing` with these values, in place of those of `custom_config`.

    Raises:
        ValidationError: `custom_config` was not written by this version.
    """
    custom = fn_args.custom_config
    given = {**custom, **sections}
    transform_output = getattr(fn_args, "transform_output", None) or fn_args.transform_graph_path
    return TrainingInputs(
        spec=TrainingSpec(
            preprocessing=PreprocessingConfig.model_validate(given["preprocessing"]),
            config=TrainerConfig.model_validate(given["trainer"]),
            tft_output=tft.TFTransformOutput(transform_output),
        ),
        train_files=tuple(fn_args.train_files or ()),
        eval_files=tuple(fn_args.eval_files or ()),
        transform_output=transform_output,
        serving_model_dir=getattr(fn_args, "serving_model_dir", None) or "",
        model_run_dir=getattr(fn_args, "model_run_dir", None) or "",
        base_model=getattr(fn_args, "base_model", None),
        hyperparameters=hyperparameters,
        custom=custom,
    )
