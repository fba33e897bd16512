"""Checks of the section `gates:`."""

from collections.abc import Iterator

from fullpass.base.errors import did_you_mean
from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.derived_columns import known_raw_columns
from fullpass.pipeline.authoring.loading.load import Loaded


def check_gate_columns(loaded: Loaded) -> Iterator[Finding]:
    """Columns with their own drift limits are raw columns that the run reads, and none is the label."""
    config = loaded.config
    columns = [name for name in known_raw_columns(config) if name != config.label.name]
    for name in config.gates.drift.features if columns else ():
        keys = ("gates", "drift", "features", name)
        if name == config.label.name:
            yield Finding(keys, "is the label, whose limits are in gates.label. Move them there.")
        elif name in config.data.derive:
            yield Finding(
                keys, "is a derived column; the gate compares raw columns. Name the columns it is derived from."
            )
        elif name not in columns:
            known = ", ".join(columns)
            yield Finding(keys, f"no column of that name is read.{did_you_mean(name, columns)} Accepted: {known}.")


def check_retrain(loaded: Loaded) -> Iterator[Finding]:
    """A gate with the policy retrain has a schedule that acts on it."""
    schedule = loaded.config.schedule
    if schedule is None or not schedule.drift:
        for name, check in loaded.config.gates.checks.items():
            if check.policy == "retrain":
                yield warning(
                    ("gates", name),
                    "retrain has an effect only in a schedule with `drift: true`, and there is none; a run treats it "
                    "as warn.",
                )
