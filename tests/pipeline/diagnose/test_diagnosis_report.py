"""What is made of measured figures: verdict, table, JSON."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fullpass.pipeline.diagnose.diagnosis import Diagnosis, diagnosis_json, diagnosis_lines, verdict
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.stages import Stage
from fullpass.pipeline.diagnose.trials import Candidate, Trial

pytestmark = pytest.mark.integration


def diagnosis(*, wait: float, gains: dict[str, float], stages: dict[str, float]):
    rate = Rate(rows=1000, seconds=2.0, cpu_seconds=3.0)
    trials = [
        Trial(Candidate({key: 1}, "it helps"), 2000 * gain, gain, wait / 2, 1.5, gain) for key, gain in gains.items()
    ]
    return Diagnosis(
        rows=10_000,
        files=1,
        bytes=8_000_000,
        sampled=1000,
        setting=SimpleNamespace(batch_size=100, readers=2, kept="files"),
        epochs=5,
        devices="CPU",
        cores=2,
        stages=tuple(Stage(name, rate, seconds) for name, seconds in stages.items()),
        written=Trial(Candidate({}, "as written"), 2000.0, 1.0, wait, 1.5, 1.0),
        trials=tuple(trials),
    )


STAGES = {"read": 0.01, "parse": 0.03, "model": 0.02}


@pytest.mark.parametrize(
    ("wait", "bound", "stage"),
    [(0.2, "input-bound", "parse"), (0.19, "partly input-bound", "parse"), (0.04, "compute-bound", "model")],
)
def test_the_wait_decides_between_the_slowest_stage_of_the_input_and_the_model(wait, bound, stage):
    found = diagnosis(wait=wait, gains={}, stages=STAGES)
    assert (found.bound, found.stage.name) == (bound, stage)
    assert found.best is None


def test_what_the_model_itself_takes_is_not_lost_to_input():
    # A step takes 50 ms, and 49 of them without any input.
    found = diagnosis(wait=0.5, gains={}, stages={"read": 0.01, "model": 0.049})
    assert found.input_share == pytest.approx(0.02)
    assert (found.bound, found.stage.name) == ("compute-bound", "model")


def test_a_model_that_takes_all_of_a_step_is_not_said_to_be_slowed_down():
    first, *_ = verdict(diagnosis(wait=0.14, gains={}, stages={"read": 0.01, "model": 0.06}))
    assert "a step would still take 50 ms, because the model alone was measured at 60 ms. Most time" in first


def test_the_best_setting_is_recommended():
    gains = {"input.cache": 1.5, "data.records.shard_mb": 1.09}
    found = diagnosis(wait=0.5, gains=gains, stages=STAGES)
    assert dict(found.best.candidate.changes) == {"input.cache": 1}
    text = diagnosis_lines(found)
    assert "Verdict: input-bound. The model waits for input during 50% of the training; if input cost nothing," in text
    assert "a step would take 20 ms instead of 50. Of the input, most time goes to parse" in text
    assert "parse (parsing examples): 30 ms per step, 50% of the stages' sum." in text
    assert "Do: input.cache: 1. 2,000 -> 3,000 examples/s, 1.5 times, as tried; it helps." in text
    parse = next(line for line in text.splitlines() if line.startswith("parse"))
    assert parse.split() == ["parse", "500", "30", "50%", "1.5"]


@pytest.mark.parametrize(("gain", "least", "worth"), [(1.5, 1.2, True), (1.5, 0.9, False), (1.05, 1.01, False)])
def test_a_gain_that_may_be_chance_is_none(gain, least, worth):
    assert Trial(Candidate({}, ""), 1.0, gain, 0.0, 1.0, least).worth_it is worth


def test_a_gain_that_may_be_chance_is_not_said_to_be_none():
    found = diagnosis(wait=0.01, gains={"input.cache": 1.43}, stages=STAGES)
    text = diagnosis_lines(replace(found, trials=(replace(found.trials[0], least_gain=0.9),)))
    assert "Do: nothing yet. input.cache: 1 was 1.43 times as fast, but not in every round, which may be chance" in text
    assert "no setting of it makes this training faster" not in text


def test_records_to_be_written_anew_are_said_so():
    found = diagnosis(wait=0.5, gains={"data.records.shard_mb": 2.0}, stages=STAGES)
    assert "Then `fullpass run`: the records are written anew." in diagnosis_lines(found)


def test_json_holds_the_same():
    said = diagnosis_json(diagnosis(wait=0.5, gains={"input.cache": 1.5}, stages=STAGES))
    assert (said["bound"], said["stage"], said["recommended"]) == ("input-bound", "parse", {"input.cache": 1})
    assert said["step_seconds"] == pytest.approx(0.05)
    assert [stage["name"] for stage in said["stages"]] == ["read", "parse", "model"]


def test_what_other_machines_do_for_the_trainer_is_said_to_be_left_out():
    found = diagnosis(wait=0.5, gains={}, stages=STAGES)
    assert "input.service" not in diagnosis_lines(found) and diagnosis_json(found)["service_left_out"] is False
    served = replace(found, served=True)
    assert "input.service is not used" in diagnosis_lines(served) and diagnosis_json(served)["service_left_out"] is True
