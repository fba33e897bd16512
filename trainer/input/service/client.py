"""The client of a tf.data service, whose machines parse and transform for the trainer.

A dispatcher assigns the files of a split to its workers, one at a time to any free worker. Each worker returns decoded
blocks of rows. The blocks arrive in any order; the trainer sorts them, and reads the files of a worker that died
itself. So the rows and their order do not depend on the number of workers.
"""

import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import ADDRESS, ServiceConfig
from fullpass.trainer.internals.tf_internals import GET_WORKERS

VARIABLE = "FULLPASS_INPUT_SERVICE"
_POLL_SECONDS = 0.2
_AHEAD = 4
_REMEDY = (
    "Start it with `fullpass input-service dispatcher` and `fullpass input-service worker` (docs/input.md), or remove "
    "input.service: the trainer then reads the files itself."
)


class ServiceSilent(UserError):
    """The service is reachable but sends no rows."""


@dataclass(frozen=True)
class DataService:
    """A tf.data service.

    Attributes:
        address: The host:port of its dispatcher.
        seconds: The seconds without a row after which the service counts as failed.
    """

    address: str
    seconds: float


def find_service(config: ServiceConfig | None) -> DataService | None:
    """Returns the service of `input.service`, None without one.

    Raises:
        UserError: Neither the YAML nor the environment names an address.
    """
    if config is None:
        return None
    address = config.address or os.environ.get(VARIABLE, "").strip()
    if not address:
        raise UserError(f"input.service names no address, and the environment variable {VARIABLE} is not set.")
    if not ADDRESS.fullmatch(address):
        raise UserError(f"the environment variable {VARIABLE} must be host:port. Received: {address!r}.")
    return DataService(address, config.wait_seconds)


def wait_for_service(service: DataService) -> None:
    """Returns once the dispatcher answers and has a worker.

    Raises:
        UserError: It does not answer within `service.seconds`, or another service answers.
    """
    deadline = time.monotonic() + service.seconds
    while (problem := _problem(service, deadline)) is not None:
        if time.monotonic() >= deadline:
            raise UserError(
                f"the input service at {service.address} was not ready within {service.seconds:g} seconds: {problem}. "
                f"{_REMEDY} input.service.wait_seconds sets how long to wait."
            )
        time.sleep(_POLL_SECONDS)


def elements_of(dataset: tf.data.Dataset, service: DataService) -> Iterator[tuple]:
    """Yields the elements of a dataset that the service's workers run, each once, in any order.

    Args:
        dataset: The dataset; the elements of its first source are divided among the workers.
        service: The service that runs it.

    Raises:
        UserError: The service is not reachable; ServiceSilent if it sends no rows.
        tf.errors.OpError: A worker fails at an element.
    """
    wait_for_service(service)
    distributed = dataset.apply(
        tf.data.experimental.service.distribute(
            # Any free worker gets the next source, because files differ in size and workers in speed.
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service=f"grpc://{service.address}",
            # Blocks are large; this many keep a network busy.
            max_outstanding_requests=16,
            compression="AUTO",
        )
    )
    yield from _within(distributed, service)


def _within(dataset: tf.data.Dataset, service: DataService) -> Iterator[tuple]:
    """Yields elements; raises ServiceSilent after `service.seconds` without one, whereas TensorFlow waits forever."""
    found: queue.Queue = queue.Queue(_AHEAD)
    left = threading.Event()

    def put(value: object) -> None:
        while not left.is_set():
            try:
                return found.put(value, timeout=_POLL_SECONDS)
            except queue.Full:
                continue

    def fetch() -> None:
        try:
            for element in dataset:
                put(element)
                if left.is_set():
                    return
            put(None)
        except Exception as error:
            put(error)

    # A call that waits for workers cannot be cancelled; its thread then ends with the process.
    threading.Thread(target=fetch, name="input service", daemon=True).start()
    try:
        while (element := _next(found, service)) is not None:
            yield element
    finally:
        left.set()


def _next(found: queue.Queue, service: DataService) -> tuple | None:
    try:
        element = found.get(timeout=service.seconds)
    except queue.Empty:
        raise ServiceSilent(
            f"the input service at {service.address} is reachable, but sent no rows for {service.seconds:g} seconds. "
            "Do its workers run, and can they be reached from here at the addresses that they registered (their logs "
            "show these)? input.service.wait_seconds sets how long to wait."
        ) from None
    if isinstance(element, Exception):
        raise element
    return element


def _problem(service: DataService, deadline: float) -> str | None:
    """Returns the reason why the service is not ready; None if it is."""
    with grpc.insecure_channel(service.address) as channel:
        get_workers = channel.unary_unary(GET_WORKERS, request_serializer=bytes, response_deserializer=bytes)
        try:
            workers = get_workers(b"", timeout=max(deadline - time.monotonic(), _POLL_SECONDS))
        except grpc.RpcError as error:
            return _rpc_problem(error.code(), error.details())
    return None if workers else "no worker has registered with its dispatcher yet"


def _rpc_problem(code: grpc.StatusCode, details: str | None) -> str:
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return "the server there is not a dispatcher (is it the address of a worker, or of another service?)"
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return "a process listens there, but does not respond like a dispatcher"
    return f"no server responds there ({(details or code.name).splitlines()[0][:200]})"
