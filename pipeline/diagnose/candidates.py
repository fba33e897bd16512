"""Settings that may make a training faster, each with the reason to try it."""

from collections.abc import Iterator
from dataclasses import dataclass

from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining
from fullpass.pipeline.diagnose.settings import Changes, InputSettings, fits, input_settings, readers_of
from fullpass.pipeline.diagnose.stages import DECOMPRESS, ONCE, OPEN, READ, TRANSFORM
from fullpass.trainer.input.input_plan import MAX_READERS

BATCH_SIZE = "training.batch_size"
_SMALL_FILE_BYTES = 1 << 20
_MANY_FILES = 10
_SHARD_MB = 128
_LARGEST_BATCH = 8192


@dataclass(frozen=True)
class Candidate:
    """Settings to try."""

    changes: Changes
    why: str
    shortened_stages: tuple[str, ...] = ()

    @property
    def same_updates(self) -> bool:
        """Whether the candidate leaves the updates that the model learns from unchanged."""
        return BATCH_SIZE not in self.changes

    @property
    def text(self) -> str:
        """The settings as one line."""
        return ", ".join(f"{path}: {value}" for path, value in self.changes.items()) or "as written"


def candidates(profiled: ProfiledTraining, slowest: str) -> list[Candidate]:
    """Returns the candidates to measure: first those that shorten the slowest stage, last the batch sizes."""
    setting = input_settings(profiled, {})
    found = [*_compute_at(profiled), *_cache(profiled, setting), *_records(profiled), *_readers(profiled, setting)]
    sizes = [size for size in (2 * setting.batch_size, 4 * setting.batch_size) if size <= _LARGEST_BATCH]
    fewer = "updates are fewer and larger, which changes what the model learns"
    return [
        *sorted(found, key=lambda candidate: slowest not in candidate.shortened_stages),
        *(Candidate({BATCH_SIZE: size}, fewer) for size in sizes),
    ]


def _compute_at(profiled: ProfiledTraining) -> Iterator[Candidate]:
    placement, config = profiled.placement, profiled.spec.preprocessing
    if placement.at_input and not placement.in_model:
        changes = {
            f"features.{name}.compute_at": "transform" for name, f in config.features.items() if f.compute_at == "input"
        }
        if config.compute_at == "input":
            changes["input.compute_at"] = "transform"
        yield Candidate(changes, "features are computed once, when the examples are written", (TRANSFORM,))


def _cache(profiled: ProfiledTraining, setting: InputSettings) -> Iterator[Candidate]:
    config = profiled.spec.config.input
    fraction = config.memory_fraction
    if setting.kept == "files":
        yield Candidate(
            {"input.cache": "auto"}, "rows are kept between epochs, in memory if they fit, else on disk", ONCE
        )
    elif setting.kept == "disk" and config.cache == "disk" and fits(profiled, fraction):
        yield Candidate({"input.cache": "auto"}, "rows fit in memory")
    elif setting.kept == "disk" and fits(profiled, 2 * fraction) and fraction <= 0.4:
        yield Candidate({"input.memory_fraction": 2 * fraction}, "rows fit in this share of the free memory")


def _records(profiled: ProfiledTraining) -> Iterator[Candidate]:
    training, files = profiled.training, profiled.training.files
    if any(file.endswith(".gz") for file in files):
        yield Candidate(
            {"data.records.compression": "none"}, "records are not decompressed; they take more space", (DECOMPRESS,)
        )
    if len(files) > _MANY_FILES and profiled.bytes / len(files) < _SMALL_FILE_BYTES:
        larger = {"data.records.shard_mb": max(_SHARD_MB, training.shard_mb)}
        if training.readers > 1:
            larger["data.records.readers"] = 1
        yield Candidate(larger, "fewer and larger files are opened", (OPEN,))


def _readers(profiled: ProfiledTraining, setting: InputSettings) -> Iterator[Candidate]:
    files, why, stages = len(setting.source.files), "more files are read at the same time", (READ, DECOMPRESS)
    auto = readers_of("auto", files)
    tried = {min(files, MAX_READERS, number) for number in (4 * setting.readers, 2 * usable_cores())}
    if profiled.spec.config.input.readers != "auto" and auto > setting.readers:
        yield Candidate({"input.readers": "auto"}, why, stages)
        tried.discard(auto)
    for readers in sorted(tried):
        if readers > setting.readers:
            yield Candidate({"input.readers": readers}, why, stages)
