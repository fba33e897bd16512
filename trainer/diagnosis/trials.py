"""Measures candidate settings in turn with the settings of the YAML."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from fullpass.trainer.diagnosis.candidates import Candidate
from fullpass.trainer.diagnosis.input_settings import (
    InputSettings,
    Speed,
    input_settings,
    read_once,
    readings_before,
    run_epochs,
)
from fullpass.trainer.diagnosis.profiled_training import ProfiledTraining
from fullpass.trainer.diagnosis.rates import Rate

WORTH_IT = 1.1
"""The factor by which a setting must raise examples per second to be recommended."""
ROUNDS = 3
"""The number of measurement rounds, if there is time; slow settings take part in the first round only."""
_PLAIN = 2.0
_MIN_SECONDS = 0.5
_FIRST_ROUND, _TOGETHER = 0.35, 0.25
_FINALISTS = 2

Log = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        candidate: The setting.
        per_second: The examples per second over a training, the first reading included; the median of the rounds.
        gain: The speed relative to the YAML as written, measured in the same round; the median of the rounds.
        least_gain: The smallest gain of any round.
        rounds: The number of rounds in which it was measured.
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
    """The results of all settings that were tried.

    Attributes:
        written: The trial of the YAML as written.
        epoch_rate: The rate of its updates, without the first reading.
        trials: The trials of the candidates.
        untried: The candidates for which there was no time.
    """

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
    profiled: ProfiledTraining, wanted: Sequence[Candidate], seconds: float, deadline: float, log: Log = lambda _: None
) -> TrialResults:
    """Measures settings in turn with the YAML as written, then the helpful ones combined.

    Args:
        profiled: The training that is diagnosed.
        wanted: The candidates, the most promising first.
        seconds: The time budget of all measurements.
        deadline: The time after which only indispensable measurements begin.
        log: Is called with the name of each measurement as it begins.
    """
    epochs = profiled.spec.config.training.max_epochs
    alone_seconds, together_seconds = (1 - _TOGETHER) * seconds, _TOGETHER * seconds
    contenders = _contenders(profiled, wanted, max_measurements=int(_FIRST_ROUND * alone_seconds / _MIN_SECONDS))
    contenders = _compete(profiled, contenders, alone_seconds, deadline, log)
    written, *others = contenders
    trials = [_trial(contender, written, epochs) for contender in others]
    untried = wanted[len(trials) :]
    together = _together(trials)
    if together is not None and time.perf_counter() < deadline:
        pair = _contenders(profiled, [together], max_measurements=4)
        first, last = _compete(profiled, pair, together_seconds, deadline, log)
        trials.append(_trial(last, first, epochs))
    middle = sorted(written.speeds, key=lambda speed: speed.per_second(epochs))[len(written.speeds) // 2]
    return TrialResults(_trial(written, written, epochs), middle.epochs, trials, untried)


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


def _compete(
    profiled: ProfiledTraining, contenders: list[_Contender], seconds: float, deadline: float, log: Log
) -> list[_Contender]:
    """Measures settings in turn, round by round, so that other load on the machine affects all of them alike.

    Only the fastest settings continue after the first round. After the deadline no further round begins, and the first
    round measures no further setting after the second.

    Returns:
        The settings that were measured.
    """
    epochs = profiled.spec.config.training.max_epochs
    in_race = contenders
    for number in range(ROUNDS):
        share = _FIRST_ROUND if number == 0 else (1 - _FIRST_ROUND) / (ROUNDS - 1)
        each = share * seconds / _measurements(in_race)
        if number and time.perf_counter() > deadline:
            break
        firsts: dict[object, Rate] = {}
        for i, contender in enumerate(in_race):
            if number == 0 and i > 1 and time.perf_counter() > deadline:
                contenders = in_race = in_race[:i]
                break
            log(f"round {number + 1} of {ROUNDS}: {contender.candidate.text}")
            contender.speeds.append(_speed(profiled, contender.setting, each, firsts))
        if number == 0:
            in_race = _fastest(in_race, epochs)
    return contenders


def _speed(profiled: ProfiledTraining, setting: InputSettings, seconds: float, firsts: dict[object, Rate]) -> Speed:
    """Returns the speed of a training under a setting; settings with the same first reading share its measurement."""
    if setting.first_reading not in firsts:
        firsts[setting.first_reading] = read_once(profiled, setting, seconds)
    readings = readings_before(profiled, setting)
    return Speed(firsts[setting.first_reading], run_epochs(profiled, setting, seconds), readings)


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


def _together(trials: Sequence[Trial]) -> Candidate | None:
    """Returns the helpful settings combined, with the best value per key; None if fewer than two helped."""
    helped = [trial for trial in trials if trial.candidate.same_updates and trial.worth_it]
    if len(helped) < 2:
        return None
    changes: dict[str, object] = {}
    for trial in sorted(helped, key=lambda trial: -trial.gain):
        changes = {**trial.candidate.changes, **changes}
    if any(changes == trial.candidate.changes for trial in helped):
        return None
    return Candidate(changes, "all of these together")
