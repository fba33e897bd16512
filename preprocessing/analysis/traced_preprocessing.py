"""Traces the preprocessing function once and derives its analyzers, their cache keys and inputs, and its graph.

TF Transform traces the function six or seven times per analysis, and each trace takes about a second. Here one trace
serves the analysis and the graph: its constants and tables replace those with which it was traced.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorAdapter, TensorAdapterConfig, TFExampleBeamRecord

from fullpass.preprocessing.analysis.accumulators import Accumulator, accumulator_of
from fullpass.preprocessing.analysis.finalize import CannotFinalize, Finalizer, can_finalize
from fullpass.preprocessing.apply.stable_ids import NO_BASE_MODEL, BaseModelRef
from fullpass.preprocessing.apply.token_table import TRACED_TABLES, TracedTable
from fullpass.preprocessing.apply.transform_graph import operations_behind, source_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.tf_internals import copied_part, prune
from fullpass.preprocessing.internals.tft_internals import (
    METADATA_DIR_NAME,
    DatasetMetadata,
    TFGraphContext,
    analyzer_nodes,
    annotators,
    get_structured_inputs,
    graph_tools,
    hashable_tensor_or_op,
    infer_feature_schema,
    nodes,
    trace_and_update_module,
    write_metadata,
)
from fullpass.preprocessing.preprocessing_fn import preprocessing_fn

Tensors = Mapping[str, tf.Tensor | tf.SparseTensor]
_TRACING = Lock()
"""Serializes tracing: it uses global variables of TF Transform, and a Beam worker on a cluster has several threads."""


@dataclass(frozen=True)
class ComputeInputs:
    """Computes the input tensors of accumulators from batches.

    Attributes:
        columns: Names of the raw columns that the tensors are computed from.
        compute: Batch of these columns -> tensors by name.
        tables: The tables that it looks up, which would be freed otherwise.
    """

    columns: tuple[str, ...]
    compute: Callable[[Tensors], Mapping[str, tf.Tensor]]
    tables: Sequence[Any] = ()

    def __call__(self, batch: Tensors) -> dict[str, np.ndarray]:
        """Returns the tensors of a batch. The batch may hold more columns than needed."""
        computed = self.compute({name: batch[name] for name in self.columns})
        return {name: value.numpy() for name, value in computed.items()}


@dataclass(frozen=True)
class PreprocessingFunction:
    """The preprocessing function of a config, in a form that can be pickled and sent to workers.

    preprocessing: the config as JSON. schema: serialized schema of the raw examples. temporary: folder for temporary
    files of tracing and analysis. base_model: the base model of the stable ids.
    """

    preprocessing: str
    schema: bytes
    temporary: str
    base_model: BaseModelRef = NO_BASE_MODEL

    def __call__(self, inputs: Any) -> dict[str, tf.Tensor | tf.SparseTensor]:
        """Returns the transformed features of a batch."""
        config = {"preprocessing": json.loads(self.preprocessing), "base_model": asdict(self.base_model)}
        return preprocessing_fn(inputs, config)

    @property
    def adapter(self) -> TensorAdapterConfig:
        """The configuration that converts RecordBatches to tensors."""
        return adapter_of(schema_pb2.Schema.FromString(self.schema))


def adapter_of(schema: schema_pb2.Schema) -> TensorAdapterConfig:
    """Returns the configuration that converts RecordBatches of raw examples to tensors."""
    records = TFExampleBeamRecord(physical_format="tfrecord", telemetry_descriptors=["Fullpass"], schema=schema)
    return records.TensorAdapterConfig()


def trace(function: PreprocessingFunction) -> "Traced":
    """Returns the traced function. It is traced once per process. Thread-safe."""
    with _TRACING:
        return _traced(function)


@lru_cache(maxsize=1)
def _traced(function: PreprocessingFunction) -> "Traced":
    return Traced(function)


class Traced:
    """A traced preprocessing function.

    Attributes:
        phases: Accumulators of its analyzers, one tuple per pass over the rows. Analyzers of a later phase depend on
            constants or vocabularies of earlier phases. None if an analyzer needs all rows at once, or if one needs the
            vocabulary of another in a function of the user's; TF Transform itself analyzes such a function.
    """

    def __init__(self, function: PreprocessingFunction):
        self._function = function
        # A function of the user's may do with its files what it likes.
        self._has_users_code = bool(PreprocessingConfig.model_validate_json(function.preprocessing).functions)
        self._specs = TensorAdapter(function.adapter).OriginalTypeSpecs()
        self._owners = annotators.ObjectTracker(), tf.Module()  # These keep the tables of the graph alive.
        tracker, module = self._owners
        context = TFGraphContext(module_to_export=module, temp_dir=function.temporary, evaluated_replacements=None)
        with annotators.object_tracker_scope(tracker):
            self._outputs: dict[str, Any] = {}
            self._traced = self._in_context(context, self._outputs).get_concrete_function()
        self._graph = self._traced.graph
        self._inputs = get_structured_inputs(self._graph)
        self._sinks = list(self._graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS))
        self._sinks_of_phases: list[list[Any]] = []
        self._keys: dict[str, bytes] = {}
        self.phases = self._phases()

    @property
    def assets(self) -> dict[str, str]:
        """Maps each named asset to its file name."""
        return annotators.get_asset_annotations(self._graph)

    def compute_inputs(self, accumulators: Sequence[Accumulator], constants: Mapping[str, np.ndarray]) -> ComputeInputs:
        """Returns the function that computes the input tensors of accumulators from a batch.

        Args:
            constants: What it needs of earlier phases, from `constants`.
        """
        names = sorted({name for one in accumulators for name in one.tensors})
        fetches = {name: self._graph.get_tensor_by_name(name) for name in names}
        columns = source_columns(fetches, self._inputs) or tuple(self._inputs)[:1]
        feeds = [t for name in columns for t in _flat(self._inputs[name])]
        known = {name: tf.constant(constants[name], self._graph.get_tensor_by_name(name).dtype) for name in constants}
        tables = [one for one in self._tables() if one.paths and all(path.name in known for path in one.paths)]
        filled, replaced = self._fill(tables, known)
        pruned = prune(self._graph, feeds, fetches, known | replaced)

        def compute(batch: Tensors) -> dict[str, tf.Tensor]:
            return pruned(*[t for name in columns for t in _flat(batch[name])])

        return ComputeInputs(columns, compute, filled)

    def constants(self, states: Mapping[bytes, Any], before: int) -> dict[str, np.ndarray]:
        """Returns what the phase `before` may need of the earlier phases: name of the replaced tensor -> value.

        These are all numbers, and the paths of those vocabularies that it does need, which are written for it.
        """
        traverser = nodes.Traverser(self._finalizer(states))
        tensors = [self._graph.get_tensor_by_name(name) for one in (self.phases or ())[before] for name in one.tensors]
        needed = operations_behind(tensors)
        sinks = [sink for phase in self._sinks_of_phases[:before] for sink in phase]
        wanted = [sink for sink in sinks if not sink.is_asset_filepath or sink.tensor.op.name in needed]
        return {str(sink.tensor.name): np.asarray(traverser.visit_value_node(sink.future)) for sink in wanted}

    def _in_context(self, context: TFGraphContext, outputs: dict[str, Any]) -> Any:
        """Returns the function as a tf.function that is traced in a context of TF Transform, into `outputs` as well."""

        def in_context(inputs: Any) -> Tensors:
            with context:
                outputs.update(self._function(inputs))
            return dict(outputs)

        return tf.function(in_context, input_signature=[self._specs], autograph=False)

    def write(self, states: Mapping[bytes, Any], folder: str) -> tf.Module:
        """Writes the graph with the finalized states as its constants: a SavedModel with the schema inside.

        Args:
            states: Key of each accumulator -> its state over all rows.
            folder: Output folder; it must not exist yet.

        Returns:
            The graph as if it were loaded; its tables are filled, but their files may be gone.
        """
        traverser = nodes.Traverser(self._finalizer(states))
        constants = {}
        for tensor, future, _ in self._sinks:
            constants[str(tensor.name)] = tf.constant(traverser.visit_value_node(future), tensor.dtype)
        module = tf.Module()
        finish = self._trace_again if self._has_users_code else self._replace
        finished = finish(module, constants)
        tf.saved_model.save(module, folder, signatures={})
        # TF Transform traces the function once more for the schema. That is not needed here, because the domains that
        # transforms set are computed by this graph as well.
        schema = infer_feature_schema(finished.outputs, finished.graph, finished)
        write_metadata(DatasetMetadata(schema), f"{folder}/{METADATA_DIR_NAME}")
        return module

    def _replace(self, module: tf.Module, constants: Mapping[str, tf.Tensor]) -> "_Finished":
        """Sets the transform function of a module: the traced graph with constants and tables of the analysis."""
        module.assets = [tf.saved_model.Asset(constants[t.name]) for t, _, is_path in self._sinks if is_path]
        # The graph needs no path: its tables are filled outside of it.
        replaced = {t.name: tf.constant("") if is_path else constants[t.name] for t, _, is_path in self._sinks}
        module.tables, of_tables = self._fill(self._tables(), constants)
        replaced |= of_tables
        compute = copied_part(self._graph, _flat(self._inputs), self._outputs, replaced)

        def transform(inputs: Any) -> Tensors:
            results: Tensors = compute(*_flat(inputs))
            for result, tensor in zip(_flat(results), _flat(self._outputs), strict=True):
                result.set_shape(tensor.shape)  # a copy lacks the shapes that only Python knows
            return results

        function = tf.function(transform, input_signature=[self._specs], autograph=False)
        module.transform_fn = function.get_concrete_function()
        return _Finished(self._graph, self._outputs, replaced)

    def _tables(self) -> list[TracedTable]:
        return list(self._graph.get_collection(TRACED_TABLES))

    def _fill(
        self, tables: Sequence[TracedTable], paths: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.lookup.StaticHashTable], dict[str, tf.Tensor]]:
        """Returns filled tables, and name of a tensor of the graph -> what replaces it so that it looks them up.

        Args:
            paths: Name of a tensor that stands for the path of a file -> the path, eager.
        """
        filled, handles, replaced = [], {}, {}
        for traced in tables:
            table, sizes = traced.fill([paths[path.name] for path in traced.paths])
            filled.append(table)
            handles[id(traced.handle)] = table.resource_handle
            for highest, first in traced.highest:
                replaced[highest.name] = tf.constant([size + first for size in sizes], tf.int64)
        for outer, inner in self._graph.captures:
            if outer.dtype == tf.resource and id(outer) in handles:
                replaced[inner.name] = handles[id(outer)]
        return filled, replaced

    def _trace_again(self, module: tf.Module, constants: Mapping[str, tf.Tensor]) -> "_Finished":
        """Sets the transform function of a module by a trace with the constants."""
        context = TFGraphContext(
            module_to_export=module, temp_dir=self._function.temporary, evaluated_replacements=dict(constants)
        )
        outputs: dict[str, Any] = {}
        traced = self._in_context(context, outputs)
        with _TRACING:
            graph = trace_and_update_module(module, traced, "transform_fn", strip_control_dependencies=False).graph
        if left := graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS):
            raise RuntimeError(f"The second trace of the preprocessing function has other analyzers: {left}.")
        return _Finished(graph, outputs, {})

    def _finalizer(self, states: Mapping[bytes, Any]) -> Finalizer:
        known = {label: states[key] for label, key in self._keys.items() if key in states}
        return Finalizer(known, self._function.temporary)

    def _phases(self) -> tuple[tuple[Accumulator, ...], ...] | None:
        phases: list[tuple[Accumulator, ...]] = []
        left = self._sinks
        while left:
            reached, found = self._next_phase(left)
            if not reached:
                return None
            self._sinks_of_phases.append(reached)
            self._keys |= {label: one.key for label, one in found.items()}
            phases.append(tuple(found[label] for label in sorted(found)))
            left = [sink for sink in left if not any(sink is other for other in reached)]
        return tuple(phases)

    def _next_phase(self, left: Sequence[Any]) -> tuple[list[Any], dict[str, Accumulator]]:
        """Returns the sinks that depend only on earlier phases, and their accumulators; nothing if one needs Beam."""
        done = [sink for phase in self._sinks_of_phases for sink in phase]
        known = {id(sink) for sink in done if not (sink.is_asset_filepath and self._has_users_code)}
        ready = [(hashable_tensor_or_op(sink.tensor), id(sink) in known) for sink in self._sinks]
        paths = graph_tools.InitializableGraphAnalyzer(
            self._graph, self._inputs, ready, graph_tools.describe_path_as_analyzer_cache_hash
        )
        reached: list[Any] = []
        found: dict[str, Accumulator] = {}
        for sink in left:
            find = _FindAccumulators(paths, self._function.temporary, later=bool(self._sinks_of_phases))
            try:
                nodes.Traverser(find).visit_value_node(sink.future)
            except _NotReady:
                continue
            except CannotFinalize:
                return [], {}
            reached.append(sink)
            found |= {label: one for label, one in find.found.items() if label not in self._keys}
        return reached, found


def _flat(tensors: Any) -> list[tf.Tensor]:
    return tf.nest.flatten(tensors, expand_composites=True)


@dataclass(frozen=True)
class _Finished:
    """A traced graph with the constants that an analysis found, by name of the tensor that each replaces.

    It is a session for TF Transform: computes tensors that depend on none of the graph's inputs.
    """

    graph: Any
    outputs: Mapping[str, Any]
    constants: Mapping[str, tf.Tensor]

    def run(self, fetches: Any) -> Any:
        """Returns the values of tensors, in the same structure."""
        if isinstance(fetches, Mapping):
            return dict(zip(fetches, self.run(list(fetches.values())), strict=True))
        flat = tf.nest.flatten(fetches)
        symbolic = [tensor for tensor in flat if tf.is_symbolic_tensor(tensor)]
        computed = iter(prune(self.graph, [], symbolic, self.constants)() if symbolic else ())
        values = [next(computed) if tf.is_symbolic_tensor(tensor) else tensor for tensor in flat]
        return tf.nest.pack_sequence_as(fetches, [value.numpy() for value in values])


class _NotReady(Exception):
    """An analyzer depends on constants of another analyzer that are not computed yet."""


class _FindAccumulators(nodes.Visitor):
    """Finds the accumulator of every analyzer. The value of a node is its source tensors; None after an accumulator.

    Args:
        later: Whether there are constants of earlier phases.
    """

    def __init__(self, paths: graph_tools.InitializableGraphAnalyzer, folder: str, *, later: bool):
        self._paths = paths
        self._folder = folder
        self._later = later
        self.found: dict[str, Accumulator] = {}

    def visit(self, operation_def: nodes.OperationDef, input_values: Sequence[Any]) -> tuple[Any, ...]:
        if isinstance(operation_def, analyzer_nodes.TensorSource):
            if not all(self._paths.ready_to_run(tensor) for tensor in operation_def.tensors):
                raise _NotReady
            return (tuple(operation_def.tensors),)
        tensors = input_values[0] if input_values else None
        if tensors is not None:
            names = tuple(str(tensor.name) for tensor in tensors)
            accumulator = accumulator_of(operation_def, self._key(operation_def, tensors), names, self._folder)
            if accumulator is None:
                raise CannotFinalize(type(operation_def).__name__)
            self.found[operation_def.label] = accumulator
        elif not can_finalize(operation_def):
            raise CannotFinalize(type(operation_def).__name__)
        return (None,) * operation_def.num_outputs

    def _key(self, operation: Any, tensors: Sequence[tf.Tensor]) -> bytes:
        """Returns a digest of everything the state depends on: the operation, and the graph up to its input tensors.

        The digest omits names of tensors. It includes the name of the analyzer, which encodes the accuracy of a sketch.
        The key of an analyzer that depends on constants of others is valid only within this trace, because the graph
        does not show which constants these are.
        """
        if self._later:
            return f"later: {operation.label}".encode()
        fields = [f"{field}={operation.get_field_str(field)}" for field in operation._fields]
        digest = hashlib.sha256("\n".join([type(operation).__name__, *fields]).encode())
        for tensor in tensors:
            digest.update(self._paths.get_unique_path(tensor))
        return digest.hexdigest().encode()

    def validate_value(self, value: Any) -> None:
        """Accepts every value."""
