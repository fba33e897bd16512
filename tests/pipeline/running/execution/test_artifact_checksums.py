"""Artifacts that were damaged between two runs are made anew, whatever was done to them; what is whole is reused."""

import os
import shutil
from pathlib import Path

import pytest

from fullpass.pipeline.record.events import new_run_id
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution import artifact_checksums, runner
from fullpass.pipeline.running.execution.artifact_checksums import discard_damaged
from tests.pipeline.registry.retention import nodes

pytestmark = pytest.mark.integration
RUN_FIRST = True


class Project:
    def __init__(self, folder: Path):
        self.root, self.target = folder / "runs", folder / "serving"

    def run(self) -> dict[str, str]:
        run_id = new_run_id()
        with locks.run_lock(self.root):
            self.said = discard_damaged(self.root)
            pipeline = nodes.pipeline(self.root, self.target, 1)
            result = runner.run(pipeline, log_dir=self.root / "logs" / run_id, run_id=run_id)
        assert result.ok, [node.error for node in result.nodes]
        return {node.id: str(node.status) for node in result.nodes}

    def file(self, pattern: str) -> Path:
        (found,) = self.root.glob(pattern)
        return found


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("checksums"))
    project.run()
    return project


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


SPOIL = {"flipped": flip, "cut": lambda f: f.write_bytes(f.read_bytes()[:-1]), "emptied": lambda f: f.write_bytes(b"")}
SPOIL |= {"removed": Path.unlink}


@pytest.mark.parametrize(
    "how", ["flipped", *(pytest.param(how, marks=pytest.mark.long) for how in SPOIL if how != "flipped")]
)
def test_damaged_examples_are_made_anew_from_the_source_and_said_so(project, how):
    before = project.file("Ingest/examples/*[0-9]/Split-train/rows")
    text = before.read_bytes()
    SPOIL[how](before)
    ran = project.run()
    (said,) = project.said
    assert str(before) in said and said.endswith("It is put aside, and Ingest produces it again.")
    assert ran["Ingest"] == "ok"
    after = project.file("Ingest/examples/*[0-9]/Split-train/rows")
    assert after.read_bytes() == text and after != before
    # Whole again: the next run has nothing to say, and reuses it.
    assert project.run()["Ingest"] == "cached" and project.said == []


def test_a_copied_root_leaves_damaged_files_of_the_other_where_they_are(project, tmp_path):
    shutil.copytree(project.root, tmp_path / "runs")
    file = project.file("Ingest/examples/*[0-9]/Split-train/rows")
    content = file.read_bytes()
    flip(file)
    assert discard_damaged(tmp_path / "runs") == [] and file.exists()
    file.write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"{", b'{"uri": "x", "files": []}', None])
def test_without_checksums_nothing_is_compared(project, content):
    for file in RootLayout(project.root).checksums.iterdir():
        file.unlink() if content is None else file.write_bytes(content)
    assert discard_damaged(project.root) == []


def test_large_files_are_read_only_where_their_time_has_changed(tmp_path, monkeypatch):
    file = tmp_path / "rows"
    file.write_bytes(b"rows")
    known = artifact_checksums._Checksums(str(tmp_path), (artifact_checksums._of(file, str(tmp_path)),))
    monkeypatch.setattr(artifact_checksums, "READ_BYTES", 0)
    reads = []
    damage_of = artifact_checksums.damage_of
    monkeypatch.setattr(
        artifact_checksums, "damage_of", lambda *of, read: (reads.append(file) if read else None, damage_of(*of))[1]
    )
    assert list(artifact_checksums._differences(known)) == [] and reads == []
    file.write_bytes(b"rows")
    os.utime(file, ns=(1, 1))
    assert list(artifact_checksums._differences(known)) == [] and reads == [file]
