"""Settings that may make a training faster, measured in turn with the settings of the YAML."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.settings import (
    Changes,
    InputSettings,
    Speed,
    fits,
    input_settings,
    measured_speed,
    readers_of,
)
from fullpass.pipeline.diagnose.stages import DECOMPRESS, ONCE, OPEN, READ
from fullpass.trainer.input.input_plan import MAX_READERS

WORTH_IT = 1.1
"""The factor by which a setting must raise examples per second to be recommended."""
ROUNDS = 3
"""The number of measurement rounds, if there is time."""
_PLAIN = 2.0
_MIN_SECONDS = 0.5
_SMALL_FILE_BYTES = 1 << 20
_MANY_FILES = 10
_SHARD_MB = 128


@dataclass(frozen=True)
class Candidate:
    """Settings to try."""

    changes: Changes
    why: str
    shortened_stages: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The settings as one line."""
        return ", ".join(f"{path}: {value}" for path, value in self.changes.items()) or "as written"


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        per_second: The examples per second over a training, the first reading included; the median of the rounds.
        gain: The speed relative to the YAML as written, measured in the same round; the median of the rounds.
        wait: The share of the time in which the model waits for input; the median of the rounds.
    """

    candidate: Candidate
    per_second: float
    gain: float
    wait: float
    least_gain: float
    rounds: int

    @property
    def worth_it(self) -> bool:
        """Whether it makes training at least a tenth faster, and not by chance: in several rounds, or twice as fast."""
        return self.gain >= WORTH_IT and self.least_gain > 1 and (self.rounds > 1 or self.gain >= _PLAIN)


@dataclass(frozen=True)
class TrialResults:
    """The results of all settings that were tried."""

    written: Trial
    epoch_rate: Rate
    trials: Sequence[Trial]
    untried: Sequence[Candidate]


@dataclass
class _Contender:
    """A setting, and its speed in each round so far."""

    candidate: Candidate
    setting: InputSettings
    speeds: list[Speed] = field(default_factory=list)

    def gains(self, written: "_Contender", epochs: int) -> list[float]:
        """Returns the speed relative to the YAML as written, per round."""
        pairs = zip(written.speeds, self.speeds, strict=False)
        return [after.per_second(epochs) / before.per_second(epochs) for before, after in pairs]


def try_settings(
    profiled: ProfiledTraining,
    wanted: Sequence[Candidate],
    seconds: float,
    deadline: float,
    log: Callable[[str], None] = lambda _: None,
) -> TrialResults:
    """Measures settings in turn with the YAML as written, round by round, so that other load affects all of them alike.

    What is slower in the first round is not measured again. After the deadline no further round begins, and the first
    round measures no further setting after the second.
    """
    epochs = profiled.spec.config.training.max_epochs
    contenders = _contenders(profiled, wanted, max_measurements=int(seconds / ROUNDS / _MIN_SECONDS))
    in_race = contenders
    for number in range(ROUNDS):
        if number and time.perf_counter() > deadline:
            break
        share = seconds / ROUNDS / _measurements(in_race)
        firsts: dict[object, Rate] = {}
        for i, contender in enumerate(in_race):
            if number == 0 and i > 1 and time.perf_counter() > deadline:
                contenders = in_race = in_race[:i]
                break
            log(f"round {number + 1} of {ROUNDS}: {contender.candidate.text}")
            contender.speeds.append(measured_speed(profiled, contender.setting, share, firsts))
        in_race = [each for each in in_race if each is contenders[0] or each.gains(contenders[0], epochs)[0] > 1]
    written, *others = contenders
    middle = sorted(written.speeds, key=lambda speed: speed.per_second(epochs))[len(written.speeds) // 2]
    trials = [_trial(contender, written, epochs) for contender in others]
    return TrialResults(_trial(written, written, epochs), middle.epochs, trials, wanted[len(trials) :])


def _contenders(profiled: ProfiledTraining, wanted: Sequence[Candidate], max_measurements: int) -> list[_Contender]:
    """Returns the YAML as written and as many candidates as `max_measurements` allows, at least one."""
    contenders = [_Contender(Candidate({}, "as written"), input_settings(profiled, {}))]
    for candidate in wanted:
        more = [*contenders, _Contender(candidate, input_settings(profiled, candidate.changes))]
        if len(contenders) > 1 and _measurements(more) > max_measurements:
            break
        contenders = more
    return contenders


def _measurements(contenders: Sequence[_Contender]) -> int:
    return len(contenders) + len({contender.setting.first_reading for contender in contenders})


def _trial(contender: _Contender, written: _Contender, epochs: int) -> Trial:
    gains = contender.gains(written, epochs)
    return Trial(
        contender.candidate,
        per_second=median(speed.per_second(epochs) for speed in contender.speeds),
        gain=median(gains),
        wait=median(speed.wait(epochs) for speed in contender.speeds),
        least_gain=min(gains),
        rounds=len(contender.speeds),
    )


def candidates(profiled: ProfiledTraining, slowest: str) -> list[Candidate]:
    """Returns the candidates to measure, first those that shorten the slowest stage."""
    setting = input_settings(profiled, {})
    found = [*_cache(profiled, setting), *_records(profiled), *_readers(profiled, setting)]
    return sorted(found, key=lambda candidate: slowest not in candidate.shortened_stages)


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
