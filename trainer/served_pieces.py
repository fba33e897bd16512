"""The rows of a split, parsed and packed by a tf.data service, in the order of the files."""

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from preprocessing.errors import UserError
from trainer.block_bytes import pack_bytes, unpack_bytes
from trainer.blocks import Layout
from trainer.data_options import data_options
from trainer.input_fn import BLOCK_ROWS, open_records
from trainer.input_service import Service, ServiceSilent, elements_of
from trainer.pieces import Piece, Preparation

_LOG = logging.getLogger(__name__)
_READERS = 2
"""Files that a worker reads at the same time."""
Element = tuple[tf.Tensor, tf.Tensor, Piece]
"""(number of the file, number of the piece in it, its rows); the last piece of a file has no rows: it is whole."""


def pieces_in_file_order(
    files: Sequence[str], prepare: Preparation, service: Service | None, folder: Path, rows: int = BLOCK_ROWS
) -> Iterator[Piece]:
    """Returns all rows in the order of the files, in pieces of `rows`; no piece has rows of two files.

    Pieces that come before their turn wait on disk.

    Args:
        files: TFRecord files that the service's workers can read, too.
        prepare: makes pieces of their records; knows their layout once this has returned.
        service: that does so; None does it here, to the same pieces.
        folder: for pieces that wait.
        rows: of a piece.

    Raises:
        UserError: The service is not there, sends nothing, or cannot read the files.
        tf.errors.OpError: A record is damaged.
    """
    dataset = _elements(files, prepare, range(len(files)), rows, 1 if service is None else _READERS)
    if service is None:
        return (piece for _, _, piece in dataset if piece["rows"])
    return _served(dataset, files, service, folder, lambda missing: _elements(files, prepare, missing, rows), prepare)


def _served(
    dataset: tf.data.Dataset,
    files: Sequence[str],
    service: Service,
    folder: Path,
    read_here: Callable[[Sequence[int]], tf.data.Dataset],
    prepare: Preparation,
) -> Iterator[Piece]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".served-", dir=folder) as waiting:
        turns = _Turns(Path(waiting), prepare.layout)
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
            for element in read_here(missing):
                yield from turns.after(element)


@tf.autograph.experimental.do_not_convert
def _elements(
    files: Sequence[str], prepare: Preparation, numbers: Sequence[int], rows: int, readers: int = 1
) -> tf.data.Dataset:
    """Returns the Elements of some files. The numbers of files are the source that a service divides."""
    names = tf.constant(list(files))

    def of_file(number: tf.Tensor) -> tf.data.Dataset:
        pieces = open_records(names[number]).batch(rows).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        end = tf.data.Dataset.from_tensors(tf.nest.map_structure(_nothing, pieces.element_spec))
        numbered = pieces.concatenate(end).enumerate()
        return numbered.map(lambda place, piece: (number, place, piece))

    found = tf.data.Dataset.from_tensor_slices(tf.constant(list(numbers), tf.int64)).interleave(
        of_file, cycle_length=readers, num_parallel_calls=readers
    )
    return found.prefetch(tf.data.AUTOTUNE).with_options(data_options())


def _nothing(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


class _Turns:
    """Puts pieces in the order of their files; those before their turn wait on disk."""

    def __init__(self, folder: Path, layout: Layout):
        self._folder, self._layout = folder, layout
        self._turn = (0, 0)
        self._waiting: dict[tuple[int, int], Piece] = {}
        self._ends: dict[int, int] = {}

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self._turn > (0, 0) or self._waiting or self._ends)

    def after(self, element: Element) -> Iterator[Piece]:
        """Yields the pieces whose turn has come with this one."""
        file, place, piece = int(element[0]), int(element[1]), element[2]
        if (file, place) < self._turn or (file, place) in self._waiting:
            return  # sent again, by a worker that took over
        if not piece["rows"]:
            self._ends[file] = place
        elif (file, place) == self._turn:
            self._turn = (file, place + 1)
            yield piece
        else:
            self._put_aside(file, place, piece)
        yield from self._due()

    def missing(self, files: int) -> list[int]:
        """Returns the numbers of the files of which something has not come."""
        return [file for file in range(self._turn[0], files) if not self._whole(file)]

    def _whole(self, file: int) -> bool:
        first = self._turn[1] if file == self._turn[0] else 0
        return file in self._ends and all((file, place) in self._waiting for place in range(first, self._ends[file]))

    def _due(self) -> Iterator[Piece]:
        while True:
            file, place = self._turn
            if self._ends.get(file) == place:
                self._turn = (file + 1, 0)
            elif self._turn in self._waiting:
                self._turn = (file, place + 1)
                yield self._take_back(file, place)
            else:
                return

    def _put_aside(self, file: int, place: int, piece: Piece) -> None:
        rows = {key: value.numpy() for key, value in piece["packed"].items()}
        self._path(file, place).write_bytes(pack_bytes(self._layout, rows))
        self._waiting[file, place] = {**piece, "packed": {}}

    def _take_back(self, file: int, place: int) -> Piece:
        path = self._path(file, place)
        packed = unpack_bytes(self._layout, tf.io.read_file(str(path))[tf.newaxis])
        path.unlink()
        return {**self._waiting.pop((file, place)), "packed": packed}

    def _path(self, file: int, place: int) -> Path:
        return self._folder / f"{file:06d}-{place:06d}"


def _unreadable(service: Service, error: tf.errors.NotFoundError) -> UserError:
    return UserError(
        f"a worker of the input service at {service.address} cannot read a file: {error.message.splitlines()[0]}. Its "
        "workers need the same paths as the trainer: put `root` on storage that all of them mount."
    )
