"""Writes an export again with other joined tables: the transform graph and the weights stay as they are."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from fullpass.base import state_file
from fullpass.preprocessing.apply.transform_graph import concrete_function
from fullpass.preprocessing.columns.outputs import input_name
from fullpass.trainer.export.export_files import (
    DESCRIPTION,
    EXTRA,
    FILES,
    LOOKUPS,
    ORIGIN,
    SERVING_DEFAULT,
    SERVING_FEATURES,
    SERVING_RAW,
    TRANSFORM_FEATURES,
    column_of,
    listed_files,
    read_description,
)
from fullpass.trainer.export.joined_tables import JoinedTable
from fullpass.trainer.export.signatures import completed, request_signatures
from fullpass.trainer.input.decoder import as_pixels
from fullpass.trainer.input.raw_tensors import to_sparse
from fullpass.trainer.records.blocks import dense


class OpenExport:
    """A loaded export, behind its tables.

    Attributes:
        folder: Folder of the SavedModel.
        description: Its `fullpass.json`.
        columns: Raw columns of a request, and those of the tables.
        lookups: Joined table -> its keys, columns, number of rows and digest.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.description: dict[str, Any] = dict(read_description(str(folder)) or {})
        self.lookups: dict[str, Any] = self.description.get(LOOKUPS, {})
        self.request = {c["name"]: column_of(c) for c in self.description["columns"]}
        of_tables = [column_of(column) for table in self.lookups.values() for column in table["columns"]]
        self.columns = {column.name: column for column in of_tables} | self.request
        self.loaded = tf.saved_model.load(str(folder))
        self._transform = concrete_function(self.loaded.transform)
        sparse = self._transform.structured_input_signature[0][0]
        self.spec = {name: tf.io.VarLenFeature(value.dtype) for name, value in sparse.items()}
        self._predict = tf.function(self._of_raw, autograph=False, input_signature=[sparse])

    def predict(self, columns: Mapping[str, tf.Tensor], rows: int) -> dict[str, tf.Tensor]:
        """Returns the answers for dense columns, those of the tables included; absent columns are missing."""
        batch = tf.constant(rows, tf.int64)
        return dict(self._predict(completed((), to_sparse(columns, batch), self.spec, batch)))

    def _of_raw(self, raw: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        transformed = {input_name(name): value for name, value in self.loaded.transform.transform_fn(raw).items()}
        features = [feature["name"] for feature in self.description["features"]]
        return self.loaded.serving_features(*(as_pixels(dense(transformed[name])) for name in features))

    def write(self, folder: Path, tables: Sequence[JoinedTable]) -> None:
        """Writes the export with other tables into a new folder, under a temporary name that is then renamed."""
        pending = folder.with_name(f"{folder.name}.tmp")
        module, loaded = tf.Module(), self.loaded
        module.transform, module.weights, module.tables = loaded.transform, loaded.weights, list(tables)
        module.serving_features, module.transform_features = loaded.serving_features, loaded.transform_features
        module.labels = loaded.labels
        module.serving_default, module.serving_raw = request_signatures(self.request, tables, self.spec, self._predict)
        signatures = {name: loaded.signatures[name] for name in (SERVING_FEATURES, TRANSFORM_FEATURES)}
        signatures |= {SERVING_DEFAULT: module.serving_default, SERVING_RAW: module.serving_raw}
        tf.saved_model.save(module, str(pending), signatures=signatures)
        shutil.copytree(self.folder / EXTRA, pending / EXTRA)
        (pending / DESCRIPTION).unlink()
        described = {**self.description, LOOKUPS: {table.name: table.described() for table in tables}}
        (pending / ORIGIN).unlink(missing_ok=True)
        state_file.write(pending / DESCRIPTION, described | {FILES: listed_files(str(pending))}, indent=2)
        pending.rename(folder)
