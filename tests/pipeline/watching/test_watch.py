"""Which findings hold now, and which are a reason to train or to intervene."""

from dataclasses import replace

from fullpass.components.watch.judge_live import Live
from fullpass.pipeline.watching.watch import VersionReport
from tests.pipeline.watching.reports import live_finding, report_of, traffic


def open_ones(report):
    return {finding.subject for finding in report.findings if report.is_open(finding)}


def test_a_change_of_the_requests_is_open_until_a_day_without_it_is_judged():
    assert "distance_km" in open_ones(report_of(8)) and "distance_km" in open_ones(report_of(9))
    later = report_of(10)
    assert "distance_km" in {finding.subject for finding in later.findings} and not open_ones(later)


def test_a_missed_bound_is_open_while_its_version_answers_though_labels_are_of_older_days():
    missed = live_finding("2026-01-01", "2026-01-02", judged="2026-01-02")
    report = report_of(10, missed)
    assert open_ones(report) == {"auc"} and report.reasons == [missed]
    newer = VersionReport(2, True, traffic(11, 11), Live())
    assert not open_ones(report_of(10, missed, versions=(newer,))), "version 1 answers no more"


def test_a_finding_of_training_rows_that_come_later_is_open_until_newer_ones_are_without_it():
    skew = live_finding("2026-01-05", "2026-01-06", check="skew", policy="stop", judged="2026-01-06")
    assert report_of(10, skew).stops == [skew]
    assert report_of(10, replace(skew, judged="2026-01-07")).stops == []


def test_a_stop_of_a_version_that_answers_no_more_is_not_open():
    newer = VersionReport(2, True, replace(traffic(11, 11), findings=[]), Live())
    assert open_ones(report_of(9, policy="stop")) and not open_ones(report_of(9, policy="stop", versions=(newer,)))


def test_while_a_stop_is_open_nothing_is_a_reason_to_train():
    missed = live_finding("2026-01-08", "2026-01-09", judged="2026-01-09")
    stopped, over = report_of(9, missed, policy="stop"), report_of(10, missed, policy="stop")
    assert [one.subject for one in stopped.stops] == ["distance_km"] and stopped.reasons == []
    assert over.stops == [] and over.reasons == [missed]
