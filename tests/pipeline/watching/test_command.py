"""The errors of `fullpass watch`, each with what to write instead."""

import pytest

from fullpass.base.errors import UsageError, UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.watching.command import moment_of
from fullpass.pipeline.watching.watch import watch
from tests.pipeline.watching.test_record import MORE


def test_a_time_is_utc_unless_it_says_another():
    assert moment_of("2026-01-21").isoformat() == "2026-01-21T00:00:00+00:00"
    assert moment_of("2026-01-21T06:00").isoformat() == "2026-01-21T06:00:00+00:00"
    assert moment_of("2026-01-21T06:00+02:00").timestamp() == moment_of("2026-01-21T04:00").timestamp()
    with pytest.raises(UsageError, match='--at "21.1.2026" is no time. Give it as 2026-01-21'):
        moment_of("21.1.2026")


def test_a_pipeline_without_a_log_is_told_what_to_write(edited):
    with pytest.raises(UserError, match="serving_log is missing.*serving_log: {source: {format: jsonl"):
        watch(load(edited()))


def test_without_a_served_model_there_is_nothing_to_watch(edited):
    with pytest.raises(UserError, match="no model is served. Run the pipeline first: fullpass run"):
        watch(load(edited({18: MORE})))
