"""The rounds of settings, the measurements that settings share, and the settings that are tried.

The tests fake the measurements per setting; everything computed from them is real.
"""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from fullpass.pipeline.diagnose import settings, trials
from fullpass.pipeline.diagnose.rates import Rate, drain
from fullpass.pipeline.diagnose.trials import Candidate

pytestmark = pytest.mark.integration

EPOCHS = 4
FIRST = 0.004
"""Seconds per row of the first reading, which is 1 ms in each epoch."""


@pytest.fixture
def tried(monkeypatch):
    """Returns `tried({text: seconds per row in an epoch}, *settings)`: the trials, and the list of measurements."""

    def run(row_seconds: dict[str, float], *others):
        measured = []

        def input_settings(_, changes):
            reading = "rewritten" if any(path.startswith("data.") for path in changes) else "as written"
            name = ", ".join(f"{path}: {value}" for path, value in changes.items()) or "as written"
            return SimpleNamespace(name=name, source=reading, batch_size=100, shuffle=0)

        def read_once(_, setting, __):
            measured.append(f"first of {setting.source}")
            return Rate(1000, 1000 * FIRST, 0.0)

        def train(_, setting, *__):
            measured.append(setting.name)
            return Rate(1000, 1000 * row_seconds[setting.name], 0.0)

        monkeypatch.setattr(trials, "input_settings", input_settings)
        monkeypatch.setattr(settings, "_read_once", read_once)
        monkeypatch.setattr(settings, "_readings", lambda *_: 1.0)
        monkeypatch.setattr(settings, "batches", lambda _, setting, __: setting)
        monkeypatch.setattr(settings, "train_for", train)
        training = SimpleNamespace(max_epochs=EPOCHS)
        subject = SimpleNamespace(
            spec=SimpleNamespace(config=SimpleNamespace(training=training)), order=lambda *_: None, update=None
        )
        wanted = [Candidate(changes, "it may help") for changes in others]
        return trials.try_settings(subject, wanted, 100.0, log=lambda _: None), measured

    return run


CACHE, SHARDS = {"input.cache": "auto"}, {"data.records.shard_mb": 128}
ROW_SECONDS = {"as written": 0.009, "input.cache: auto": 0.001, "data.records.shard_mb: 128": 0.019}


def test_settings_take_turns_in_three_rounds_and_share_the_reading_of_the_same_files(tried):
    (written, cache, shards), measured = tried(ROW_SECONDS, CACHE, SHARDS)
    a_round = ["first of as written", "as written", "input.cache: auto", "first of rewritten"]
    assert measured == [*a_round, "data.records.shard_mb: 128"] * 3
    # The first reading adds 1 ms per row and epoch, which gives 10 ms as written, 2 ms with the cache, 20 ms in shards.
    assert [trial.gain for trial in (written, cache, shards)] == pytest.approx([1.0, 5.0, 0.5])
    assert written.per_second == pytest.approx(1 / 0.010)
    assert [trial.worth_it for trial in (written, cache, shards)] == [False, True, False]


@pytest.mark.parametrize(
    ("cache", "fits", "files", "megabytes", "expected"),
    [
        ("none", True, 4, 40, [CACHE]),
        ("none", True, 40, 20, [CACHE, SHARDS]),
        ("disk", True, 40, 80, [CACHE]),
        ("disk", False, 4, 4, []),
        ("auto", False, 11, 10, [SHARDS]),
    ],
)
def test_rows_are_kept_and_small_files_made_larger(monkeypatch, cache, fits, files, megabytes, expected):
    kept = {"none": "files", "disk": "disk", "auto": "memory" if fits else "disk"}[cache]
    monkeypatch.setattr(trials, "input_settings", lambda *_: SimpleNamespace(kept=kept))
    monkeypatch.setattr(trials, "fits", lambda *_: fits)
    subject = SimpleNamespace(
        spec=SimpleNamespace(config=SimpleNamespace(input=SimpleNamespace(cache=cache, memory_fraction=0.5))),
        training=SimpleNamespace(files=("file",) * files, shard_mb=1),
        bytes=megabytes << 20,
    )
    assert [dict(candidate.changes) for candidate in trials.candidates(subject)] == expected


def test_whole_passes_are_measured_where_that_is_asked_for():
    rate = drain(iter(tf.data.Dataset.range(5).repeat()), lambda _: 10, 1.0, passes_of=50)
    assert rate.rows >= 50 and rate.rows % 50 == 0
