"""How rows reach the model under some settings of the YAML, and how fast a training is that way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from preprocessing.cores import usable_cores
from trainer.diagnosis.rates import Rate, drain, train
from trainer.diagnosis.subject import Source, Subject
from trainer.input_fn import BLOCK_ROWS, STREAM_SHUFFLE_ROWS
from trainer.input_plan import MOST_READERS
from trainer.memory import available_memory
from trainer.optimizer import batch_size_for
from trainer.order import Order
from trainer.pieces import Piece, Preparation, read_pieces

Kept = Literal["memory", "disk", "files"]
"""Where rows come from after they were read once."""
Changes = Mapping[str, Any]
"""Path in the YAML -> value."""

_WINDOW_BLOCKS = 2


@dataclass(frozen=True)
class Setting:
    """How rows reach the model.

    Attributes:
        source: the files, and what becomes of their records.
        kept: where rows come from after they were read once.
        readers: files read at the same time.
        batch_size: examples per update.
        shuffle: rows to shuffle among.
    """

    source: Source
    kept: Kept
    readers: int
    batch_size: int
    shuffle: int

    @property
    def first_reading(self) -> tuple[Source, int]:
        """What decides how fast rows are read before the first epoch."""
        return self.source, self.readers


@dataclass(frozen=True)
class Speed:
    """What a training does under a setting.

    Attributes:
        first: rows read, decompressed, parsed and made once, as before the first epoch.
        epochs: updates, with the input behind them.
    """

    first: Rate
    epochs: Rate

    def seconds_per_row(self, epochs: int) -> float:
        """Returns the seconds of an example of one epoch, with its part of the first reading."""
        return self.epochs.seconds_per_row + self.first.seconds_per_row / epochs

    def per_second(self, epochs: int) -> float:
        """Returns examples per second over a training of so many epochs, the first reading included."""
        return 1 / self.seconds_per_row(epochs)

    def wait(self, epochs: int) -> float:
        """Returns the share of the training's time in which the model waits for input, 0 .. 1."""
        waited = self.epochs.waited / self.epochs.rows + self.first.seconds_per_row / epochs
        return min(1.0, waited / self.seconds_per_row(epochs))


def setting_of(subject: Subject, changes: Changes) -> Setting:
    """Returns how rows reach the model with some values of the YAML changed.

    Args:
        subject: what is diagnosed.
        changes: of the sections input, data.records and training, and of places of features.
    """
    training = subject.training
    given = {path.removeprefix("input."): value for path, value in changes.items() if path.startswith("input.")}
    config = training.config.input.model_copy(update=given)
    source = subject.source
    if any(path.endswith(".place") for path in changes):
        source = subject.transformed
    elif any(path.startswith("data.records.") for path in changes):
        source = subject.repacked
    size = changes.get("training.batch_size", training.config.training.batch_size)
    return Setting(
        source=source,
        kept=kept_in(subject, config.cache, config.memory_fraction),
        readers=readers_of(config.readers, len(source.files)),
        batch_size=batch_size_for(training.rows) if size == "auto" else size,
        shuffle=STREAM_SHUFFLE_ROWS if config.shuffle_buffer == "auto" else config.shuffle_buffer,
    )


def kept_in(subject: Subject, cache: str, memory_fraction: float) -> Kept:
    """Returns where `input.cache` keeps the rows of all of the data between epochs."""
    if cache == "auto":
        return "memory" if fits(subject, memory_fraction) else "disk"
    return "files" if cache == "none" else "disk" if cache == "disk" else "memory"


def fits(subject: Subject, memory_fraction: float) -> bool:
    """Whether all rows fit into so much of the free memory."""
    return subject.row_bytes * subject.training.rows <= available_memory() * memory_fraction


def readers_of(readers: int | Literal["auto"], files: int) -> int:
    """Returns the files read at the same time, of so many."""
    return min(files, MOST_READERS, usable_cores()) if readers == "auto" else readers


def read_once(subject: Subject, setting: Setting, seconds: float) -> Rate:
    """Returns how fast rows are read, parsed, packed and counted before the first epoch, tried for about `seconds`.

    What is read in less than that is read as a whole, and as training does: with few blocks, what comes before and
    behind the middle counts, where nothing is done side by side.
    """
    source = setting.source
    prepare = Preparation(source.decode, subject.in_model.complete if subject.in_model else None, source.files)
    whole = source.pass_seconds <= seconds
    block_rows = BLOCK_ROWS if whole else source.block_rows
    pieces = read_pieces(source.files, prepare, setting.readers, rows=block_rows)
    return drain(pieces, _rows_of, seconds, passes_of=source.rows if whole else 0)


def run_epochs(subject: Subject, setting: Setting, seconds: float) -> Rate:
    """Returns how fast updates are made on batches of the input, tried for about `seconds`."""
    order = Order(batch_size=setting.batch_size, shuffle=setting.shuffle, seed=subject.training.config.training.seed)
    return train(subject.update, batches(subject, setting, order), setting.batch_size, seconds)


def batches(subject: Subject, setting: Setting, order: Order) -> Any:
    """Returns the endless batches of a training under a setting.

    Rows that are streamed are shuffled among as many as come in a moment, so that a window takes no minutes.
    """
    split = subject.split(setting.source, setting.kept)
    if setting.kept == "files":
        window = max(setting.batch_size, _WINDOW_BLOCKS * setting.source.block_rows)
        split = replace(split, readers=setting.readers, window_bytes=window * split.row_bytes)
    return split.batches(order)


def _rows_of(piece: Piece) -> int:
    return int(piece["rows"])
