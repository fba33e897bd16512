"""Damaged SQLite files are noticed by SQLite's own check, and each message names its file."""

import sqlite3
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.base.state_file import DamagedState
from fullpass.pipeline.record.history import OccasionRecord, RunHistory
from fullpass.pipeline.root.check import check_model_folder, check_root
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.sqlite_files import open_sqlite, verify


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "a#b?c" / "file.sqlite"
    path.parent.mkdir()
    with open_sqlite(path, "Mend it.", "rwc") as database, database:
        database.execute("CREATE TABLE t (a TEXT)")
        database.executemany("INSERT INTO t VALUES (?)", [(f"value {n}" * 9,) for n in range(60)])
    return path


def test_it_is_made_where_it_was_asked_for_and_passes(file):
    assert {path.name for path in file.parent.parent.iterdir()} == {"a#b?c"}
    verify(file, "Mend it.")
    assert sqlite3.connect(file).execute("SELECT count(*) FROM t").fetchone() == (60,)


def test_a_damaged_page_is_noticed(file):
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * 64 + content[4160:])
    with pytest.raises(DamagedState, match=r"file\.sqlite is damaged: .* Mend it\."):
        verify(file, "Mend it.")


@pytest.mark.parametrize("size", [1, 50, 100, 4096, 5000])
def test_a_truncated_file_is_named(file, size):
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(DamagedState, match=r"file\.sqlite is damaged"):
        verify(file, "Mend it.")


def test_a_change_by_another_program_is_no_damage(file):
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO t VALUES ('more')")
    verify(file, "")


def a_history(root: Path) -> RunHistory:
    history = RunHistory(root)
    history.save_state("state", "text", ended=[OccasionRecord("k", "cron", "d", "e", "", "skipped", "")])
    return history


@pytest.mark.parametrize("spoil", [lambda b: b[:200], lambda b: b"no database at all" * 9, lambda b: b[:-9] + b"x" * 9])
def test_a_damaged_history_is_named_before_a_run_begins(tmp_path, spoil):
    a_history(tmp_path)
    file = RootLayout(tmp_path).history
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(UserError, match=r"history\.sqlite is damaged: .*remove it: a new one is created"):
        check_root(tmp_path)
    file.unlink()
    check_root(tmp_path)
    assert a_history(tmp_path).state("state") == "text"


def test_a_history_of_other_tables_is_named(tmp_path):
    with sqlite3.connect(RootLayout(tmp_path).history) as database:
        database.execute("CREATE TABLE runs (other TEXT)")
    with pytest.raises(UserError, match=r"history\.sqlite is damaged: no such column"):
        RunHistory(tmp_path).run_for("an occasion")


def a_root(root: Path, kind: str) -> RootLayout:
    layout = RootLayout(root)
    (root / "Ingest" / ".system").mkdir(parents=True)
    (root / "Ingest" / "examples" / "1").mkdir(parents=True)
    with sqlite3.connect(layout.metadata) as database:
        database.execute("CREATE TABLE Type (id INTEGER, name TEXT)")
        database.execute("CREATE TABLE Artifact (id INTEGER, type_id INTEGER)")
        database.execute("INSERT INTO Type VALUES (1, ?)", [kind])
        database.execute("INSERT INTO Artifact VALUES (1, 1)")
    return layout


@pytest.mark.parametrize("content", [b"", None])
def test_artifacts_whose_records_are_gone_are_not_mixed_with_new_ones(tmp_path, content):
    layout = a_root(tmp_path, "Examples")
    check_root(tmp_path)
    layout.metadata.unlink() if content is None else layout.metadata.write_bytes(content)
    with pytest.raises(UserError, match=r"metadata\.sqlite is (gone|empty), but .*\(Ingest\).*new root \(--root\)"):
        check_root(tmp_path)
    check_root(tmp_path / "new")


def test_a_check_that_quotes_what_is_no_text_is_told_in_words(file):
    with (
        pytest.raises(DamagedState, match=r"file\.sqlite is damaged: .*UTF-8. Mend it\."),
        open_sqlite(file, "Mend it."),
    ):
        b"\x80".decode()


@pytest.mark.parametrize("sign", ["*", "?", "[", "\\"])
def test_a_folder_in_which_tensorflow_finds_no_model_is_refused(tmp_path, sign):
    with pytest.raises(UserError, match="which TensorFlow takes for a pattern"):
        check_model_folder(tmp_path / f"a{sign}b" / "runs", "the root")
    check_model_folder(tmp_path / "a{b},c" / "runs", "the root")
