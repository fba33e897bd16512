"""The lock of a pipeline root (base/locks.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fullpass.base.locks import holding
from fullpass.pipeline.root.layout import RUN_LOCK

_INSTEAD = "Wait for it to end (--wait does), stop it, or give this run another root."


@contextmanager
def run_lock(
    root: Path, *, what: str = "a run", wait: bool = False, tell: Callable[[str], None] = lambda line: None
) -> Iterator[None]:
    """Locks a pipeline root for a run, or for any other activity that must not happen during a run.

    Processes forked under the lock hold it until they end, so a root stays locked while a node of a killed run writes.

    Args:
        root: The pipeline root; created if missing.
        tell: Called with a line that names the holder of the lock, before it waits.

    Raises:
        UserError: `root` is locked and `wait` is false; the message names the holder.
    """
    root.mkdir(parents=True, exist_ok=True)
    with holding(root / RUN_LOCK, what=what, tell=tell, wait=wait, instead=_INSTEAD):
        yield
