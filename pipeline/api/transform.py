"""The transform of a pipeline's features, with the statistics of rows in memory: what `Pipeline.analyze` returns."""

import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.pages import notebook_html as html
from fullpass.pipeline.api.frames import Rows, as_arrow, like
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, vocabulary_name
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.values.raw_batches import raw_batches


class Transform:
    """The transform of a pipeline's features, with the statistics of an analyzed table; `analyze` returns it.

    Example:
        >>> rows = {"fare": [1.0, 3.0], "company": ["Acme", "Blue"], "tipped": [0, 1]}
        >>> fullpass.load("pipeline.yaml").analyze(rows).vocabulary("company")
        ['Blue', 'Acme']

    Attributes:
        folder: Folder of the transform graph, in the layout of TensorFlow Transform's `TFTransformOutput`.
    """

    def __init__(self, pipeline: Loaded, rows: Rows, folder: Path | str | None = None):
        """Analyzes rows; see `analyze`."""
        from fullpass.pipeline.running.tfx_components import with_absolute_files
        from fullpass.preprocessing.analysis.analyze import analyze_table

        self._config = with_absolute_files(pipeline.config.preprocessing_config, pipeline.resolve)
        self._text = pipeline.config.data.source.raw_text
        self._scratch = None if folder else tempfile.TemporaryDirectory(prefix="fullpass-transform-")
        self.folder = Path(folder) if folder else Path(self._scratch.name, "graph")  # type: ignore[union-attr]
        batches = list(raw_batches(self._config, self._table(rows), self._text))
        self._graph = analyze_table(self._config, batches, str(self.folder))
        self._transformers: dict[bool, Any] = {}
        # TensorFlow prints an error for each function that is left when Python clears its modules.
        weakref.finalize(self, self._transformers.clear)

    def __call__(self, rows: Rows) -> Any:
        """Returns the transformed features of rows, and the label if the rows have it.

        The result is a pandas or polars DataFrame if the rows are one (with the index of pandas), else an Arrow table.
        A feature with one value per row is a column of values. A vector is a column of fixed-size lists. A feature of
        variable length is a column of lists.

        Raises:
            UserError: A column is absent, a value does not fit the type of its column, or there are no rows.
        """
        return like(rows, self._transformed(rows))

    def _table(self, rows: Rows) -> pa.Table:
        from fullpass.components.ingest.readers.tables import with_fields

        return with_fields(as_arrow(rows), raw_columns(self._config))

    def _transformed(self, rows: Rows) -> pa.Table:
        table = self._table(rows)
        transformer = self._transformer(labelled=raw_columns(self._config).keys() <= set(table.column_names))
        widths = {f.name: [d.size for d in f.shape.dim] for f in transformer.schema.feature if f.HasField("shape")}
        batches = [transformer(batch) for batch in raw_batches(self._config, table, self._text, serving=True)]
        if not batches:
            raise UserError("The table has no rows.")
        transformed = pa.Table.from_batches(batches)
        names = transformed.column_names
        return pa.table({name: _plain(transformed[name].combine_chunks(), widths.get(name)) for name in names})

    def _repr_html_(self) -> str:
        from tensorflow_metadata.proto.v0.schema_pb2 import FeatureType

        schema = self._transformer(labelled=False).schema
        shown = [(column.name, FeatureType.Name(column.type).lower()) for column in schema.feature]
        return html.block("Transform", html.facts([("folder", self.folder)]), html.table(("feature", "type"), shown))

    def numpy(self, rows: Rows) -> dict[str, np.ndarray]:
        """Returns the transformed features as arrays: [rows], [rows, width], or [rows] of arrays of variable length."""
        arrays, table = {}, self._transformed(rows)
        for name in table.column_names:
            column = table[name].combine_chunks()
            if pa.types.is_fixed_size_list(column.type):
                arrays[name] = column.flatten().to_numpy().reshape(len(column), -1)
            else:
                arrays[name] = column.to_numpy(zero_copy_only=False)
        return arrays

    def vocabulary(self, feature: str) -> list[str]:
        """Returns the learned vocabulary of a feature or a cross, in id order.

        Raises:
            UserError: The feature learns no vocabulary.
        """
        name = vocabulary_name(self._config.vocabulary_owner(feature))
        if not Path(self._graph.vocabulary_file_by_name(name) or "").is_file():
            raise UserError(f"feature {feature!r} learns no vocabulary from the data.")
        return [token.decode("utf-8", "backslashreplace") for token in self._graph.vocabulary_by_name(name)]

    def _transformer(self, *, labelled: bool) -> Any:
        from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
        from fullpass.preprocessing.apply.transform_batches import BatchTransformer
        from fullpass.preprocessing.columns.raw_schema import raw_schema

        if labelled not in self._transformers:
            without = [EXAMPLE_WEIGHT, ROW_ID, *([] if labelled else [LABEL])]
            adapter = adapter_of(raw_schema(self._config))
            self._transformers[labelled] = BatchTransformer(self._graph, adapter, without=without)
        return self._transformers[labelled]


def _plain(column: pa.Array, shape: list[int] | None) -> pa.Array:
    """Returns a column of lists as a column of values or fixed-size lists, if the feature has a fixed shape."""
    if shape is None:
        return column
    return pa.FixedSizeListArray.from_arrays(column.flatten(), shape[0]) if shape else column.flatten()
