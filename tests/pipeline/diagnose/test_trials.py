"""The settings that pass to the next round, the measurements shared by settings, and the settings that are worth it.

The tests fake the measurements per setting; everything computed from them is real.
"""

import math
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
    """Returns `tried({text of a setting: seconds per row in an epoch})`: the trials, and the list of measurements."""

    def run(row_seconds: dict[str, float], *, seconds: float = 100.0, deadline: float = math.inf, others=()):
        measured = []

        def input_settings(_, changes):
            reading = "rewritten" if any(path.startswith("data.") for path in changes) else "as written"
            name = ", ".join(f"{path}: {value}" for path, value in changes.items()) or "as written"
            return SimpleNamespace(name=name, first_reading=reading, batch_size=100, shuffle=0)

        def read_once(_, setting, __):
            measured.append(f"first of {setting.first_reading}")
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
        return trials.try_settings(subject, wanted, seconds, deadline), measured

    return run


CACHE, READERS, RECORDS = {"input.cache": "auto"}, {"input.readers": 4}, {"data.records.compression": "none"}
ROW_SECONDS = {
    "as written": 0.009,
    "input.cache: auto": 0.001,
    "input.readers: 4": 0.0089,
    "data.records.compression: none": 0.003,
    "data.records.shard_mb: 128": 0.0091,
}
SHARDS = {"data.records.shard_mb": 128}
EVERY = (CACHE, READERS, RECORDS, SHARDS)


def test_what_is_faster_in_the_first_round_is_measured_in_every_round(tried):
    found, measured = tried(ROW_SECONDS, others=EVERY)
    rounds = {trial.candidate.text: trial.rounds for trial in found.trials}
    faster = {"input.cache: auto", "input.readers: 4", "data.records.compression: none"}
    assert {text for text, number in rounds.items() if number == 3} == faster
    assert rounds["data.records.shard_mb: 128"] == 1
    # The first reading adds 1 ms per row and epoch, which gives 10 ms as written, and 2 ms with the cache.
    gains = {trial.candidate.text: trial.gain for trial in found.trials}
    assert gains["input.cache: auto"] == pytest.approx(5.0)
    assert gains["data.records.compression: none"] == pytest.approx(2.5)
    assert measured.count("as written") == 3
    assert measured.count("first of as written") == 3, "once a round, for all that read the same files"


def test_what_is_slower_in_the_first_round_is_not_measured_again(tried):
    slower = {**ROW_SECONDS, "input.cache: auto": 0.02, "input.readers: 4": 0.01}
    found, measured = tried(slower, others=(CACHE, READERS))
    assert [trial.rounds for trial in found.trials] == [1, 1]
    assert not any(trial.worth_it for trial in found.trials)
    assert (measured.count("as written"), measured.count("input.cache: auto")) == (3, 1)


def test_with_little_time_the_likeliest_is_tried_and_the_others_are_told(tried):
    found, _ = tried(ROW_SECONDS, seconds=1.0, others=EVERY)
    assert [dict(trial.candidate.changes) for trial in found.trials] == [CACHE]
    assert [dict(candidate.changes) for candidate in found.untried] == [READERS, RECORDS, SHARDS]


def test_past_the_deadline_one_setting_is_tried_once(tried):
    found, measured = tried(ROW_SECONDS, deadline=-math.inf, others=EVERY)
    assert [(dict(trial.candidate.changes), trial.rounds) for trial in found.trials] == [(CACHE, 1)]
    assert len(found.untried) == 3
    assert measured == ["first of as written", "as written", "input.cache: auto"]
    assert found.written.per_second == pytest.approx(1 / 0.010)


def test_whole_passes_are_measured_where_that_is_asked_for():
    rate = drain(iter(tf.data.Dataset.range(5).repeat()), lambda _: 10, 1.0, passes_of=50)
    assert rate.rows >= 50 and rate.rows % 50 == 0
