"""Finds and loads an exported model, with what its description says of the rows that it was trained on."""

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.push.push import SERVING
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.export.export_files import DESCRIPTION, LOOKUPS, SERVING_RAW, column_of, verify_export
from fullpass.trainer.input.raw_tensors import dense_shape, missing_value, to_request


@dataclass(frozen=True)
class TrainingRows:
    """How the rows of training were read and completed.

    Attributes:
        source: The keys of `data.source`, without the location of the data.
        joins: Join -> its keys of `data.joins`, without the location of the table.
        lookups: Joined tables that the model contains.
        events: The histories, with the derived and raw columns of their events (`events_of_serving`).
        most_bad: Largest share of unusable rows of a joined table, or of events.
        dates: Raw column -> the formats in which features read its dates.
    """

    source: Mapping[str, Any]
    joins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lookups: Collection[str] = ()
    events: Mapping[str, Any] = field(default_factory=dict)
    most_bad: float = 0.0
    dates: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Exported:
    """A loaded export.

    Attributes:
        directory: Folder of the SavedModel.
        predict: The signature `serving_raw`.
        columns: Raw columns that the signature reads.
        keys: Raw column -> name of its input.
        classes: Class names; empty for regression.
        levels: Levels of the quantiles that a regression predicts; empty if it predicts none.
        training: How the rows of training were read.
    """

    directory: Path
    predict: Callable[..., Mapping[str, tf.Tensor]]
    columns: Mapping[str, RawColumn]
    keys: Mapping[str, str]
    classes: Sequence[str]
    levels: Sequence[float]
    training: TrainingRows

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the model's outputs; absent columns count as missing in every row."""
        request = to_request(inputs, self.columns, self.keys)
        return {name: tensor.numpy() for name, tensor in self.predict(**request).items()}

    def warm_up(self) -> None:
        """Predicts a row whose columns are all missing: TensorFlow prepares a graph when it first runs."""
        self.outputs(
            {
                name: np.full([1, *(width or 1 for width in dense_shape(column)[1:])], missing_value(column).numpy())
                for name, column in self.columns.items()
            }
        )


def export_folder(path: Path) -> Path:
    """Returns the folder of a SavedModel: `path` itself, that of a run's model in it, or its newest numbered version.

    Raises:
        UserError: There is no SavedModel.
    """
    if not path.is_dir():
        raise UserError(
            f"{path}: no such folder. A run pushes its model if it is blessed; for one that is not, give the folder "
            "that the run printed."
        )
    for folder in (path, path / SERVING):
        if (folder / "saved_model.pb").is_file():
            return folder
    versions = [v for v in path.iterdir() if v.name.isdigit() and (v / "saved_model.pb").is_file()]
    if not versions:
        raise UserError(
            f"{path}: no model. Expected a saved_model.pb in it, or folders named by version (1, 2 ...) that have one."
        )
    return max(versions, key=lambda version: int(version.name))


def describe_export(path: Path) -> tuple[Path, dict[str, Any]]:
    """Returns the folder of the export at `path`, or of the newest version in it, and its description.

    Raises:
        UserError: There is no export, it was not written by Fullpass, or its description is damaged.
    """
    directory = export_folder(path)
    if not (directory / DESCRIPTION).is_file():
        raise UserError(f"{directory}: a SavedModel that Fullpass did not write: it has no {DESCRIPTION}.")
    found = state_file.read(directory / DESCRIPTION, "Put it back from a copy of the model, or use another version.")
    if "run_fn" in found:
        raise UserError(
            f"{directory}: a model of {found['run_fn']}, which takes serialized tf.Examples only. TensorFlow Serving "
            "serves it, and BulkInferrer of TFX predicts with it."
        )
    return directory, {**found, "source": {"format": "csv", **found["source"]}}


def load_signatures(directory: Path) -> Callable[..., Mapping[str, tf.Tensor]]:
    """Loads a SavedModel, and returns what calls one of its signatures: by name, with its inputs as keywords."""
    # The loaded object must outlive its signatures, which do not keep the variables alive.
    loaded = [tf.saved_model.load(str(directory))]

    def call(signature: str, /, **inputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return loaded[0].signatures[signature](**inputs)

    # Also at the end of the process: TensorFlow prints an error for each function that is left when Python clears it.
    weakref.finalize(call, loaded.clear)
    return call


def load_export(path: Path) -> Exported:
    """Loads the export at `path`, or the newest version in it.

    Raises:
        UserError: There is no export, it was not written by Fullpass, or it is damaged.
    """
    directory, description = describe_export(path)
    verify_export(str(directory))
    told = {name: description[name] for name in ("source", "joins", LOOKUPS, "events", "dates") if name in description}
    return Exported(
        directory=directory,
        predict=partial(load_signatures(directory), SERVING_RAW),
        columns={c["name"]: column_of(c) for c in description["columns"]},
        keys={c["name"]: c["key"] for c in description["columns"]},
        classes=description["classes"],
        levels=description["levels"],
        training=TrainingRows(**told, most_bad=description.get("bad_rows", 0.0)),
    )
