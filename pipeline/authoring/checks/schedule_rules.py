"""Checks of `schedule:` and `notify:` against the source and this machine."""

import os
import shutil
from collections.abc import Iterator

from fullpass.base.errors import UserError
from fullpass.components.ingest.spans.spans import path_pattern, span_unit
from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.schedule_config import length

_DATED = ("year", "month", "day", "hour")


def check_schedule(loaded: Loaded) -> Iterator[Finding]:
    """A schedule fits its source: the source has spans to wait for, and every key has an effect."""
    schedule = loaded.config.schedule
    if schedule is None:
        return
    try:
        unit = span_unit(loaded.config.data)
    except UserError:
        return  # The checks of the source report it.
    given = schedule.model_fields_set
    if schedule.cron is None and not schedule.new_span and not schedule.drift:
        yield warning(("schedule",), "starts nothing by itself: it has neither cron nor new_span nor drift.")
    if schedule.drift and schedule.new_span:
        yield Finding(("schedule", "drift"), "has nothing to decide: new_span trains on every span. Keep one of them.")
    elif schedule.drift and all(check.policy != "retrain" for check in loaded.config.gates.checks.values()):
        yield Finding(
            ("schedule", "drift"),
            "no check of gates decides when to train. Give one the policy retrain, such as gates: {drift: retrain}.",
        )
    if (schedule.new_span or schedule.drift) and unit is None:
        yield Finding(
            ("schedule", "new_span" if schedule.new_span else "drift"),
            "data.source has no spans that could arrive. Put a span field in its path, such as "
            "trips/{YYYY}-{MM}-{DD}.csv, or name the column of spans (data.span), or give a cron line instead.",
        )
    if "lag" in given and (unit in (None, "number") or schedule.cron is None):
        yield Finding(("schedule", "lag"), "counts spans back from a time of cron; it needs cron, and spans by date.")
    if length(schedule.timeout) and length(schedule.timeout) < length(schedule.poll):
        yield Finding(
            ("schedule", "timeout"),
            f"({schedule.timeout}) ends before a second look, which comes after poll ({schedule.poll}).",
        )
    if schedule.wait_for is not None:
        yield from _marker_findings(loaded, schedule.wait_for)


def check_notify(loaded: Loaded) -> Iterator[Finding]:
    """Notification programs exist and environment variables are set on this machine."""
    for number, hook in enumerate(loaded.config.notify):
        if hook.command is not None and not _is_program(loaded, hook.command[0]):
            hint = _script_hint(loaded, hook.command[0])
            yield warning(("notify", number, "command"), f'"{hook.command[0]}" is no program on this machine.{hint}')
        for key, name in (("url_env", hook.url_env), ("token_env", hook.token_env)):
            if name is not None and not os.environ.get(name):
                yield warning(("notify", number, key), f"the environment variable {name} is not set here.")


def _marker_findings(loaded: Loaded, written: str) -> Iterator[Finding]:
    keys = ("schedule", "wait_for")
    unit = span_unit(loaded.config.data)
    try:
        pattern = path_pattern(written, loaded.resolve)
    except UserError as error:
        yield Finding(keys, str(error).removeprefix("data.source.path: "))
        return
    if pattern is None:
        if unit is not None:
            yield warning(keys, "names one path for all spans: once it exists, every span counts as complete.")
        return
    if unit is None:
        return
    if pattern.unit != unit and pattern.unit not in _DATED[: _DATED.index(unit) if unit in _DATED else 0]:
        yield Finding(
            keys,
            f"is per {pattern.unit}, but a span of data.source is a {unit}. Give it the same fields, or only "
            "the first of them if one marker covers several spans.",
        )


def _script_hint(loaded: Loaded, name: str) -> str:
    """Returns how to start a script that exists relative to the YAML's folder; "" if there is none."""
    if not (loaded.folder / name).is_file():
        return ""
    if "/" in name:
        return f" The file is not executable: chmod +x {name}."
    return f" A script beside this file is ./{name}, and needs chmod +x."


def _is_program(loaded: Loaded, name: str) -> bool:
    """Returns whether a program exists: on PATH, or relative to the YAML's folder if its name contains a slash."""
    return shutil.which(str(loaded.folder / name) if "/" in name else name) is not None
