"""The rows of a split, parsed and packed by a tf.data service, in the order of the files."""

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.data_options import data_options
from fullpass.trainer.input.parsed_chunks import ChunkParser
from fullpass.trainer.input.service.client import DataService, ServiceSilent, elements_of
from fullpass.trainer.records.blocks import Chunk, Layout, pack_bytes, unpack_bytes
from fullpass.trainer.records.record_files import BLOCK_ROWS, open_records

_LOG = logging.getLogger(__name__)
_READERS = 2
"""The files that a worker reads at the same time."""
Element = tuple[tf.Tensor, tf.Tensor, Chunk]
"""(number of the file, number of the chunk in it, its rows); the last chunk of a file has no rows and marks its end."""


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
        rows: The number of rows of a chunk.

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
        packed = unpack_bytes(self._layout, tf.io.read_file(str(path))[tf.newaxis])
        path.unlink()
        return {**self._waiting.pop((file, index)), "packed": packed}

    def _path(self, file: int, index: int) -> Path:
        return self._folder / f"{file:06d}-{index:06d}"


def _unreadable(service: DataService, error: tf.errors.NotFoundError) -> UserError:
    return UserError(
        f"a worker of the input service at {service.address} cannot read a file: {error.message.splitlines()[0]}. Its "
        "workers need the same paths as the trainer: put `root` on storage that all of them mount."
    )
