"""Frees a root of what neither its newest runs, nor its pushed models, nor the next run of its YAML need."""

import shutil
import tempfile
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.components.ingest.spans.spans import find_window, has_spans, index_names
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.retention.collect import Freed, NextRun, collect
from fullpass.pipeline.root.check import check_own_root
from fullpass.pipeline.root.layout import RootLayout, served_folder


def free(loaded: Loaded, folder: Path, keep_runs: int, *, dry_run: bool = False) -> Freed:
    """Removes what nothing needs from the root `folder` of a pipeline; returns the sizes and numbers.

    Args:
        keep_runs: The number of newest runs to keep, 1 or more.
        dry_run: Whether to change nothing.

    Raises:
        UserError: The folder has no runs, its metadata is missing, or a run holds it.
    """
    layout = RootLayout(folder)
    check_own_root(folder)
    if not layout.metadata.is_file() and layout.logs.is_dir():
        raise UserError(
            f"{layout.metadata}: missing, though {folder} holds runs. It lists the files that they need, so nothing is "
            "removed. Restore it from a backup, or remove the folder and run anew."
        )
    if not layout.metadata.is_file():
        raise UserError(f"{folder}: no run has been made there. --root names another folder.")
    return collect(folder, served_folder(loaded), keep_runs, _next_run(loaded, folder), dry_run=dry_run)


def _next_run(loaded: Loaded, root: Path) -> NextRun:
    """Returns the spans and files that the next run reuses; no spans if the source cannot be read."""
    data, before = loaded.config.data, loaded.config.gates.history
    # Without spans, the data gate compares two versions of the data.
    versions = 1 if has_spans(data) else 2
    try:
        with tempfile.TemporaryDirectory() as scratch:
            # `find_window` adds to the index, so it works on a copy.
            index, copied = RootLayout(root).span_index, RootLayout(Path(scratch)).span_index
            if index.is_dir():
                shutil.copytree(index, copied, symlinks=True)
            window = find_window(data, loaded.resolve, index=copied)
        names = index_names(data, loaded.resolve)
    except UserError as error:
        print_text(f"The current window cannot be found, so only the windows of kept runs are kept: {error}", err=True)
        return NextRun(before=before, versions=versions)
    return NextRun({span.number for span in window.spans}, names, before, versions)
