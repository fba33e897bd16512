"""The findings that checks yield: a path in the file and the problem there."""

from dataclasses import dataclass
from typing import Literal

from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path


@dataclass(frozen=True)
class Finding:
    """A problem whose line has not been looked up yet."""

    keys: Keys
    message: str
    severity: Literal["error", "warning"] = "error"

    def problem(self, loaded: Loaded) -> Problem:
        """Returns the finding with its path as text and its line."""
        return Problem(format_path(self.keys), loaded.line(*self.keys), self.message, self.severity)


def warning(keys: Keys, message: str) -> Finding:
    """Returns a finding that does not stop the run."""
    return Finding(keys, message, "warning")
