"""ML Metadata's service: its own library, on which the real server is also based, behind its own gRPC interface."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from ml_metadata import metadata_store
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store as library
from ml_metadata.proto import metadata_store_pb2 as pb
from ml_metadata.proto import metadata_store_service_pb2

from fullpass.components.mlmd_values import properties_of

_SERVICE = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class StoredMetadata:
    """A real store (SQLite), written by the driver and the launcher."""

    def __init__(self, file: Path) -> None:
        config = pb.ConnectionConfig()
        config.sqlite.filename_uri = str(file)
        config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self._store = metadata_store.MetadataStore(config)
        self._lock = threading.RLock()

    def answer(self, call: Callable[..., Any], request: bytes) -> Any:
        """Calls a function of ML Metadata's library with this store and a request message; returns its response."""
        with self._lock:
            return call(self._store._metadata_store, request)

    def artifacts(self, title: str) -> list[dict[str, Any]]:
        """Returns URI and metadata of all artifacts of a type, oldest first."""
        with self._lock:
            found = sorted(self._store.get_artifacts_by_type(title), key=lambda artifact: artifact.id)
        return [{"uri": artifact.uri, "metadata": properties_of(artifact)} for artifact in found]

    def states(self, kind: str) -> dict[str, list[str]]:
        """Returns task -> the states of its executions of a type, oldest first."""
        with self._lock:
            found = sorted(self._store.get_executions_by_type(kind), key=lambda execution: execution.id)
        states: dict[str, list[str]] = {}
        for execution in found:
            task = execution.custom_properties["task_name"].string_value
            states.setdefault(task, []).append(pb.Execution.State.Name(execution.last_known_state))
        return states


@contextmanager
def metadata_service(metadata: StoredMetadata, address: str = "127.0.0.1:0") -> Iterator[int]:
    """Serves metadata, by default on loopback; yields the port."""
    calls = {name: _call(metadata, name) for name in _SERVICE.methods_by_name if hasattr(library, name)}
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE.full_name, calls)])
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait(timeout=30)


def _call(metadata: StoredMetadata, name: str) -> Any:
    function: Callable[..., Any] = getattr(library, name)

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        message, words, code = metadata.answer(function, request)
        if code:
            context.abort(_CODES[code], words.decode())
        return message

    return grpc.unary_unary_rpc_method_handler(answer)


if __name__ == "__main__":  # ADDRESS FILE
    with metadata_service(StoredMetadata(Path(sys.argv[2])), sys.argv[1]):
        threading.Event().wait()
