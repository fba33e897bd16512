"""The rows of a split, decoded by a tf.data service, in the order of the files."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from preprocessing.errors import UserError
from trainer.block_bytes import pack_bytes, unpack_bytes
from trainer.blocks import Block, Layout, layout_of
from trainer.data_options import data_options
from trainer.input_fn import BLOCK_ROWS, Decode, open_records
from trainer.input_service import Service, ServiceSilent, elements_of

_LOG = logging.getLogger(__name__)
_READERS = 2
"""Files that a worker reads at the same time."""
Element = tuple[tf.Tensor, tf.Tensor, Block]
"""(number of the file, number of the block in it, its rows); the last block of a file has no rows: it is whole."""


def blocks_in_file_order(
    files: Sequence[str], decode: Decode, service: Service | None, folder: Path, rows: int = BLOCK_ROWS
) -> Iterator[Block]:
    """Yields all rows in the order of the files, in blocks of `rows`; no block has rows of two files.

    Blocks that come before their turn wait on disk.

    Args:
        files: TFRecord files that the service's workers can read, too.
        decode: how to parse their records.
        service: that decodes them; None decodes them here, to the same blocks.
        folder: for blocks that wait.
        rows: of a block.

    Raises:
        UserError: The service is not there, sends nothing, or cannot read the files.
        tf.errors.OpError: A record is damaged.
    """
    if service is None:
        yield from (block for _, _, block in _elements(files, decode, range(len(files)), rows) if _count(block))
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".served-", dir=folder) as waiting:
        turns = _Turns(Path(waiting))
        dataset = _elements(files, decode, range(len(files)), rows, _READERS)
        try:
            for element in elements_of(dataset, service):
                yield from turns.after(element)
        except ServiceSilent:
            if not turns.begun:
                raise
        except tf.errors.NotFoundError as error:
            raise _unreadable(service, error) from error
        missing = turns.missing(len(files))
        if missing:
            named = ", ".join(files[number] for number in missing)
            _LOG.warning("input: a worker of the service at %s went away; read here: %s", service.address, named)
            for element in _elements(files, decode, missing, rows):
                yield from turns.after(element)


@tf.autograph.experimental.do_not_convert
def _elements(
    files: Sequence[str], decode: Decode, numbers: Sequence[int], rows: int, readers: int = 1
) -> tf.data.Dataset:
    """Returns the Elements of some files. The numbers of files are the source that a service divides."""
    names = tf.constant(list(files))

    def of_file(number: tf.Tensor) -> tf.data.Dataset:
        blocks = open_records(names[number]).batch(rows).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        end = tf.data.Dataset.from_tensors(tf.nest.map_structure(_no_rows, blocks.element_spec))
        numbered = blocks.concatenate(end).enumerate()
        return numbered.map(lambda place, block: (number, place, block))

    found = tf.data.Dataset.from_tensor_slices(tf.constant(list(numbers), tf.int64)).interleave(
        of_file, cycle_length=readers, num_parallel_calls=readers
    )
    return found.prefetch(tf.data.AUTOTUNE).with_options(data_options())


def _no_rows(spec: tf.TensorSpec | tf.RaggedTensorSpec) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(spec, tf.RaggedTensorSpec):
        splits = tf.zeros([1], spec.row_splits_dtype)
        return tf.RaggedTensor.from_row_splits(tf.zeros([0], spec.dtype), splits, validate=False)
    return tf.zeros([0, *spec.shape[1:]], spec.dtype)


class _Turns:
    """Puts blocks in the order of their files; those before their turn wait on disk."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._layout = Layout(())
        self._turn = (0, 0)
        self._waiting: set[tuple[int, int]] = set()
        self._ends: dict[int, int] = {}

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self._layout.columns)

    def after(self, element: Element) -> Iterator[Block]:
        """Yields the blocks whose turn has come with this one."""
        file, place, block = int(element[0]), int(element[1]), element[2]
        if (file, place) < self._turn or (file, place) in self._waiting:
            return  # sent again, by a worker that took over
        if not self._layout.columns:
            self._layout = layout_of(block)
        if not _count(block):
            self._ends[file] = place
        elif (file, place) == self._turn:
            self._turn = (file, place + 1)
            yield block
        else:
            rows = {key: value.numpy() for key, value in self._layout.pack(block).items()}
            self._path(file, place).write_bytes(pack_bytes(self._layout, rows))
            self._waiting.add((file, place))
        yield from self._due()

    def missing(self, files: int) -> list[int]:
        """Returns the numbers of the files of which something has not come."""
        first = self._turn[0]
        return [file for file in range(first, files) if not self._whole(file)]

    def _whole(self, file: int) -> bool:
        first = self._turn[1] if file == self._turn[0] else 0
        return file in self._ends and all((file, place) in self._waiting for place in range(first, self._ends[file]))

    def _due(self) -> Iterator[Block]:
        while True:
            file, place = self._turn
            if self._ends.get(file) == place:
                self._turn = (file + 1, 0)
            elif self._turn in self._waiting:
                self._waiting.remove(self._turn)
                self._turn = (file, place + 1)
                path = self._path(file, place)
                yield self._layout.unpack(unpack_bytes(self._layout, tf.io.read_file(str(path))[tf.newaxis]))
                path.unlink()
            else:
                return

    def _path(self, file: int, place: int) -> Path:
        return self._folder / f"{file:06d}-{place:06d}"


def _count(block: Block) -> int:
    value = next(iter(block.values()))
    return int(value.nrows()) if isinstance(value, tf.RaggedTensor) else len(value)


def _unreadable(service: Service, error: tf.errors.NotFoundError) -> UserError:
    return UserError(
        f"a worker of the input service at {service.address} cannot read a file: {error.message.splitlines()[0]}. Its "
        "workers need the same paths as the trainer: put `root` on storage that all of them mount."
    )
