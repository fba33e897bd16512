"""What slips past the check of the YAML is in no byte that a run, a push or a compilation leaves behind.

The check is switched off here. A secret of every shape is planted: in comments, in a command, and where the run needs
it, in the address of the data.
"""

import gzip
import sqlite3
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from fullpass.base.secret_formats import BLANK
from fullpass.pipeline.authoring.loading import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.running.run import run
from tests.planted_secrets import PLANTED

RUN_FIRST = True
YAML = """\
name: trips
data:
  source: {{format: csv, path: "{path}"}}
  split: {{method: hash, column: trip, ratios: {{train: 3, eval: 1}}}}
  bad_rows: {{max_fraction: 0.05}}
label: {{name: tip, task: regression}}
features: {{fare: number}}
model: linear
training: {{epochs: 1}}
evaluation: {{thresholds: {{rmse: {{max: 1000}}}}}}
beam: {{workers: 1}}
notify:
  - on: [success]
    command: [sh, -c, 'cat > told.json', sh, {command}]
"""
ADDRESS = "memory://me:pL4nted97Secret@store/trips.csv?X-Amz-Signature=pL4nted98Secret"
ROWS = "trip,fare,tip\n" + "".join(f"{n},{n % 7},{n % 3}\n" for n in range(400)) + "x,y,z\n"


def _commands():
    return [planted.text for planted in PLANTED if "'" not in planted.text]


@pytest.fixture
def unchecked(monkeypatch):
    """No secret is refused."""
    monkeypatch.setattr(load, "secret_problems", lambda *_: [])


@pytest.fixture
def planted_file(tmp_path):
    """A pipeline whose data lies at an address with two secrets, and whose comments and command hold all the others."""
    command = ", ".join(f"'{text}'" for text in _commands())
    comments = "".join(f"# {planted.text}\n" for planted in PLANTED)
    file = tmp_path / "project" / "pipeline.yaml"
    file.parent.mkdir()
    file.write_text(comments + YAML.format(path=ADDRESS, command=command))
    return file


def secrets_in(folder: Path) -> dict[str, list[str]]:
    """Returns which planted secrets stand in which file, compressed text and pages of SQLite included."""
    wanted = [planted.secret for planted in PLANTED] + ["pL4nted97Secret", "pL4nted98Secret"]
    found: dict[str, list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content += gzip.decompress(content)
        if path.suffix == ".parquet":
            content += str(pq.read_table(path).to_pylist()).encode()
        if hits := [secret for secret in wanted if secret.encode() in content]:
            found[str(path.relative_to(folder))] = hits
    return found


def test_the_search_finds_what_is_there(tmp_path):
    (tmp_path / "a").write_text(f"x{PLANTED[3].secret}y")
    with sqlite3.connect(tmp_path / "b") as database:
        database.execute("CREATE TABLE t AS SELECT ? AS v", [PLANTED[4].text])
    assert secrets_in(tmp_path) == {"a": [PLANTED[3].secret], "b": [PLANTED[4].secret]}


def test_the_check_refuses_all_of_them_with_a_way_out(planted_file):
    with pytest.raises(ConfigError) as refused:
        load.load(planted_file)
    problems = {problem.path: problem.message for problem in refused.value.problems}
    commands = [path for path in problems if path.startswith("notify[0].command[")]
    assert "data.source.path" in problems and len(commands) == len(_commands())
    assert all("environment" in message for message in problems.values())
    assert not any(planted.secret in str(refused.value) for planted in PLANTED)


def _put(rows: str) -> None:
    """Writes the file at the address into the memory of this process, which its nodes inherit."""
    with fsspec.filesystem("memory").open(ADDRESS.removeprefix("memory://"), "wb") as out:
        out.write(rows.encode())


@pytest.mark.long
def test_a_run_and_a_push_leave_none(unchecked, planted_file, tmp_path, capfd):
    _put(ROWS)
    loaded = load.load(planted_file)
    code = run(loaded)
    printed = capfd.readouterr()
    assert code == 0, printed.out + printed.err
    project = planted_file.parent
    assert (project / "told.json").is_file() and (project / "serving" / "current").exists()
    original = planted_file.read_bytes()
    planted_file.unlink()
    assert b"pL4nted97Secret" in original
    assert secrets_in(project) == {}
    assert not any(planted.secret in printed.out + printed.err for planted in PLANTED)


@pytest.mark.integration
def test_a_run_that_fails_leaves_none(unchecked, planted_file, capfd):
    """The file at the address has no rows, and the error names it: in the log, the history, and on the terminal."""
    _put("trip,fare,tip\n")
    code = run(load.load(planted_file), RunRequest(to_node="Ingest"))
    printed = capfd.readouterr()
    assert code == 1 and f"no rows in memory:///{BLANK}@store" in " ".join(printed.out.split())
    planted_file.unlink()
    assert secrets_in(planted_file.parent) == {}
    assert "pL4nted" not in printed.out + printed.err
