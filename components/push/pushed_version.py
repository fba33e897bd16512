"""The version that a model was pushed as: whether it is served now, and why not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fullpass.components.push.push import (
    ROLLED_BACK,
    damage_of_version,
    folder_of,
    origin_of,
    rolled_back,
    served_version,
    served_versions,
)

State = Literal["served", "kept", "put aside", "gone"]


@dataclass(frozen=True)
class PushedVersion:
    """The version that a run's model was pushed as, in this run or in an earlier one.

    Attributes:
        state: `served`; `kept`, behind a newer version; `put aside` by a rollback; or `gone`, removed since.
        served: The folder of the version that is served now; None if no version is served.
        damaged: The damage of the folder that it was pushed to, and what to do about it; None if it is undamaged.
    """

    folder: str
    state: State
    served: str | None
    damaged: str | None = None

    @property
    def version(self) -> str:
        """The name of its folder."""
        return Path(self.folder).name

    @property
    def not_served(self) -> str:
        """The reason why the version is not served, the served one, and how to change that; empty if it is served."""
        target = Path(self.folder).parent
        if self.state == "served":
            return f"version {self.version} is damaged: {self.damaged}" if self.damaged else ""
        why = {
            "kept": "a newer one was pushed after it",
            "put aside": "a rollback put it aside",
            "gone": f"it is no longer in {target}",
        }[self.state]
        instead = f"version {Path(self.served).name} is served" if self.served else "no version is served"
        how = (
            "To push it again: fullpass run FILE --from Pusher --fresh"
            if self.state == "gone"
            else f"To serve it: fullpass rollback {target} --to {self.version}"
        )
        return f"version {self.version} is not served, as {why}; {instead}. {how}"


def pushed_version(folder: str) -> PushedVersion:
    """Returns the version in a folder that a run's model was pushed to, with its state and the served version."""
    target = Path(folder).parent
    now, state = served_version(target), state_now(folder)
    served = str(target / str(now)) if now is not None else None
    return PushedVersion(folder, state, served, damage_of_version(Path(folder)) if state == "served" else None)


def pushed_version_of(model: str, target: Path) -> PushedVersion | None:
    """Returns the newest version in a folder that is a copy of a model; None if it was not pushed.

    Args:
        model: The address of the model's artifact.
    """
    folders = (folder_of(target, version) for version in sorted(served_versions(target) + rolled_back(target))[::-1])
    found = next((folder for folder in folders if origin_of(folder) == model), None)
    return pushed_version(str(target / found.name.removeprefix(ROLLED_BACK))) if found is not None else None


def state_now(folder: str) -> State:
    """Returns the state of the version of a folder, as `PushedVersion` has it, without reading the version."""
    target, version = Path(folder).parent, int(Path(folder).name)
    if version in (present := served_versions(target)):
        return "served" if version == present[-1] else "kept"
    return "put aside" if version in rolled_back(target) else "gone"
