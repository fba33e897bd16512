"""Settings that were measured to make trainings faster, tried in turn with the settings of the YAML.

`make bench-diagnose` plants slow inputs: keeping rows helped with slow files and gzip, larger files with tiny ones
(docs/diagnose.md). More readers, uncompressed records and a larger share of the memory won in none of these cases, so
they are not tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining, RecordSource
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.settings import Changes, Speed, fits, input_settings, measured_speed

WORTH_IT = 1.1
"""The factor by which a setting must raise examples per second to be recommended; less is not worth an edit."""
_ROUNDS = 3
"""The number of measurement rounds: the least with a median that one round of other load does not move."""
_SMALL_FILE_BYTES = 1 << 20
"""Mean bytes below which files are small: Ingest and Transform write such ones only if there are few rows."""
_MANY_FILES = 10
"""Files above which opening them may matter: so few are opened at once."""
_SHARD_MB = 128
"""The size in MB of the larger files: the default of `data.records.shard_mb`."""


@dataclass(frozen=True)
class Candidate:
    """Settings to try."""

    changes: Changes
    why: str

    @property
    def text(self) -> str:
        """The settings as one line."""
        return ", ".join(f"{path}: {value}" for path, value in self.changes.items()) or "as written"


@dataclass(frozen=True)
class Trial:
    """A setting that was tried; its figures are medians over the rounds.

    Attributes:
        per_second: The examples per second over a training, the first reading included.
        gain: The speed relative to the YAML as written, measured in the same round.
        wait: The share of the time in which the model waits for input.
        cores: The cores that the updates keep busy.
        least_gain: The least gain of a round.
    """

    candidate: Candidate
    per_second: float
    gain: float
    wait: float
    cores: float
    least_gain: float

    @property
    def worth_it(self) -> bool:
        """Whether it makes training at least a tenth faster, and not by chance: faster in each round."""
        return self.gain >= WORTH_IT and self.least_gain > 1


def try_settings(
    profiled: ProfiledTraining, wanted: Sequence[Candidate], seconds: float, log: Callable[[str], None]
) -> list[Trial]:
    """Measures the YAML as written, which is the first result, and other settings.

    They take turns, round by round, so that other load affects all of them alike.
    """
    tried = [Candidate({}, "as written"), *wanted]
    settings = [input_settings(profiled, candidate.changes) for candidate in tried]
    measurements = len(settings) + len({setting.source for setting in settings})
    share = seconds / _ROUNDS / measurements
    speeds: list[list[Speed]] = [[] for _ in settings]
    for number in range(_ROUNDS):
        firsts: dict[RecordSource, Rate] = {}
        for candidate, setting, found in zip(tried, settings, speeds, strict=True):
            log(f"round {number + 1} of {_ROUNDS}: {candidate.text}")
            found.append(measured_speed(profiled, setting, share, firsts))
    epochs = profiled.spec.config.training.max_epochs
    return [_trial(candidate, found, speeds[0], epochs) for candidate, found in zip(tried, speeds, strict=True)]


def _trial(candidate: Candidate, speeds: Sequence[Speed], written: Sequence[Speed], epochs: int) -> Trial:
    gains = [now.per_second(epochs) / was.per_second(epochs) for was, now in zip(written, speeds, strict=True)]
    return Trial(
        candidate,
        per_second=median(speed.per_second(epochs) for speed in speeds),
        gain=median(gains),
        wait=median(speed.wait(epochs) for speed in speeds),
        cores=median(speed.epochs.cores for speed in speeds),
        least_gain=min(gains),
    )


def candidates(profiled: ProfiledTraining) -> Iterator[Candidate]:
    """Yields the settings to try."""
    training, config = profiled.training, profiled.spec.config.input
    kept = input_settings(profiled, {}).kept
    if kept == "files":
        yield Candidate({"input.cache": "auto"}, "rows are kept between epochs, in memory if they fit, else on disk")
    elif config.cache == "disk" and fits(profiled, config.memory_fraction):
        yield Candidate({"input.cache": "auto"}, "rows fit in memory")
    if len(training.files) > _MANY_FILES and profiled.bytes / len(training.files) < _SMALL_FILE_BYTES:
        larger = {"data.records.shard_mb": max(_SHARD_MB, training.shard_mb)}
        yield Candidate(larger, "fewer and larger files are opened")
