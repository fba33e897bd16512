"""Settings that may make a training faster, each with the reason to try it."""

from collections.abc import Iterator
from dataclasses import dataclass

from preprocessing.cores import usable_cores
from trainer.diagnosis.settings import Changes, Setting, fits, readers_of, setting_of
from trainer.diagnosis.stages import DECOMPRESS, ONCE, OPEN, READ, TRANSFORM
from trainer.diagnosis.subject import Subject
from trainer.input_plan import MOST_READERS

_SMALL_FILE_BYTES = 1 << 20
_MANY_FILES = 10
_SHARD_MB = 128
_LARGEST_BATCH = 8192
BATCH_SIZE = "training.batch_size"


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    Attributes:
        changes: path in the YAML -> value.
        why: what it would spare, in words.
        spares: the stages that it makes shorter.
    """

    changes: Changes
    why: str
    spares: tuple[str, ...] = ()

    @property
    def learns_alike(self) -> bool:
        """Whether the model learns from the same updates as before."""
        return BATCH_SIZE not in self.changes

    @property
    def text(self) -> str:
        """The settings as one line."""
        return ", ".join(f"{path}: {value}" for path, value in self.changes.items()) or "as written"


def candidates(subject: Subject, slowest: str) -> list[Candidate]:
    """Returns what is worth trying, the likeliest to help first.

    Args:
        subject: what is diagnosed.
        slowest: the stage that takes longest.
    """
    setting = setting_of(subject, {})
    found = [*_places(subject), *_cache(subject, setting), *_records(subject), *_readers(subject, setting)]
    return [*sorted(found, key=lambda candidate: slowest not in candidate.spares), *_batch_size(setting)]


def _places(subject: Subject) -> Iterator[Candidate]:
    placement, config = subject.placement, subject.training.preprocessing
    if placement.at_input and not placement.in_model:
        changes = {f"features.{name}.place": "transform" for name, f in config.features.items() if f.place == "input"}
        if config.place == "input":
            changes["input.place"] = "transform"
        yield Candidate(changes, "features are computed once, as the examples are written", (TRANSFORM,))


def _cache(subject: Subject, setting: Setting) -> Iterator[Candidate]:
    cache = subject.training.config.input.cache
    fraction = subject.training.config.input.memory_fraction
    if setting.kept == "files":
        yield Candidate(
            {"input.cache": "auto"}, "rows are kept between epochs, in memory where they fit, else on disk", ONCE
        )
    elif setting.kept == "disk" and cache == "disk" and fits(subject, fraction):
        yield Candidate({"input.cache": "auto"}, "rows fit in memory")
    elif setting.kept == "disk" and fits(subject, 2 * fraction) and fraction <= 0.4:
        yield Candidate({"input.memory_fraction": 2 * fraction}, "rows fit in so much of the free memory")


def _records(subject: Subject) -> Iterator[Candidate]:
    training, files = subject.training, subject.training.files
    if any(file.endswith(".gz") for file in files):
        yield Candidate(
            {"data.records.compression": "none"}, "nothing is decompressed; the records take more room", (DECOMPRESS,)
        )
    if len(files) > _MANY_FILES and subject.bytes / len(files) < _SMALL_FILE_BYTES:
        larger = {"data.records.shard_mb": max(_SHARD_MB, training.records.shard_mb)}
        if training.records.readers > 1:
            larger["data.records.readers"] = 1
        yield Candidate(larger, "fewer and larger files are opened", (OPEN,))


def _readers(subject: Subject, setting: Setting) -> Iterator[Candidate]:
    files, given = len(setting.source.files), subject.training.config.input.readers
    auto = readers_of("auto", files)
    tried = {min(files, MOST_READERS, number) for number in (4 * setting.readers, 2 * usable_cores())}
    if given != "auto" and auto > setting.readers:
        yield Candidate({"input.readers": "auto"}, "more files are read at the same time", (READ, DECOMPRESS))
        tried.discard(auto)
    for readers in sorted(tried):
        if readers > setting.readers:
            yield Candidate({"input.readers": readers}, "more files are read at the same time", (READ, DECOMPRESS))


def _batch_size(setting: Setting) -> Iterator[Candidate]:
    for factor in (2, 4):
        if setting.batch_size * factor <= _LARGEST_BATCH:
            why = "updates are fewer and larger, which changes what is learned"
            yield Candidate({BATCH_SIZE: setting.batch_size * factor}, why)
