"""Finds the last blessed model in Kubeflow's own metadata instead of the registry.

Every release from 2.4 to 2.17 records artifacts with the properties that their executor set, and executions with their
parameters. Both are in a context of the run and a context of the pipeline (v2/metadata/client.go:316, :462, :540 and
:1018 at 2.5.0). A ConfigMap provides containers with the host and port of the service
(v2/compiler/argocompiler/common.go:23).
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format
from ml_metadata import errors, proto
from ml_metadata.metadata_store import metadata_store

from fullpass.base.errors import UserError
from fullpass.components.mlmd_values import properties_of
from fullpass.kubeflow.runtime.registry_store import Blessed

HOST, PORT = "METADATA_GRPC_SERVICE_HOST", "METADATA_GRPC_SERVICE_PORT"
"""Environment variables of every container that Kubeflow starts."""
BLESSING = "tfx.ModelBlessing"
_RUN, _PIPELINE = "system.PipelineRun", "system.Pipeline"
_SECONDS = 60
_GONE = (proto.Artifact.MARKED_FOR_DELETION, proto.Artifact.DELETED)

Digest = Callable[[Mapping[str, Any]], str]
"""Parameters of the look-up in a run -> digest of its model's data and parameters."""


@contextmanager
def metadata(variables: Mapping[str, str] = os.environ) -> Iterator[metadata_store.MetadataStore]:
    """Yields a client of the metadata service; its errors become a UserError.

    Args:
        variables: environment variables of the container.

    Raises:
        UserError: The variables name no service, or the service does not answer.
    """
    if HOST not in variables or PORT not in variables:
        raise UserError(
            f"blessed_models: mlmd: {HOST} and {PORT} are not set, so Kubeflow's metadata service cannot be "
            "reached. They come from the ConfigMap metadata-grpc-configmap in the namespace of the runs. Fix the "
            "installation, or set blessed_models: registry."
        )
    host, port = variables[HOST], variables[PORT]
    try:
        yield metadata_store.MetadataStore(
            proto.MetadataStoreClientConfig(host=host, port=int(port), client_timeout_sec=_SECONDS)
        )
    except errors.StatusError as error:
        raise UserError(
            f"blessed_models: mlmd: the metadata service at {host}:{port} failed with {type(error).__name__}: {error}. "
            "If it was temporarily unavailable, give the node retries. If it cannot be reached, for example behind "
            "TLS, set blessed_models: registry."
        ) from error


def last_blessed(
    store: metadata_store.MetadataStore,
    known: str,
    task: str,
    made_from: str,
    digest: Digest,
    rolled_back: Collection[str] = (),
) -> Blessed | None:
    """Returns the newest blessed model of earlier runs with other data or parameters; None on a first run.

    Only runs of the same pipeline in the same namespace are considered; an artifact of this run determines both. Models
    are ordered by the time at which their blessing was recorded. The data and parameters of a model are those of the
    first run with its blessing, because a run that takes the blessing from the backend's cache has the same artifact.

    Args:
        store: the metadata store.
        known: URI of an artifact of this run, created by it or taken from the cache.
        task: name of the look-up in this run and in earlier runs.
        made_from: digest of the new model's data and parameters.
        digest: computes such a digest from the parameters of a look-up.
        rolled_back: URIs of models to skip.

    Raises:
        UserError: The metadata store has no run with the artifact.
    """
    contexts = [c for found in store.get_artifacts_by_uri(known) for c in store.get_contexts_by_artifact(found.id)]
    pipeline = next((context for context in contexts if context.type == _PIPELINE), None)
    namespaces = {_namespace(context) for context in contexts if context.type == _RUN}
    if pipeline is None:
        raise UserError(f"Kubeflow's metadata contain no run with {known}, so earlier runs cannot be found.")
    of_type = metadata_store.ListOptions(filter_query=f"type = '{BLESSING}'")
    blessings = store.get_artifacts_by_context(pipeline.id, of_type)
    for blessing in sorted(blessings, key=lambda artifact: artifact.id, reverse=True):
        model = properties_of(blessing).get("current_model")
        if not properties_of(blessing).get("blessed") or not isinstance(model, str) or blessing.state in _GONE:
            continue
        first = _first_run(store, blessing)
        if first is None or _namespace(first) not in namespaces:
            continue
        recorded = datetime.fromtimestamp(blessing.create_time_since_epoch / 1000, UTC).isoformat(timespec="seconds")
        found = Blessed(model, blessing.uri, recorded, _made_from(store, first, task, digest))
        if found.is_baseline_for(made_from, rolled_back):
            return found
    return None


def _first_run(store: metadata_store.MetadataStore, artifact: proto.Artifact) -> proto.Context | None:
    """Returns the context of the run that created an artifact; other runs took it from the cache."""
    events = store.get_events_by_artifact_ids([artifact.id])
    makers = [event.execution_id for event in events if event.type == proto.Event.OUTPUT]
    contexts = store.get_contexts_by_execution(min(makers)) if makers else []
    return next((context for context in contexts if context.type == _RUN), None)


def _namespace(run: proto.Context) -> str:
    """Returns the namespace of a run; pipelines with the same name share one context across namespaces."""
    return run.custom_properties["namespace"].string_value


def _made_from(store: metadata_store.MetadataStore, run: proto.Context, task: str, digest: Digest) -> str:
    """Returns the digest of a run's data and parameters; "" if the run has no look-up."""
    of_task = metadata_store.ListOptions(filter_query=f"custom_properties.task_name.string_value = '{task}'")
    for execution in store.get_executions_by_context(run.id, of_task):
        given = json_format.MessageToDict(execution.custom_properties["inputs"].struct_value)
        return digest(given)
    return ""
