"""A scheduler in trouble, and one that is asked by hand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fullpass.pipeline.schedule_config import ScheduleConfig
from tests.pipeline.scheduling.simulated import Simulation, utc

START = utc("2024-07-01T12:00")


@pytest.fixture
def simulation(tmp_path):
    """A pipeline of which hour 477731, the one before 12:00, is there, and a scheduler that runs at five past."""
    arrivals = {477731: START, 477732: START + timedelta(hours=1)}
    made = Simulation(tmp_path, ScheduleConfig(cron="5 * * * *", poll="2m"), START, arrivals)
    made.up()
    made.said = []
    made.scheduler._deps = replace(made.scheduler._deps, say=made.said.append)
    return made


def refusing(deps, message):
    """Returns the dependencies on a machine that starts no process."""

    def refuse(start, log):
        raise OSError(message)

    return replace(deps, launch=refuse)


def later(simulation, minutes):
    for _ in range(0, minutes, 2):
        simulation.now += timedelta(minutes=2)
        simulation.tick()


def test_what_the_machine_refuses_is_said_and_tried_again(simulation):
    deps = simulation.scheduler._deps
    simulation.scheduler._deps = refusing(deps, "No space left on device")
    later(simulation, 8)
    assert any("error, will be tried again: No space left on device" in line for line in simulation.said)
    simulation.scheduler._deps = deps
    later(simulation, 30)
    assert [run.key for run in simulation.runs] == ["cron 2024-07-01T12:05:00+00:00"]
    assert [entry.outcome for entry in simulation.history.entries(9)] == ["success"]


def test_a_run_that_never_starts_is_a_failure_in_the_end(simulation):
    simulation.scheduler._deps = refusing(simulation.scheduler._deps, "Permission denied")
    later(simulation, 30)
    (entry,) = simulation.history.entries(9)
    assert entry.outcome == "failure" and "died 3 times" in entry.message and not simulation.runs
    assert simulation.told == [("cron 2024-07-01T12:05:00+00:00", "failure")]


def test_a_request_is_taken_once_and_trains_what_was_trained_before(simulation):
    later(simulation, 40)
    simulation.history.add_request(None)
    simulation.history.add_request(477731)
    later(simulation, 84)
    kinds = [entry.kind for entry in reversed(simulation.history.entries(9))]
    assert kinds[:3] == ["cron", "by hand", "by hand"] and simulation.history.requests() == []
    assert [run.span for run in simulation.runs[1:3]] == [None, 477731]


def test_a_stop_interrupts_the_run_and_the_next_start_takes_it_up(simulation):
    later(simulation, 8)
    simulation.scheduler.stop()
    assert simulation.runs[0].end == simulation.now and simulation.scheduler.state.running is None
    assert [occasion.attempts for occasion in simulation.scheduler.state.queue] == [0]
    simulation.up()
    later(simulation, 30)
    assert [(run.key, run.fate) for run in simulation.runs] == [
        ("cron 2024-07-01T12:05:00+00:00", "killed"),
        ("cron 2024-07-01T12:05:00+00:00", "success"),
    ]
