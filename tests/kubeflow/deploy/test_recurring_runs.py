"""Schedules: created, left alone, replaced, paused, deleted; and cron lines in Kubeflow's form."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.deploy import recurring_runs
from fullpass.kubeflow.deploy.recurring_runs import DesiredSchedule
from fullpass.kubeflow.deploy.submit import RunSettings
from fullpass.pipeline.schedule_config import cron_problem, six_fields


@pytest.fixture
def wanted(text) -> DesiredSchedule:
    return DesiredSchedule("toy", "0 0 3 * * *", text, RunSettings("toys"))


def applied(cluster, wanted) -> recurring_runs.SchedulePlan:
    planned = recurring_runs.plan(cluster, wanted)
    recurring_runs.apply(cluster, wanted, planned)
    return planned


def jobs(server) -> list[dict]:
    return list(server.things["recurringruns"].values())


def test_a_new_schedule_runs_one_at_a_time_and_catches_up_on_nothing(cluster, server, wanted):
    planned = applied(cluster, wanted)
    (job,) = jobs(server)
    assert planned.lines(wanted) == ["toy: will be created (0 0 3 * * *)"]
    assert job["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    assert (job["max_concurrency"], job["no_catchup"], job["status"]) == ("1", True, "ENABLED")
    assert job["runtime_config"] == {"parameters": {}}
    assert job["pipeline_version_reference"]["pipeline_version_id"] in server.versions


def test_an_unchanged_schedule_is_left(cluster, server, wanted):
    applied(cluster, wanted)
    before, requests_before = jobs(server), len(server.requests)
    planned = applied(cluster, wanted)
    assert planned.lines(wanted) == ["toy: is up to date (0 0 3 * * *)"]
    assert jobs(server) == before and {command for command, _ in server.requests[requests_before:]} == {"GET"}


def test_a_plan_changes_nothing(cluster, server, wanted):
    recurring_runs.plan(cluster, wanted)
    assert {command for command, _ in server.requests} == {"GET"}


def changed_package(package):
    package.pipeline["sdkVersion"] = "other"
    return to_yaml(package)


def test_a_changed_schedule_is_replaced_and_says_why(cluster, server, wanted, package):
    applied(cluster, wanted)
    (old,) = jobs(server)
    other = DesiredSchedule("toy", "0 0 4 * * *", changed_package(package), RunSettings("toys", None, {"push": False}))
    lines = applied(cluster, other).lines(other)
    (new,) = jobs(server)
    assert lines[0] == "toy: will be replaced (0 0 4 * * *)"
    assert lines[1] == "  cron: 0 0 3 * * * -> 0 0 4 * * *"
    assert lines[2].startswith("  package: another version -> sha256-")
    assert lines[3] == "  parameters: {} -> {'push': False}"
    assert len(lines) == 4 and new["recurring_run_id"] != old["recurring_run_id"]
    assert new["runtime_config"]["parameters"] == {"push": False} and len(server.versions) == 2


def test_a_paused_schedule_stays_paused_when_it_is_replaced(cluster, server, wanted):
    applied(cluster, wanted)
    recurring_runs.change(cluster, "toy", "pause")
    assert applied(cluster, wanted).lines(wanted) == ["toy: is up to date (0 0 3 * * *), paused"]
    other = DesiredSchedule("toy", "0 0 4 * * *", wanted.package, wanted.settings)
    assert "paused" in applied(cluster, other).lines(other)[0]
    assert [(job["trigger"]["cron_schedule"]["cron"], job["status"]) for job in jobs(server)] == [
        ("0 0 4 * * *", "DISABLED")
    ]
    recurring_runs.change(cluster, "toy", "resume")
    assert jobs(server)[0]["status"] == "ENABLED"


def test_more_of_the_same_name_are_cleared_up(cluster, server, wanted):
    for _ in range(5):
        recurring_runs.apply(cluster, wanted, recurring_runs.SchedulePlan("create"))
    planned = applied(cluster, wanted)
    assert planned.lines(wanted)[1] == "  4 more recurring runs of this name will be deleted" and len(jobs(server)) == 1


def test_a_refusal_leaves_the_old_schedule(cluster, server, wanted):
    applied(cluster, wanted)
    before = jobs(server)
    other = DesiredSchedule("toy", "0 0 25 * * *", wanted.package, wanted.settings)
    server.refusing = {"recurringruns": "cron"}
    with pytest.raises(UserError, match="creating recurring run toy.*not a supported format"):
        applied(cluster, other)
    assert jobs(server) == before


def test_the_schedules_of_others_are_left(cluster, server, wanted):
    applied(cluster, DesiredSchedule("other", "0 0 1 * * *", wanted.package, wanted.settings))
    applied(cluster, wanted)
    recurring_runs.change(cluster, "toy", "delete")
    assert [job["display_name"] for job in jobs(server)] == ["other"]
    with pytest.raises(UserError, match="toy has no schedule.*Existing schedules: other.*schedule apply"):
        recurring_runs.change(cluster, "toy", "delete")


@pytest.mark.parametrize("replaced", [True, False])
def test_runs_go_on_though_the_schedule_that_started_them_is_gone(cluster, server, wanted, replaced):
    applied(cluster, wanted)
    (job,) = jobs(server)
    server.things["runs"]["started"] = {"recurring_run_id": job["recurring_run_id"], "state": "RUNNING"}
    if replaced:
        applied(cluster, DesiredSchedule("toy", "0 0 4 * * *", wanted.package, wanted.settings))
    else:
        recurring_runs.change(cluster, "toy", "delete")
    assert job not in jobs(server) and "started" in server.things["runs"]


def test_the_list_shows_what_is_there(cluster, wanted):
    applied(cluster, wanted)
    head, line = recurring_runs.table(cluster.recurring_runs()).splitlines()
    assert head.split() == ["name", "cron", "state", "created", "(UTC)", "id"]
    assert line.startswith("toy   0 0 3 * * *  enabled  2026-01-02 03:04")


def is_robfig_cron(line: str) -> bool:
    """Returns whether the backend reads a line (github.com/robfig/cron v1): six fields, and Sunday is 0, not 7."""
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    months = {name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())}
    days = {name: i for i, name in enumerate("sun mon tue wed thu fri sat".split())}
    fields = line.split()
    items = [(item, *of) for field, *of in zip(fields, bounds, ({}, {}, {}, {}, months, days), strict=False)
             for item in field.split(",")]  # fmt: skip
    for item, (low, high), names in items:
        found = re.fullmatch(r"(\*|\w+(?:-\w+)?)(?:/[1-9]\d*)?", item)
        ends = [] if found is None or found[1] == "*" else found[1].split("-")
        numbers = [names.get(end, int(end) if end.isdigit() else -1) for end in ends]
        if found is None or (numbers and not low <= numbers[0] <= numbers[-1] <= high):
            return False
    return len(fields) == 6


@pytest.mark.parametrize(
    ("line", "accepted"),
    [("0 0 3 * * *", True), ("0 0 3 * * 7", False), ("0 */5 * 1,15 jan mon-fri", True), ("0 3 * *", False)],
)
def test_cron_lines_as_the_backend_reads_them(line, accepted):
    assert is_robfig_cron(line) is accepted


@pytest.mark.parametrize(
    ("five", "six"),
    [
        ("0 3 * * *", "0 0 3 * * *"),
        ("*/15 1,13 1-7 jan-mar mon", "0 */15 1,13 1-7 jan-mar mon"),
        ("0 3 * * 7", "0 0 3 * * 0"),
        ("0 3 * * 5-7", "0 0 3 * * 0,5,6"),
        ("0 3 * * 0-7", "0 0 3 * * 0,1,2,3,4,5,6"),
        ("0 3 * * 1-7/2", "0 0 3 * * 0,1,3,5"),
        ("0 3 * * mon,7", "0 0 3 * * 0,1"),
    ],
)
def test_cron_lines_get_six_fields(five, six):
    assert cron_problem(five) is None and six_fields(five) == six and is_robfig_cron(six)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted), min_size=1, max_size=3))
def test_the_days_of_a_week_stay_the_same(ranges):
    five = "0 3 * * " + ",".join(f"{low}-{high}" for low, high in ranges)
    line = six_fields(five)
    assert cron_problem(five) is None and is_robfig_cron(line)
    read = {day for item in line.split()[5].split(",") for day in days(*item.split("-"))}
    assert read == {day % 7 for low, high in ranges for day in range(low, high + 1)}


def days(low: str, high: str | None = None) -> range:
    return range(int(low), int(high or low) + 1)
