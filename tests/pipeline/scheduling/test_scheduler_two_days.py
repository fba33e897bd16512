"""48 hours of a schedule, with late data, crashes and changes of the clock: no overlap, no lost run, no double run."""

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.pipeline.schedule_config import ScheduleConfig
from tests.pipeline.scheduling.simulated import Simulation, hour, utc

ZURICH = ZoneInfo("Europe/Zurich")
STEP = timedelta(minutes=2)
STARTS = {"spring": utc("2024-03-30T12:00"), "autumn": utc("2024-10-26T12:00"), "plain": utc("2024-07-01T12:00")}
# Thousands of small transactions need not wait for a disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
crashes = st.dictionaries(
    st.integers(1, 1439), st.sampled_from(["kill", "power cut", "before launch", "after launch", "stop"]), max_size=8
)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


@pytest.mark.integration
@settings(max_examples=12, deadline=None)
@given(
    season=st.sampled_from(sorted(STARTS)),
    catch_up=st.sampled_from(["once", "each", "none"]),
    new_span=st.booleans(),
    minutes=st.integers(4, 130),
    down=st.integers(1, 120),
    crashes=crashes,
    delays=st.lists(st.sampled_from([0, 1, 30, 100, 10_000]), min_size=60, max_size=60),
    fates=st.lists(st.sampled_from(["success", "success", "not_blessed", "failure", "killed"]), max_size=60),
)
def test_whatever_happens_no_run_overlaps_and_none_is_lost_or_made_twice(
    season, catch_up, new_span, minutes, down, crashes, delays, fates
):
    start = STARTS[season]
    config = ScheduleConfig(
        cron="5 * * * *", timezone="Europe/Zurich", timeout="90m", catch_up=catch_up, new_span=new_span, poll="2m"
    )
    # Hours 0.. of the source end at the hours of the clock, and arrive some minutes after that.
    arrivals = {}
    for number, delay in enumerate(delays):
        end = start + timedelta(hours=number)
        arrivals.setdefault(hour(end - timedelta(minutes=1), ZURICH), end + timedelta(minutes=delay))
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        simulation = Simulation(Path(path), config, start, arrivals, timedelta(minutes=minutes), list(fates))
        live(simulation, start, crashes, down)
        check(simulation, start)


def live(simulation, start, crashes, down):
    """48 hours of beats, with a crash where `crashes` says, after which nobody is there for `down` minutes."""
    simulation.up()
    back = None
    while simulation.now < start + timedelta(hours=48):
        happens = crashes.get(int((simulation.now - start) / STEP))
        if happens in ("kill", "power cut", "stop"):
            if happens == "power cut":
                simulation.power_cut()
            elif happens == "stop" and simulation.scheduler is not None:
                simulation.scheduler.stop()
            simulation.scheduler = None
        elif happens is not None:
            simulation.die_before = {"before launch": "launch", "after launch": "return"}[happens]
        simulation.tick()
        if simulation.scheduler is None:
            back = back or simulation.now + timedelta(minutes=down)
            if simulation.now >= back:
                back = None
                simulation.up()
        simulation.now += STEP
    simulation.up()


def check(simulation, start):
    runs = simulation.runs
    for earlier, later in zip(runs, runs[1:], strict=False):
        assert earlier.end <= later.start, "two runs at a time"

    entries = simulation.history.entries(10_000)
    ended = Counter(entry.key for entry in entries)
    assert [key for key, times in ended.items() if times > 1] == [], "an occasion ended twice"
    state = simulation.scheduler.state
    open_ones = {occasion.key for occasion in (*state.queue, *([state.running] if state.running else []))}
    assert not open_ones & set(ended)
    # Every hour has its time at five past: 48 of them, whatever clocks do.
    times = [start + timedelta(hours=n, minutes=5) for n in range(48)]
    expected = {f"cron {time.isoformat()}" for time in times if time <= state.seen_until}
    assert expected == {key for key in (*ended, *open_ones) if key.startswith("cron ")}, "a time was lost"
    assert len(expected) >= 46

    assert {run.key for run in runs} <= {*ended, *open_ones}, "a run was forgotten"

    trained = [run.last for run in all_runs(simulation) if run.trained]
    assert sorted(set(trained)) == trained, "a span was trained twice, or an old one after a newer one"
    succeeded = {entry.key for entry in entries if entry.outcome in ("success", "not_blessed")}
    assert succeeded == {run.occasion for run in all_runs(simulation) if run.trained} - open_ones
    # A span that nobody brought was never trained.
    assert all(simulation.arrivals[run.span] <= run.start for run in runs)


def all_runs(simulation):
    return sorted(simulation.history._runs("ORDER BY run_id"), key=lambda run: run.run_id)


@pytest.mark.integration
@pytest.mark.parametrize("season", sorted(STARTS))
def test_each_hour_is_trained_once_if_its_data_comes_in_time(folder, season):
    """The scheduler is killed every five hours and away for two; all data is late by half an hour."""
    start = STARTS[season]
    config = ScheduleConfig(cron="5 * * * *", timezone="Europe/Zurich", timeout="6h", catch_up="each", poll="2m")
    hours = [start + timedelta(hours=n) for n in range(49)]
    arrivals = {}
    for end in hours:
        # Of an hour that the clock shows twice, there is one file, and it is there after the first.
        arrivals.setdefault(hour(end - timedelta(hours=1), ZURICH), end + timedelta(minutes=30))
    simulation = Simulation(folder, config, start, arrivals)
    simulation.up()
    while simulation.now < start + timedelta(hours=48):
        away = (simulation.now - start) % timedelta(hours=5) > timedelta(hours=3)
        if away:
            simulation.scheduler = None
        elif simulation.scheduler is None:
            simulation.up()
        simulation.tick()
        simulation.now += STEP
    check(simulation, start)
    asked = [hour(time, ZURICH) - 1 for time in hours[:-1]]
    settled = [run.last for run in all_runs(simulation)]
    # In spring the clock leaves out an hour: nobody can bring its data, and it is the only one not trained.
    never = {number for number in asked if number not in arrivals}
    assert len(never) == (1 if season == "spring" else 0)
    wanted = sorted(set(asked) - never)
    assert settled == wanted[: len(settled)] and len(wanted) - len(settled) <= 3, (settled, wanted)
    outcomes = Counter(entry.outcome for entry in simulation.history.entries(1000))
    # In autumn one hour comes twice, and its data is trained once.
    assert outcomes["skipped"] == {"spring": 1, "autumn": 1, "plain": 0}[season], outcomes
