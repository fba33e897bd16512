import multiprocessing
import time
from pathlib import Path

import pytest

from fullpass.base import locks

# Fresh processes: a fork of this one would inherit the locks of whatever threads earlier tests started.
spawn = multiprocessing.get_context("spawn")
LIMIT_SECONDS = 300


def add(folder: Path) -> None:
    """Reads, waits and writes a counter 10 times."""
    counter = folder / "counter"
    for _ in range(10):
        with locks.exclusive(folder / "lock"):
            value = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(value + 1))


@pytest.mark.integration
def test_exclusive_sections_of_two_processes_do_not_overlap(tmp_path: Path):
    """Four processes each increment a counter 10 times: no increment is lost."""
    (tmp_path / "counter").write_text("0")
    processes = [spawn.Process(target=add, args=(tmp_path,), daemon=True) for _ in range(4)]
    for process in processes:
        process.start()
    assert [process.join(LIMIT_SECONDS) or process.exitcode for process in processes] == [0, 0, 0, 0]
    assert (tmp_path / "counter").read_text() == "40"


MOUNTS = """\
overlay / overlay rw,relatime 0 0
nfs:/a /mnt/shared nfs4 rw,vers=4.2,local_lock=none 0 0
nfs:/b /mnt/own nfs rw,vers=3,nolock 0 0
nfs:/c /mnt/flocks nfs rw,vers=3,local_lock=flock 0 0
bucket /mnt/my\\040bucket fuse.gcsfuse rw 0 0
/dev/sdb /mnt/shared/fast ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "shared"),
    [
        ("/home/ada/runs", True),
        ("/mnt/shared/runs", True),
        ("/mnt/own/runs", False),
        ("/mnt/flocks/runs", False),
        ("/mnt/my bucket/runs", False),
        ("/mnt/shared/fast/runs", True),
        ("/mnt/owner", True),
    ],
)
def test_which_file_systems_share_locks_between_hosts(folder: str, shared: bool):
    assert locks.shared_between_hosts(Path(folder), MOUNTS) is shared
