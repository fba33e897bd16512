"""ML Metadata's service: its own library, on which the real server is also based, behind its own gRPC interface."""

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store as library
from ml_metadata.proto import metadata_store_service_pb2

from tests.kubeflow.backend.metadata import Metadata

_SERVICE = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@contextmanager
def metadata_service(metadata: Metadata) -> Iterator[dict[str, str]]:
    """Serves metadata on loopback; yields the environment variables by which containers find the service."""
    calls = {name: _call(metadata, name) for name in _SERVICE.methods_by_name if hasattr(library, name)}
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE.full_name, calls)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield {"METADATA_GRPC_SERVICE_HOST": "127.0.0.1", "METADATA_GRPC_SERVICE_PORT": str(port)}
    finally:
        server.stop(grace=None).wait(timeout=30)


def _call(metadata: Metadata, name: str) -> Any:
    function: Callable[..., Any] = getattr(library, name)

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        message, words, code = metadata.answer(function, request)
        if code:
            context.abort(_CODES[code], words.decode())
        return message

    return grpc.unary_unary_rpc_method_handler(answer)
