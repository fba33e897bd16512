from pathlib import Path

import pytest

from fullpass.trainer.input.memory import available_memory, machine_memory


def container(root: Path, limit: str, used: int, group: str = "", reclaimable: int = 0) -> Path:
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {reclaimable}\n")
    if group:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(f"0::/{group}\n")
    return root


def test_a_machine_without_a_container(tmp_path):
    assert available_memory(tmp_path, 2048) == 2048


@pytest.mark.parametrize(
    ("limit", "used", "reclaimable", "expected"),
    [("1000", 400, 0, 600), ("1000", 400, 300, 900), ("max", 5, 0, 2048), ("100", 200, 0, 0)],
    ids=["less than the machine", "files read can be given up", "no limit", "over the limit"],
)
def test_a_container(tmp_path, limit, used, reclaimable, expected):
    assert available_memory(container(tmp_path, limit, used, reclaimable=reclaimable), 2048) == expected


def test_the_limit_of_a_group_further_out_holds(tmp_path):
    container(tmp_path, "1000", 400, group="outer/inner")
    (tmp_path / "sys/fs/cgroup/outer/memory.max").write_text("500\n")
    (tmp_path / "sys/fs/cgroup/outer/memory.current").write_text("450\n")
    assert available_memory(tmp_path, 2048) == 50


def test_all_memory_counts_whatever_is_in_use(tmp_path):
    assert machine_memory(tmp_path, 2048) == 2048
    assert machine_memory(container(tmp_path, "1000", 400), 2048) == 1000


def test_this_machine_has_some():
    assert available_memory() > 1 << 20
