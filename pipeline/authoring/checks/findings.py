"""What a check yields: a path in the file and what is wrong there."""

from dataclasses import dataclass
from typing import Literal

from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path


@dataclass(frozen=True)
class Finding:
    """A problem before its line is looked up."""

    keys: Keys
    message: str
    severity: Literal["error", "warning"] = "error"

    def problem(self, loaded: Loaded) -> Problem:
        """Returns the finding with its path as text and its line."""
        return Problem(format_path(self.keys), loaded.line(*self.keys), self.message, self.severity)


def warning(keys: Keys, message: str) -> Finding:
    """Returns a finding that lets the run go on."""
    return Finding(keys, message, "warning")
