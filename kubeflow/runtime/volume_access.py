"""Checks that a container may write to its volumes: the backend sets no fsGroup, and new disks belong to root."""

import os
import stat
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.files import is_address


def check_writable(folder: str) -> None:
    """Checks that a folder, or its nearest existing ancestor, is writable; URLs always pass.

    The check runs early, so no training is lost because of a volume that was never writable.

    Raises:
        UserError: The folder is not writable; the message names owner, mode and user.
    """
    if is_address(folder):
        return
    there = next(path for path in (Path(folder), *Path(folder).parents) if path.is_dir())
    if os.access(there, os.W_OK | os.X_OK):
        return
    found = there.stat()
    owner = f"user {found.st_uid} and group {found.st_gid}, {stat.filemode(found.st_mode)}"
    raise UserError(
        f"{folder}: {there} belongs to {owner}, and this container runs as user {os.geteuid()} of group "
        f"{os.getegid()}, which cannot write there. Make the volume writable for the group once, as in "
        "docs/kubeflow-cluster.md, Volumes."
    )
