"""What Fullpass uses of TFX beyond its documented interface, `tfx.v1`: name -> module, by reason.

`tests/components/internals/test_tfx_internals.py` fails first if another version differs. A name is imported on first
use, because a command that reads metadata needs a few constants, and the launcher takes seconds to import.

Nothing here is known to become public up to TFX 1.16, the last release.
"""

import importlib
from typing import Any

_DECLARE = {
    "base_beam_component": "tfx.dsl.components.base",
    "base_beam_executor": "tfx.dsl.components.base",
    "base_component": "tfx.dsl.components.base",
    "base_executor": "tfx.dsl.components.base",
    "base_node": "tfx.dsl.components.base",
    "component_spec": "tfx.types",
    "executor_spec": "tfx.dsl.components.base",
}
"""Components with an executor class: a function cannot write several artifacts to one channel, or none."""

_ARTIFACTS = {
    "ValueArtifact": "tfx.types.value_artifact",
    "artifact_utils": "tfx.types",
    "import_utils": "tfx.utils",
    "io_utils": "tfx.utils",
    "json_utils": "tfx.utils",
    "path_utils": "tfx.utils",
}
"""The splits and paths of artifacts, and the text of properties, as TFX's own components read and write them."""

_COMPILED = {
    "OutputChannel": "tfx.types.channel",
    "RESOLVER_CONFIG": "tfx.dsl.components.common.resolver",
    "UnionChannel": "tfx.types.channel",
    "compiler": "tfx.dsl.compiler",
    "local_deployment_config_pb2": "tfx.proto.orchestration",
    "pipeline_pb2": "tfx.proto.orchestration",
    "placeholder_pb2": "tfx.proto.orchestration",
}
"""The compiled pipeline: which nodes there are, what they read, and with what parameters."""

_RUN = {
    "channel_resolver": "tfx.orchestration.portable.input_resolution",
    "launcher": "tfx.orchestration.portable",
    "metadata": "tfx.orchestration",
    "node_proto_view": "tfx.orchestration",
    "partial_run_utils": "tfx.orchestration.portable",
    "runner_utils": "tfx.orchestration.local",
    "runtime_parameter_utils": "tfx.orchestration.portable",
}
"""Runs one node in a process: `LocalDagRunner` runs all nodes in its own, one after the other. `channel_resolver` reads
all executions of a pipeline for every input of a node; two of its functions are replaced (`input_channels.py`)."""

_RECORDS = {
    "compiler_utils": "tfx.dsl.compiler",
    "constants": "tfx.dsl.compiler",
    "context_lib": "tfx.orchestration.portable.mlmd",
    "execution_lib": "tfx.orchestration.portable.mlmd",
    "execution_publish_utils": "tfx.orchestration.portable",
}
"""Reads and writes ML Metadata under the names by which TFX's launcher finds contexts and executions."""

_TRAIN = {"GenericExecutor": "tfx.components.trainer.executor"}
"""The arguments that TFX's Trainer gives to a `run_fn`."""

MODULES = {**_DECLARE, **_ARTIFACTS, **_COMPILED, **_RUN, **_RECORDS, **_TRAIN}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(MODULES[name])
    return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{MODULES[name]}.{name}")
