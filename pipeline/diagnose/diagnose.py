"""`fullpass diagnose FILE`: finds the slowest stage of the training input and the setting that speeds it up."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullpass.base.user_modules import use_modules_of
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.diagnose.apply_settings import apply as apply_settings
from fullpass.pipeline.diagnose.artifacts import newest_training
from fullpass.pipeline.diagnose.diagnosis import Diagnosis, diagnose_training
from fullpass.pipeline.diagnose.report import write_page
from fullpass.pipeline.root.layout import RootLayout, pipeline_root

PAGE = "diagnose.html"


@dataclass(frozen=True)
class DiagnosisResult:
    """A diagnosis, its page, the settings written into the YAML, and the diff of the YAML; empty without changes."""

    diagnosis: Diagnosis
    page: Path
    changes: dict[str, Any]
    diff: str


def diagnose(
    loaded: Loaded,
    *,
    root: Path | None = None,
    seconds: float = 60.0,
    apply: bool = False,
    batch_size: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> DiagnosisResult:
    """Diagnoses a training on the examples of the newest run, and writes a page beside the logs of that run.

    Args:
        loaded: A file that passes `checks.require`.
        root: The pipeline root; by default as for `fullpass run`.
        seconds: The time limit of the measurements.
        apply: Whether to write the recommended settings into the YAML.
        batch_size: Whether to write the recommended batch size too.
        say: Called with a line about each measurement.

    Raises:
        UserError: No run has written the examples that the YAML reads.
    """
    use_modules_of(loaded.folder)
    root = pipeline_root(loaded, root)
    training, run_id = newest_training(loaded, root)
    found = diagnose_training(training, seconds=seconds, log=say)
    page = RootLayout(root).run_logs(run_id) / PAGE
    write_page(found, page)
    changes: dict[str, Any] = dict(found.best.candidate.changes) if apply and found.best else {}
    if apply and batch_size and found.best_batch_size:
        changes |= found.best_batch_size.candidate.changes
    return DiagnosisResult(found, page, changes, apply_settings(loaded.file, changes) if changes else "")
