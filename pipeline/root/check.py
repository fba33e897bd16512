"""Checks that a command makes before it uses a root: its SQLite files must be complete and undamaged."""

from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.locks import for_reading
from fullpass.base.owner_mark import read_owner, write_owner
from fullpass.pipeline.root.layout import RootLayout, lock_of
from fullpass.pipeline.root.sqlite_files import HISTORY_DAMAGED, METADATA_DAMAGED, verify

_SHOWN = 6
"""Names of foreign files in a message, which has to stay readable."""
_PATTERN_SIGNS = "*?[\\"
_MARK = "Fullpass made this folder, and removes old files in it (fullpass gc)."


def check_root(root: Path) -> None:
    """Checks the metadata and the history of a root.

    Args:
        root: The root. The caller holds its run lock if it will write.

    Raises:
        UserError: A file is damaged or missing.
    """
    layout = RootLayout(root)
    verify(layout.history, HISTORY_DAMAGED)
    if not layout.metadata.is_file() or not layout.metadata.stat().st_size:
        _refuse_artifacts_without_records(layout)
        return
    with for_reading(lock_of(layout.metadata)):
        verify(layout.metadata, METADATA_DAMAGED)


def check_own_root(root: Path) -> None:
    """Checks that Fullpass made a root, because it removes old files there.

    A root has a mark. A new folder, and one without visible files, may become one.

    Raises:
        UserError: The folder holds something else.
    """
    if RootLayout(root).mark.is_file() or not root.is_dir():
        return
    present = (path for path in root.iterdir() if not path.is_symlink())  # links are never followed
    foreign = sorted(path.name for path in present if path.name[0] != "." and path.name != "lost+found")
    if foreign:
        names = ", ".join(foreign[:_SHOWN]) + (f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else "")
        raise UserError(
            f"{root}: is no root of Fullpass's own, for it holds {names}. Old files in a root are removed, so a root "
            "holds nothing else. Name a new or empty folder (root:, --root), or move these files elsewhere."
        )


def claim_root(root: Path, name: str) -> None:
    """Makes a folder the root of a pipeline, and marks it.

    Args:
        name: The name of the pipeline.

    Raises:
        UserError: The path is a file, or the folder holds something else, or it is the root of another pipeline.
    """
    check_own_root(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{root}: the root must be a folder: {error.strerror}.") from error
    mark = RootLayout(root).mark
    owner = read_owner(mark)
    if owner is not None and owner != name:
        other = root.with_name(name if root.name != name else f"{name}-2")
        raise UserError(
            f"{root}: is the root of the pipeline {owner}, as its file {mark.name} says, and runs of {name} "
            f"would be taken for its own. Name another folder, such as --root {other}."
        )
    if owner is None:  # writing it again would empty it on a full disk
        write_owner(mark, _MARK, name)


def check_model_folder(folder: Path, what: str) -> None:
    """Checks that TensorFlow can load models from a folder, because it reads the path of weights as a glob pattern.

    Raises:
        UserError: The path contains a character of glob patterns.
    """
    if signs := [sign for sign in _PATTERN_SIGNS if sign in str(folder)]:
        raise UserError(
            f"{folder}: {what} has {' and '.join(signs)} in its path, which TensorFlow takes for a pattern, so it "
            "finds no model there. Name another folder, without * ? [ and \\; the data can stay where it is."
        )


def _refuse_artifacts_without_records(layout: RootLayout) -> None:
    left = sorted(path.parent.name for path in layout.root.glob("*/.system") if any(path.parent.glob("[!.]*/*")))
    if left:
        state = "empty" if layout.metadata.is_file() else "gone"
        raise UserError(
            f"{layout.metadata} is {state}, but {layout.root} holds files of earlier runs ({', '.join(left)}), and a "
            f"run would mix its files with theirs. {METADATA_DAMAGED}"
        )
