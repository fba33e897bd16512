"""Schedules, notifications and reasons to retrain are checked against the source and the machine."""

import pytest

from fullpass.pipeline.authoring.checks.check import check, require
from fullpass.pipeline.authoring.loading.load import load


def test_a_schedule_that_starts_nothing_is_a_warning_that_lets_the_run_go_on(edited):
    (problem,) = require(load(edited({18: "schedule: {timezone: Europe/Zurich}\nevaluation:"})))
    assert (problem.path, problem.line, problem.severity) == ("schedule", 18, "warning")
    assert require(load(edited({18: 'schedule: {cron: "0 3 * * *"}\nevaluation:'}))) == ()


@pytest.mark.parametrize(
    ("path", "section", "place", "says"),
    [
        ("trips.csv", "{new_span: true}", "schedule.new_span", "no spans that could arrive"),
        ("trips.csv", '{cron: "0 3 * * *", lag: 2}', "schedule.lag", "needs cron, and spans by date"),
        ("t-{SPAN}.csv", "{drift: true}", "schedule.drift", "Give one the policy retrain"),
        ("t-{SPAN}.csv", "{drift: true, new_span: true}", "schedule.drift", "Keep one of them"),
        ("t-{SPAN}.csv", '{cron: "0 3 * * *", lag: 2}', "schedule.lag", "needs cron, and spans by date"),
        ("t-{YYYY}-{MM}.csv", "{new_span: true, lag: 0}", "schedule.lag", "needs cron"),
        ("t-{YYYY}-{MM}.csv", "{new_span: true, poll: 10m, timeout: 5m}", "schedule.timeout", "before a second look"),
        ("t-{YYYY}-{MM}.csv", '{new_span: true, wait_for: "{YYYY}-{MM}-{DD}"}', "schedule.wait_for", "per day"),
        ("t-{SPAN}.csv", '{new_span: true, wait_for: "{YYYY}.done"}', "schedule.wait_for", "per year"),
        ("t-{SPAN}.csv", '{new_span: true, wait_for: "{WEEK}.done"}', "schedule.wait_for", "no field {WEEK}"),
    ],
)
def test_a_schedule_goes_with_its_source(edited, folder, problems_of, path, section, place, says):
    for name in ("t-1.csv", "t-2024-01.csv"):
        (folder / name).write_text((folder / "trips.csv").read_text())
    problems = problems_of(edited({5: f'    path: "{path}"', 18: f"schedule: {section}\nevaluation:"}))
    assert [problem.path for problem in problems] == [place], problems
    assert says in problems[0].message and problems[0].severity == "error"


def test_one_marker_for_every_span_is_doubtful(edited, folder):
    (folder / "t-2024-01.csv").write_text((folder / "trips.csv").read_text())
    lines = {5: '    path: "t-{YYYY}-{MM}.csv"', 18: "schedule: {new_span: true, wait_for: done}\nevaluation:"}
    (problem,) = require(load(edited(lines)))
    assert problem.path == "schedule.wait_for" and "one path for all spans" in problem.message


def test_hooks_that_cannot_be_told_from_here_are_doubtful(edited, folder, monkeypatch):
    monkeypatch.delenv("NO_SUCH_URL", raising=False)
    monkeypatch.setenv("SOME_TOKEN", "x")
    (folder / "tell.sh").write_text("#!/bin/sh\n")
    hooks = "[{url_env: NO_SUCH_URL, token_env: SOME_TOKEN}, {command: [tell.sh]}, {command: [sh]}]"
    problems = require(load(edited({18: f"notify: {hooks}\nevaluation:"})))
    assert [(problem.path, problem.severity) for problem in problems] == [
        ("notify[0].url_env", "warning"),
        ("notify[1].command", "warning"),
    ]
    assert "./tell.sh, and needs chmod +x" in problems[1].message


def test_a_script_that_is_not_executable_keeps_its_path_in_the_hint(edited, folder):
    (folder / "tell.py").write_text("#!/usr/bin/env python\n")
    path = f"../{folder.name}/tell.py"
    (problem,) = require(load(edited({18: f"notify: [{{command: [{path}]}}]\nevaluation:"})))
    assert f"chmod +x {path}" in problem.message and " ./" not in problem.message


def test_a_reason_to_retrain_that_nobody_asks_for_is_a_warning(edited):
    (problem,) = check(load(edited({18: "gates: {drift: retrain, rows: stop}\nevaluation:"})))
    assert (problem.path, problem.line, problem.severity) == ("gates.drift", 18, "warning")
