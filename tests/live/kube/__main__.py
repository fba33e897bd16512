"""Runs a check in namespaces of its own: `python -m tests.live.kube FILE [ARGUMENT ...]` of pytest.

All processes of the check are in one process namespace, which ends with its first process. So nothing of it is left,
whether it succeeds, fails, is interrupted or killed. Groups of processes (cgroups) outlive their processes and are
removed here.
"""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.live.kube.node import GROUP_VARIABLE

_ALONE = (
    "setpriv --pdeathsig KILL unshare --net --mount --pid --ipc --uts --fork --kill-child --mount-proc "
    "--propagation private"
)


def main() -> int:
    """Runs pytest, and removes what it left; returns its exit status."""
    # pytest receives the signal as well, and ends first.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    with tempfile.TemporaryDirectory(prefix="check-kube-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        pytest = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", f"--basetemp={folder}/t"]
        group = Path(folder).name
        command = [*_ALONE.split(), *pytest, *sys.argv[1:]]
        process = subprocess.Popen(command, env={**os.environ, GROUP_VARIABLE: group})
        code = process.wait()
    for part in sorted(Path("/sys/fs/cgroup").glob(f"**/{group}/**/"), reverse=True):
        with suppress(OSError):
            part.rmdir()
    return code


if __name__ == "__main__":
    sys.exit(main())
