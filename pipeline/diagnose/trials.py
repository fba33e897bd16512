"""Measures candidate settings in turn with the settings of the YAML."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from fullpass.pipeline.diagnose.candidates import Candidate
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.settings import InputSettings, Speed, input_settings, measured_speed

WORTH_IT = 1.1
"""The factor by which a setting must raise examples per second to be recommended."""
ROUNDS = 3
"""The number of measurement rounds, if there is time; slow settings take part in the first round only."""
_PLAIN = 2.0
_MIN_SECONDS = 0.5
_FIRST_ROUND = 0.35
_FINALISTS = 2


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        candidate: The setting.
        per_second: The examples per second over a training, the first reading included; the median of the rounds.
        gain: The speed relative to the YAML as written, measured in the same round; the median of the rounds.
        wait: The share of the time in which the model waits for input; the median of the rounds.
        least_gain: The smallest gain of any round.
        rounds: The number of rounds in which it was measured.
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

    Only the fastest settings continue after the first round. After the deadline no further round begins, and the first
    round measures no further setting after the second.
    """
    epochs = profiled.spec.config.training.max_epochs
    contenders = _contenders(profiled, wanted, max_measurements=int(_FIRST_ROUND * seconds / _MIN_SECONDS))
    in_race = contenders
    for number in range(ROUNDS):
        if number and time.perf_counter() > deadline:
            break
        share = _FIRST_ROUND if number == 0 else (1 - _FIRST_ROUND) / (ROUNDS - 1)
        each = share * seconds / _measurements(in_race)
        firsts: dict[object, Rate] = {}
        for i, contender in enumerate(in_race):
            if number == 0 and i > 1 and time.perf_counter() > deadline:
                contenders = in_race = in_race[:i]
                break
            log(f"round {number + 1} of {ROUNDS}: {contender.candidate.text}")
            contender.speeds.append(measured_speed(profiled, contender.setting, each, firsts))
        if number == 0:
            in_race = _fastest(in_race, epochs)
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


def _fastest(contenders: Sequence[_Contender], epochs: int) -> list[_Contender]:
    """Returns the YAML as written, the fastest candidates that beat it, and the fastest batch size among these."""
    written, *others = contenders
    faster = [contender for contender in others if contender.gains(written, epochs)[0] > 1]
    faster.sort(key=lambda contender: -contender.gains(written, epochs)[0])
    alike = [contender for contender in faster if contender.candidate.same_updates]
    sizes = [contender for contender in faster if not contender.candidate.same_updates]
    return [written, *alike[:_FINALISTS], *sizes[:1]]


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
