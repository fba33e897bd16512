"""Settings tried in turn with what is written."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from trainer.diagnosis.candidates import Candidate
from trainer.diagnosis.rates import Rate
from trainer.diagnosis.settings import Setting, Speed, read_once, run_epochs, setting_of
from trainer.diagnosis.subject import Subject

WORTH_IT = 1.1
"""By how much a setting must raise examples per second before it is recommended."""
ROUNDS = 3
"""In which settings are tried, the slow ones in the first only, if there is time."""
_PLAIN = 2.0
_LEAST_SECONDS = 0.5
_FIRST_ROUND, _TOGETHER = 0.35, 0.25
_FINALISTS = 2

Say = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        candidate: the setting.
        per_second: examples per second over a training, the first reading included; median.
        gain: times what was measured as written, in turn with it; median of the rounds.
        least_gain: of any round.
        rounds: in which it was measured.
        wait: share of the time in which the model waits for input; median.
    """

    candidate: Candidate
    per_second: float
    gain: float
    wait: float
    least_gain: float
    rounds: int

    @property
    def worth_it(self) -> bool:
        """Whether it makes a training faster by a tenth or more, and not by chance: in all rounds, or twice as fast."""
        return self.gain >= WORTH_IT and self.least_gain > 1 and (self.rounds > 1 or self.gain >= _PLAIN)


@dataclass(frozen=True)
class Trials:
    """All settings that were tried.

    Attributes:
        written: what the YAML says.
        epoch_rate: of it, the updates alone, without the first reading.
        trials: the others.
        untried: settings for which there was no time.
    """

    written: Trial
    epoch_rate: Rate
    trials: Sequence[Trial]
    untried: Sequence[Candidate]


@dataclass
class _Contender:
    """A setting, and its speed in each round so far."""

    candidate: Candidate
    setting: Setting
    speeds: list[Speed] = field(default_factory=list)

    def gains(self, written: "_Contender", epochs: int) -> list[float]:
        """Returns times what is written, in each round."""
        pairs = zip(written.speeds, self.speeds, strict=False)
        return [after.per_second(epochs) / before.per_second(epochs) for before, after in pairs]


def try_settings(
    subject: Subject, wanted: Sequence[Candidate], seconds: float, deadline: float, say: Say = lambda _: None
) -> Trials:
    """Measures settings in turn with what is written, then those that helped all together.

    Args:
        subject: what is diagnosed.
        wanted: settings, the likeliest to help first.
        seconds: for all measurements.
        deadline: past which nothing is begun that can be left out.
        say: told what is being measured.
    """
    epochs = subject.training.config.training.epochs
    alone, apart = (1 - _TOGETHER) * seconds, _TOGETHER * seconds
    contenders = _contenders(subject, wanted, most=int(_FIRST_ROUND * alone / _LEAST_SECONDS))
    contenders = _compete(subject, contenders, alone, deadline, say)
    written, *others = contenders
    trials = [_trial(contender, written, epochs) for contender in others]
    untried = wanted[len(trials) :]
    together = _together(trials)
    if together is not None and time.perf_counter() < deadline:
        pair = _contenders(subject, [together], most=4)
        first, last = _compete(subject, pair, apart, deadline, say)
        trials.append(_trial(last, first, epochs))
    middle = sorted(written.speeds, key=lambda speed: speed.per_second(epochs))[len(written.speeds) // 2]
    return Trials(_trial(written, written, epochs), middle.epochs, trials, untried)


def _contenders(subject: Subject, wanted: Sequence[Candidate], most: int) -> list[_Contender]:
    """Returns what is written and as many settings as can be told with `most` measurements, one at least."""
    contenders = [_Contender(Candidate({}, "as written"), setting_of(subject, {}))]
    for candidate in wanted:
        more = [*contenders, _Contender(candidate, setting_of(subject, candidate.changes))]
        if len(contenders) > 1 and _measurements(more) > most:
            break
        contenders = more
    return contenders


def _measurements(contenders: Sequence[_Contender]) -> int:
    return len(contenders) + len({contender.setting.first_reading for contender in contenders})


def _compete(
    subject: Subject, contenders: list[_Contender], seconds: float, deadline: float, say: Say
) -> list[_Contender]:
    """Measures settings in turn, round by round, so that what else the machine does meets all of them.

    After the first round only the fastest go on. Past the deadline there is no further round, nor, in the first of
    them, a further setting after the second.

    Returns:
        The settings that were measured.
    """
    epochs = subject.training.config.training.epochs
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
            say(f"round {number + 1} of {ROUNDS}: {contender.candidate.text}")
            contender.speeds.append(_speed(subject, contender.setting, each, firsts))
        if number == 0:
            in_race = _fastest(in_race, epochs)
    return contenders


def _speed(subject: Subject, setting: Setting, seconds: float, firsts: dict[object, Rate]) -> Speed:
    """Returns the speed of a training under a setting; what settings have in common is measured once a round."""
    if setting.first_reading not in firsts:
        firsts[setting.first_reading] = read_once(subject, setting, seconds)
    return Speed(firsts[setting.first_reading], run_epochs(subject, setting, seconds))


def _fastest(contenders: Sequence[_Contender], epochs: int) -> list[_Contender]:
    """Returns what is written, and of the others those that are faster: some, and one batch size."""
    written, *others = contenders
    faster = [contender for contender in others if contender.gains(written, epochs)[0] > 1]
    faster.sort(key=lambda contender: -contender.gains(written, epochs)[0])
    alike = [contender for contender in faster if contender.candidate.learns_alike]
    sizes = [contender for contender in faster if not contender.candidate.learns_alike]
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
    """Returns the settings that helped as one, of each key the best; None if only one did."""
    helped = [trial for trial in trials if trial.candidate.learns_alike and trial.worth_it]
    if len(helped) < 2:
        return None
    changes: dict[str, object] = {}
    for trial in sorted(helped, key=lambda trial: -trial.gain):
        changes = {**trial.candidate.changes, **changes}
    if any(changes == trial.candidate.changes for trial in helped):
        return None
    return Candidate(changes, "all of these together")
