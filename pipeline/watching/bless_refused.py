"""Blesses a refused model, unless it is worse than the served one on the requests of the log."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fullpass.components.push.push import served_version
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.registry.bless import bless
from fullpass.pipeline.registry.root_page import write_pages_of
from fullpass.pipeline.root.layout import served_folder
from fullpass.pipeline.watching.watch import watch


def bless_refused(loaded: Loaded, root: Path, *, model: str | None, force: bool, why: str) -> str:
    """Blesses and pushes a model as `registry.bless` does, by `not_worse_than: served` of `watch.live`.

    Args:
        root: The root of the pipeline.

    Returns:
        A sentence with the person and the pushed version.

    Raises:
        UserError: As `registry.bless`; or the model is worse than the served one, or that cannot be judged.
    """
    said = bless(loaded, root, model=model, force=force, why=why, judge=partial(_worse_than_served, loaded, root))
    write_pages_of(served_folder(loaded))
    return said


def _worse_than_served(loaded: Loaded, root: Path, export: str) -> Sequence[str]:
    asked = any(bounds.not_worse_than == "served" for bounds in loaded.config.watch.live.values())
    if not asked or served_version(served_folder(loaded)) is None:
        return ()
    report = watch(loaded, root=root, challenger=export)
    shadow = next((one.shadow for one in report.versions if one.served), None)
    return ["the log has no answered request to the served version"] if shadow is None else shadow.missed
