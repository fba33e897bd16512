"""`fullpass diagnose FILE`: which stage of a training's input takes its time, and which setting mends it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.execution.noise import noise_to
from pipeline.loading.load import Loaded
from pipeline.run import add_user_modules, pipeline_root

PAGE = "diagnose.html"


@dataclass(frozen=True)
class Diagnosed:
    """What was found and done.

    Attributes:
        diagnosis: a `trainer.diagnosis.diagnosis.Diagnosis`.
        page: the HTML page.
        changes: settings written into the YAML.
        diff: of the YAML; empty without changes.
    """

    diagnosis: Any
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
) -> Diagnosed:
    """Diagnoses the training of the newest run's examples, and writes a page beside that run's logs.

    Args:
        loaded: a file that passes `checks.require`.
        root: of the pipeline; by default as for `fullpass run`.
        seconds: that measuring may take.
        apply: write the settings that are worth it into the YAML.
        batch_size: a batch size too.
        say: told what is being measured.

    Raises:
        UserError: No run has written the examples that the YAML reads.
    """
    add_user_modules(loaded)
    with noise_to(Path(os.devnull)):
        from pipeline.diagnose.artifacts import newest_training
        from pipeline.diagnose.report import write_page
        from trainer.diagnosis.diagnosis import diagnose_training

    newest = newest_training(loaded, root.absolute() if root else pipeline_root(loaded))
    found = diagnose_training(newest.training, seconds=seconds, say=say)
    page = newest.logs / PAGE
    write_page(found, page)
    changes: dict[str, Any] = dict(found.best.candidate.changes) if apply and found.best else {}
    if apply and batch_size and found.best_batch_size:
        changes |= found.best_batch_size.candidate.changes
    return Diagnosed(found, page, changes, _written(loaded, changes))


def _written(loaded: Loaded, changes: dict[str, Any]) -> str:
    if not changes:
        return ""
    from pipeline.diagnose.apply import apply

    return apply(loaded.file, changes)
