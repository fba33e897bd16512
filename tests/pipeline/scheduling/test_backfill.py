"""What a backfill does before and around its runs; the runs themselves are in tests/e2e/test_schedule.py."""

import pytest

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.spans import SpanNotFoundError, find_window
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.provenance import config_digest, data_digest
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.scheduling.backfill import backfill

PATH = '    path: "d/{SPAN}.csv"'


@pytest.fixture
def spans(edited, folder):
    """Four numbered spans, of which 3 is missing; the file, loaded."""
    rows = (folder / "trips.csv").read_text()
    (folder / "d").mkdir()
    for number in (1, 2, 4, 5):
        (folder / "d" / f"{number}.csv").write_text(rows)
    return load(edited({5: PATH}))


def done(loaded, folder, *numbers):
    """Records runs that trained on these spans, as runs do."""
    claim_root(folder / "runs" / "taxi", "taxi")
    for number in numbers:
        window = find_window(loaded.config.data, loaded.resolve, str(number))
        digests = {"data_digest": data_digest(loaded.config, window), "config_digest": config_digest(loaded)}
        spans = {"unit": "number", "first": number, "last": number}
        run = RunFacts(run_id=f"r{number}", outcome="success", exit_code=0, trained=True, **digests, **spans)
        RunHistory(folder / "runs" / "taxi").record(run)


def test_what_is_done_is_not_done_again(spans, folder):
    done(spans, folder, 1, 2, 4)
    said = []
    assert backfill(spans, "1:4", say=said.append) == 0
    assert said[1] == "3 steps, 3 done already" and "1 of the window missing" not in said[1] and len(said) == 2


@pytest.mark.integration
def test_what_changed_since_is_to_be_done_and_a_step_that_fails_stops_it(spans, folder):
    done(spans, folder, 1, 2, 4)
    (folder / "d" / "2.csv").write_text((folder / "trips.csv").read_text() * 2)
    # A file that is no pipeline any more: the run is refused at once.
    spans.file.write_text("name: nothing\n")
    said = []
    assert backfill(spans, "1:4", say=said.append) == 2
    assert said[1] == "3 steps, 2 done already"
    assert said[2].startswith("[2/3] 2: started") and "ended with exit code 2" in said[3] and len(said) == 4
    log = said[2].rpartition(" ")[2]
    assert "label" in open(log).read()


@pytest.mark.integration
def test_of_another_config_nothing_is_done_and_of_another_push_all(spans, folder, edited):
    done(spans, folder, 1, 2)
    other = load(edited({5: PATH, 15: "  fare: {type: number, transforms: [log1p]}"}))
    same = load(edited({5: PATH, 18: "push: {keep: 9}\nevaluation:"}))
    spans.file.write_text("name: nothing\n")  # any run is refused at once
    for loaded, code, counted in ((same, 0, "2 steps, 2 done already"), (other, 2, "2 steps, 0 done already")):
        said = []
        assert (backfill(loaded, "1:2", say=said.append), said[1]) == (code, counted)


HISTORY = """
  history: {past: {entity: company, at: started, columns: [fare]}}
  derive:
    seen: past_count(past.at)
    big_tipper: tips > 0.2 * fare"""


def test_a_step_is_done_again_if_its_rows_see_an_earlier_span_that_changed(spans, folder, edited):
    loaded = load(edited({5: PATH, 6: HISTORY.strip("\n"), 7: "", 15: "  seen: number"}))
    done(loaded, folder, 1, 2, 4)
    said = []
    assert backfill(loaded, "1:4", say=said.append) == 0 and said[1] == "3 steps, 3 done already"
    (folder / "d" / "2.csv").write_text((folder / "trips.csv").read_text() * 2)
    backfill(loaded, "1:4", say=said.append)
    assert said[3] == "3 steps, 1 done already", "spans 2 and 4 read the new rows"


def test_a_step_is_done_again_after_a_change_of_the_users_code(folder, edited, clean_imports):
    (folder / "mine.py").write_text("def make(columns):\n    return columns['fare'] * 2\n")
    loaded = load(edited({15: "  fare: {type: custom, columns: {fare: number}, function: 'mine:make'}"}))
    use_modules_of(loaded.folder)
    digest = config_digest(loaded)
    assert config_digest(loaded) == digest
    (folder / "mine.py").write_text("def make(columns):\n    return columns['fare'] * 3\n")
    assert config_digest(loaded) != digest


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ("5", UserError, "as 2013-01-01:2013-02-28"),
        ("1:3", SpanNotFoundError, "not there"),
        ("4:1", UserError, "after"),
    ],
)
def test_a_range_has_a_first_and_a_last_span_that_are_there(spans, asked, error, says):
    with pytest.raises(error, match=says):
        backfill(spans, asked)
