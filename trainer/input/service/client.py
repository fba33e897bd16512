"""The client of a tf.data service, whose machines parse and transform for the trainer.

A dispatcher assigns the files of a split to its workers, one at a time to any free worker. Each worker returns decoded
blocks of rows. The blocks arrive in any order; the trainer sorts them, and reads the files of a worker that died
itself. So the rows and their order do not depend on the number of workers.
"""

import logging
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import ADDRESS, ServiceConfig
from fullpass.trainer.input.data_options import data_options
from fullpass.trainer.input.parsed_chunks import ChunkParser
from fullpass.trainer.internals.tf_internals import GET_WORKERS
from fullpass.trainer.records.blocks import Chunk, Layout, pack_bytes, unpack_bytes
from fullpass.trainer.records.record_files import BLOCK_ROWS, open_records

VARIABLE = "FULLPASS_INPUT_SERVICE"
_POLL_SECONDS = 0.2
"""Wait between two looks at the service."""
_AHEAD = 4
"""Elements that are received before they are asked for."""
_REMEDY = (
    "Start it with `fullpass input-service dispatcher` and `fullpass input-service worker` (docs/input.md), or remove "
    "input.service: the trainer then reads the files itself."
)
_REQUESTS = 16
"""Requests for blocks in flight at most: blocks are large, so this many keep a network busy."""
_LOG = logging.getLogger(__name__)
_READERS = 2
"""The files that a worker reads at the same time."""
Element = tuple[tf.Tensor, tf.Tensor, Chunk]
"""(number of the file, number of the chunk in it, its rows); the last chunk of a file has no rows and marks its end."""


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
            max_outstanding_requests=_REQUESTS,
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


def chunks_in_file_order(
    files: Sequence[str], parse: ChunkParser, service: DataService | None, folder: Path, rows: int = BLOCK_ROWS
) -> Iterator[Chunk]:
    """Returns all rows in the order of the files, in chunks of `rows`; no chunk has rows of two files.

    Chunks that arrive before their turn are stored on disk.

    Args:
        files: TFRecord files that the service's workers can also read.
        parse: Converts their records to chunks; its layout is set once this function has returned.
        service: The service that parses them; None parses in the trainer, to the same chunks.
        folder: The folder for chunks that arrive early.

    Raises:
        UserError: The service is not reachable, sends no rows, or cannot read the files.
        tf.errors.OpError: A record is damaged.
    """
    dataset = _elements(files, parse, range(len(files)), rows, 1 if service is None else _READERS)
    if service is None:
        return (chunk for _, _, chunk in dataset if chunk["rows"])
    return _served(dataset, files, service, folder, lambda missing: _elements(files, parse, missing, rows), parse)


def _served(
    dataset: tf.data.Dataset,
    files: Sequence[str],
    service: DataService,
    folder: Path,
    read_here: Callable[[Sequence[int]], tf.data.Dataset],
    parse: ChunkParser,
) -> Iterator[Chunk]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".served-", dir=folder) as waiting:
        buffer = ReorderBuffer(Path(waiting), parse.layout)
        try:
            for element in elements_of(dataset, service):
                yield from buffer.after(element)
        except ServiceSilent:
            if not buffer.begun:
                raise
        except tf.errors.NotFoundError as error:
            raise _unreadable(service, error) from error
        missing = buffer.missing(len(files))
        if missing:
            named = ", ".join(files[number] for number in missing)
            _LOG.warning(
                "input: a worker of the service at %s stopped; the trainer reads its files: %s", service.address, named
            )
            for element in read_here(missing):
                yield from buffer.after(element)


@tf.autograph.experimental.do_not_convert
def _elements(
    files: Sequence[str], parse: ChunkParser, numbers: Sequence[int], rows: int, readers: int = 1
) -> tf.data.Dataset:
    """Returns the Elements of some files. A service divides the numbers of the files among its workers."""
    names = tf.constant(list(files))

    def of_file(number: tf.Tensor) -> tf.data.Dataset:
        chunks = open_records(names[number]).batch(rows).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        end = tf.data.Dataset.from_tensors(tf.nest.map_structure(_nothing, chunks.element_spec))
        numbered = chunks.concatenate(end).enumerate()
        return numbered.map(lambda index, chunk: (number, index, chunk))

    found = tf.data.Dataset.from_tensor_slices(tf.constant(list(numbers), tf.int64)).interleave(
        of_file, cycle_length=readers, num_parallel_calls=readers
    )
    return found.prefetch(tf.data.AUTOTUNE).with_options(data_options())


def _nothing(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


class ReorderBuffer:
    """Puts chunks in the order of their files; chunks that arrive before their turn are stored on disk."""

    def __init__(self, folder: Path, layout: Layout):
        self._folder, self._layout = folder, layout
        self._turn = (0, 0)
        self._waiting: dict[tuple[int, int], Chunk] = {}
        self._ends: dict[int, int] = {}

    @property
    def begun(self) -> bool:
        """Whether any chunk has arrived."""
        return bool(self._turn > (0, 0) or self._waiting or self._ends)

    def after(self, element: Element) -> Iterator[Chunk]:
        """Takes a chunk; yields the chunks that are now next in order."""
        file, index, chunk = int(element[0]), int(element[1]), element[2]
        if (file, index) < self._turn or (file, index) in self._waiting:
            return  # sent again by a worker that took over
        if not chunk["rows"]:
            self._ends[file] = index
        elif (file, index) == self._turn:
            self._turn = (file, index + 1)
            yield chunk
        else:
            self._spill(file, index, chunk)
        yield from self._due()

    def missing(self, files: int) -> list[int]:
        """Returns the numbers of the files that have not arrived completely."""
        return [file for file in range(self._turn[0], files) if not self._whole(file)]

    def _whole(self, file: int) -> bool:
        first = self._turn[1] if file == self._turn[0] else 0
        return file in self._ends and all((file, index) in self._waiting for index in range(first, self._ends[file]))

    def _due(self) -> Iterator[Chunk]:
        while True:
            file, index = self._turn
            if self._ends.get(file) == index:
                self._turn = (file + 1, 0)
            elif self._turn in self._waiting:
                self._turn = (file, index + 1)
                yield self._load(file, index)
            else:
                return

    def _spill(self, file: int, index: int, chunk: Chunk) -> None:
        rows = {key: value.numpy() for key, value in chunk["packed"].items()}
        self._path(file, index).write_bytes(pack_bytes(self._layout, rows))
        self._waiting[file, index] = {**chunk, "packed": {}}

    def _load(self, file: int, index: int) -> Chunk:
        path = self._path(file, index)
        arrays = unpack_bytes(self._layout, path.read_bytes())
        packed = {key: tf.constant(value, self._layout.parts()[key][0]) for key, value in arrays.items()}
        path.unlink()
        return {**self._waiting.pop((file, index)), "packed": packed}

    def _path(self, file: int, index: int) -> Path:
        return self._folder / f"{file:06d}-{index:06d}"


def _unreadable(service: DataService, error: tf.errors.NotFoundError) -> UserError:
    return UserError(
        f"a worker of the input service at {service.address} cannot read a file: {error.message.splitlines()[0]}. Its "
        "workers need the same paths as the trainer: put `root` on storage that all of them mount."
    )
