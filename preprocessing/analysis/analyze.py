"""The full-pass analysis of raw RecordBatches: accumulate, merge, finalize, write the transform graph.

`analyze_table` runs all steps in this process. The Transform component runs the same steps on Beam, one file at a time;
see `components/transform/analyze_spans.py`.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tfx_bsl.public.tfxio import TensorAdapter

from fullpass.preprocessing.analysis.accumulators import Accumulator, EncodedStates
from fullpass.preprocessing.analysis.traced_preprocessing import PreprocessingFunction, Tensors, trace
from fullpass.preprocessing.apply.stable_ids import NO_BASE_MODEL, BaseModelRef
from fullpass.preprocessing.apply.transform_graph import WRITTEN
from fullpass.preprocessing.columns.raw_columns import RAW_TRAIN_ROW, row_columns
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.preprocessing.internals.tft_internals import METADATA_DIR_NAME, DatasetMetadata, write_metadata
from fullpass.preprocessing.values.raw_batches import as_train_rows


def analyze_table(
    config: PreprocessingConfig,
    batches: Sequence[pa.RecordBatch],
    graph: str,
    *,
    base_model: BaseModelRef = NO_BASE_MODEL,
) -> tft.TFTransformOutput:
    """Analyzes rows in memory, in this process, and writes the transform graph.

    The graph equals the one that a pipeline run writes for the same rows of the train split. Beam's direct runner is
    used only for a user-defined function with an analyzer that needs all rows at once or another's vocabulary.

    Args:
        batches: The rows of the train split, in the layout of `raw_batches`; read once for each phase of analyzers.
        graph: Output folder of the transform graph; it must not exist yet.

    Returns:
        The transform graph.

    Raises:
        UserError: A feature cannot be built; the message begins with its YAML path.

    Example:
        `graph = analyze_table(config, list(raw_batches(config, table)), "graph")`, then
        `BatchTransformer(graph, adapter_of(raw_schema(config)))` transforms batches.
    """
    schema = raw_schema(config)
    if RAW_TRAIN_ROW in row_columns(config):
        batches = list(map(as_train_rows, batches))
    with tempfile.TemporaryDirectory() as temporary:
        function = PreprocessingFunction(config.model_dump_json(), schema.SerializeToString(), temporary, base_model)
        phases = trace(function).phases
        if phases is None:
            with local_pipeline() as pipeline:
                analyze_on_beam(pipeline | beam.Create(list(batches)), function, graph)
        else:
            states: dict[bytes, Any] = {}
            for index, accumulators in enumerate(phases):
                constants = trace(function).constants(states, index)
                tensors = map(TensorAdapter(function.adapter).ToBatchTensors, batches)
                encoded = BatchAccumulator(function, accumulators, constants).accumulate(tensors)
                states |= merge_states(accumulators, [encoded] if encoded else [])
            write_graph(function, states, graph)
    write_metadata(DatasetMetadata(schema), f"{graph}/metadata")
    return tft.TFTransformOutput(graph)


class BatchAccumulator:
    """Accumulates batches of raw columns for the analyzers of one phase.

    Args:
        constants: The constants of earlier phases, from `Traced.constants`.

    Attributes:
        columns: Names of the raw columns that the analyzers read.
    """

    def __init__(
        self, function: PreprocessingFunction, accumulators: Sequence[Accumulator], constants: Mapping[str, np.ndarray]
    ):
        self._accumulators = accumulators
        self._inputs = trace(function).compute_inputs(accumulators, constants)
        self.columns = self._inputs.columns

    def accumulate(self, batches: Iterable[Tensors]) -> EncodedStates:
        """Returns the encoded state of each accumulator over the batches; an empty dict if there is no batch."""
        states = [one.start() for one in self._accumulators]
        empty = True
        for batch in batches:
            inputs = self._inputs(batch)
            empty = False
            for index, one in enumerate(self._accumulators):
                states[index] = one.add(states[index], tuple(inputs[name] for name in one.tensors))
        if empty:
            return {}
        return {one.key: one.encode(state) for one, state in zip(self._accumulators, states, strict=True)}


def merge_states(accumulators: Iterable[Accumulator], parts: Sequence[EncodedStates]) -> dict[bytes, Any]:
    """Returns the state of each accumulator over all parts of the rows, by key."""
    return {
        one.key: one.merge([one.decode(encoded[one.key]) for encoded in parts]) if parts else one.start()
        for one in accumulators
    }


def write_graph(function: PreprocessingFunction, states: Mapping[bytes, Any], graph: str) -> None:
    """Finalizes the states and writes the transform graph into the two folders that TF Transform reads.

    Args:
        states: Key of each accumulator -> its state over all rows.
    """
    pending = f"{graph}/pending"
    if tf.io.gfile.exists(pending):
        tf.io.gfile.rmtree(pending)
    traced = trace(function)
    written = traced.write(states, pending)
    if traced.assets:
        with tf.io.gfile.GFile(f"{pending}/{METADATA_DIR_NAME}/{tft.TFTransformOutput.ASSET_MAP}", "w") as file:
            file.write(json.dumps(traced.assets))
    metadata = f"{graph}/{tft.TFTransformOutput.TRANSFORMED_METADATA_DIR}"
    tf.io.gfile.rename(f"{pending}/{METADATA_DIR_NAME}", metadata, overwrite=True)
    folder = f"{graph}/{tft.TFTransformOutput.TRANSFORM_FN_DIR}"
    tf.io.gfile.rename(pending, folder, overwrite=True)
    WRITTEN.clear()
    WRITTEN[folder] = written


def analyze_on_beam(batches: beam.PCollection, function: PreprocessingFunction, graph: str) -> beam.PCollection:
    """Writes the transform graph with TF Transform's own analysis, which supports every analyzer.

    It is for functions whose `phases` in `trace` are None: an analyzer of the user's needs the vocabulary of another
    analyzer, or is a Beam transform of its own.

    Returns:
        The path of the graph, emitted once the graph is written.
    """
    with tft_beam.Context(temp_dir=function.temporary):
        analyzed = (batches, function.adapter) | "Analyze" >> tft_beam.AnalyzeDataset(function)
        written = analyzed | "WriteGraph" >> tft_beam.WriteTransformFn(graph)
    return written | "Folder" >> beam.Map(lambda _: graph)
