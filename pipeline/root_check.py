"""Checks that a command makes before it uses a root: its SQLite files must be complete and undamaged."""

from pathlib import Path

from fullpass.pipeline.root_layout import RootLayout, lock_of
from fullpass.pipeline.running.execution.locks import exclusive
from fullpass.pipeline.sqlite_files import HISTORY_DAMAGED, METADATA_DAMAGED, opened, seal, verify
from fullpass.preprocessing.errors import UserError

_OLD_TYPES = "components.artifacts."
_PATTERN_SIGNS = "*?[\\"


def check_root(root: Path, *, reuses: bool = False) -> None:
    """Checks the metadata and the history of a root.

    Args:
        root: The root. The caller holds its run lock if it will write.
        reuses: Whether artifacts of earlier runs will be reused regardless of their inputs (`--from`).

    Raises:
        UserError: A file is damaged or missing, or an earlier release wrote the artifacts to reuse.
    """
    layout = RootLayout(root)
    verify(layout.history, HISTORY_DAMAGED)
    if not layout.metadata.is_file() or not layout.metadata.stat().st_size:
        _refuse_artifacts_without_records(layout)
        return
    with exclusive(lock_of(layout.metadata)):
        verify(layout.metadata, METADATA_DAMAGED)
        with opened(layout.metadata, METADATA_DAMAGED) as database:
            old = database.execute(
                "SELECT t.name FROM Artifact a JOIN Type t ON t.id = a.type_id WHERE t.name LIKE ?", [f"{_OLD_TYPES}%"]
            ).fetchone()
    if old and reuses:
        raise UserError(
            f"{layout.metadata}: an earlier release of Fullpass wrote it, with other names of artifact types "
            f"({old[0]}), so no artifact can be reused. Run once without --from, or give the run a new root (--root)."
        )


def check_model_folder(folder: Path, what: str) -> None:
    """Checks that TensorFlow can load models from a folder, because it reads the path of weights as a glob pattern.

    Args:
        folder: Its path.
        what: Its name in the message.

    Raises:
        UserError: The path contains a character of glob patterns.
    """
    signs = [sign for sign in _PATTERN_SIGNS if sign in str(folder)]
    if signs:
        raise UserError(
            f"{folder}: {what} has {' and '.join(signs)} in its path, which TensorFlow takes for a pattern, so it "
            "finds no model there. Name another folder, without * ? [ and \\; the data can stay where it is."
        )


def seal_metadata(root: Path) -> None:
    """Writes the checksum of a root's metadata after a command that has changed them."""
    metadata = RootLayout(root).metadata
    if metadata.is_file():
        with exclusive(lock_of(metadata)):
            seal(metadata)


def _refuse_artifacts_without_records(layout: RootLayout) -> None:
    left = sorted(path.parent.name for path in layout.root.glob("*/.system") if any(path.parent.glob("[!.]*/*")))
    if left:
        state = "empty" if layout.metadata.is_file() else "gone"
        raise UserError(
            f"{layout.metadata} is {state}, but {layout.root} holds files of earlier runs ({', '.join(left)}), and a "
            f"run would mix its files with theirs. {METADATA_DAMAGED}"
        )
