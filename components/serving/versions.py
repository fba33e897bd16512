"""The served version of a folder of pushed models: the highest one, exchanged while requests are answered."""

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.push.push import served_version
from fullpass.components.serving.served_model import ServedModel, load_version

LOOK_SECONDS = 1.0
"""Seconds between looks at the folder, as TensorFlow Serving's `file_system_poll_wait_seconds`."""
_RETRY_SECONDS = 10.0
"""Seconds until a version that did not load is tried again."""


class ServedVersions:
    """The version that is served, and what became of others.

    A new version is loaded and warmed up beside the old one, then takes its place. A request keeps the version that it
    began with, so the old one is released after its last request. If the new one does not load, the old one stays.

    Attributes:
        current: The version that answers.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]):
        """Loads the highest version.

        Raises:
            UserError: There is none, or it cannot be served.
        """
        newest = served_version(folder)
        if newest is None:
            raise UserError(
                f"{folder}: no model to serve. Expected folders named by version (1, 2 ...), as `fullpass run` makes."
            )
        self._folder, self._tell = folder, tell
        self.current: ServedModel = load_version(folder / str(newest))
        self._states = {newest: ("AVAILABLE", "")}
        self._retry_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks at the folder no more; the current version stays."""
        self._stop.set()
        self._thread.join()

    def statuses(self) -> dict[int, dict[str, Any]]:
        """Returns version -> its status, as the REST API shows it."""
        return {
            version: {
                "version": str(version),
                "state": state,
                "status": {"error_code": "UNKNOWN" if error else "OK", "error_message": error},
            }
            for version, (state, error) in sorted(self._states.items(), reverse=True)
        }

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            newest = served_version(self._folder)
            changed = newest is not None and newest != self.current.version
            known = self._states.get(newest or 0, ("", ""))
            if changed and (not known[1] or time.monotonic() > self._retry_at):
                self._exchange(int(newest or 0))

    def _exchange(self, newest: int) -> None:
        before, told = self.current.version, self._states.get(newest)
        self._states = {before: self._states[before], newest: ("LOADING", "")}
        try:
            self.current = load_version(self._folder / str(newest))
        except Exception as error:  # whatever is wrong with the new version, the old one answers
            found = "END", str(error)
            if found != told:
                self._tell(f"Version {newest} cannot be served, so {before} stays: {found[1]}")
            self._states[newest] = found
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return
        self._states = {before: ("END", ""), newest: ("AVAILABLE", "")}
        self._tell(f"Now served: version {newest}, instead of {before}")
        gc.collect()  # the objects of a SavedModel refer to each other
