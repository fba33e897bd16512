"""The exit codes of `fullpass`: their meanings, and the code for each outcome of a run or a scheduled occasion."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal

Outcome = Literal["success", "failure", "not_blessed", "gate_stop", "late", "skipped", "missed"]
"""The outcome of a run, or of an occasion of the schedule."""


class ExitCode(IntEnum):
    """An exit code; its docstring states when a command ends with it.

    Attributes:
        short: The meaning in a few words.

    Example:
        >>> f"{ExitCode.NO_SPAN} {ExitCode.NO_SPAN.short}"
        '4 no such span'
    """

    short: str

    DONE = 0, "done", "For `run`: the model is blessed, or `--to` ended the run before the evaluation."
    FAILED = (
        1,
        "a run failed",
        "A node or another command failed, the run was interrupted, or another run holds the root.",
    )
    WRONG_USAGE = 2, "the YAML or the command line is wrong", "Nothing was started; the message names every mistake."
    NOT_BLESSED = 3, "not blessed", "The run finished, but the model did not reach its thresholds and was not pushed."
    NO_SPAN = 4, "no such span", "The requested span is missing (`--span`, `on_late: fail`)."
    GATE_STOP = 5, "stopped by the data gate", "The data has changed. Nothing was trained; the served model stays."
    NOTHING_TO_TRAIN = (
        6,
        "nothing to train",
        (
            "For `schedule run --once`: the span is late (`on_late: skip`) or was trained on already. "
            "0 with `--skipped-ok`."
        ),
    )
    TERMINATED = 143, "stopped container", "A deadline, an eviction or a user stopped a container on Kubeflow."

    def __new__(cls, value: int, short: str, meaning: str) -> "ExitCode":
        """Returns a member whose docstring is its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.short = short
        member.__doc__ = meaning
        return member


OUTCOME_CODES: Mapping[Outcome, ExitCode] = {
    "success": ExitCode.DONE,
    "failure": ExitCode.FAILED,
    "not_blessed": ExitCode.NOT_BLESSED,
    "late": ExitCode.NO_SPAN,
    "gate_stop": ExitCode.GATE_STOP,
    "skipped": ExitCode.NOTHING_TO_TRAIN,
    "missed": ExitCode.NOTHING_TO_TRAIN,
}
WITH_VERDICT = (ExitCode.DONE, ExitCode.NOT_BLESSED, ExitCode.GATE_STOP)
"""Codes of runs that reached a verdict, of the evaluation or of the data gate."""


def outcome_of(code: int) -> Outcome:
    """Returns the outcome of a run that ended with an exit code.

    Example:
        >>> outcome_of(3), outcome_of(-9)
        ('not_blessed', 'failure')
    """
    known: tuple[Outcome, ...] = ("success", "not_blessed", "gate_stop", "late")
    return next((outcome for outcome in known if OUTCOME_CODES[outcome] == code), "failure")
