import sqlite3
from dataclasses import replace

from fullpass.pipeline.record.history import RunHistory, RunRecord
from fullpass.pipeline.root.layout import RootLayout

RUN = RunRecord("1", "2026-01-01T03:00:05+00:00", "2026-01-01T03:01:05+00:00", "success", 0, "d", "c", True)


def test_the_history_of_an_earlier_release_is_read_and_written_on(tmp_path):
    with sqlite3.connect(RootLayout(tmp_path).history) as database:
        database.execute(
            "CREATE TABLE run (run_id TEXT PRIMARY KEY, occasion TEXT, started TEXT, ended TEXT, outcome TEXT, "
            "exit_code INTEGER, message TEXT, unit TEXT, first INTEGER, last INTEGER, data TEXT, config TEXT, "
            "trained INTEGER, pushed_to TEXT)"
        )
        values = ("0", "", RUN.started, RUN.ended, "success", 0, "", None, None, None, "d", "c", 1, None)
        database.execute(f"INSERT INTO run VALUES ({', '.join('?' * 14)})", values)
    newer = replace(RUN, measured='{"metrics": {"auc": 0.9}}')
    RunHistory(tmp_path).record(newer)
    RunHistory(tmp_path).record(replace(RUN, run_id="2"))
    assert RunHistory(tmp_path).newest(10) == [replace(RUN, run_id="2"), newer, replace(RUN, run_id="0")]
