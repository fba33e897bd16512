"""What a run says is served is what `current` points at, in a folder of real pushes and rollbacks."""

import io
from pathlib import Path

import pytest

from fullpass.components.push.push import push, rollback
from fullpass.components.push.pushed_version import pushed_version, pushed_version_of
from fullpass.pipeline.printing import console
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.gather_facts import of_person, of_pushed
from fullpass.pipeline.record.summary import print_summary

ENDED = RunFacts(ok=True, outcome="success", seconds=1.0)


@pytest.fixture
def pushed(tmp_path):
    """Returns `pushed(origin, keep)`, which pushes a model and returns the folder of its version."""
    model, target = tmp_path / "model", tmp_path / "serving"
    model.mkdir()
    (model / "saved_model.pb").write_text("graph")
    return lambda origin, keep=5: str(target / str(push(model, target, keep=keep, origin=origin).version))


def said_of(folder: str, *, new: bool) -> str:
    """Returns the last line of a summary."""
    version = of_pushed(pushed_version(folder))
    return printed(ENDED.plus({"blessed": True, "newly_pushed": new, **version})).splitlines()[-1]


def printed(facts: RunFacts) -> str:
    file = io.StringIO()
    print_summary(facts, None, console(file, width=2000))
    return file.getvalue().rstrip()


def now_served(folder: str) -> str:
    return str((Path(folder).parent / "current").resolve())


def test_a_new_model_and_an_unchanged_one_are_served(pushed):
    first = pushed("a")
    assert said_of(first, new=True) == f"Blessed and pushed to {first}"
    assert said_of(first, new=False) == f"Nothing new; blessed before, and served from {first}"
    assert pushed_version(first).served == now_served(first) == first


def test_a_run_that_comes_back_to_an_older_model_says_that_a_newer_one_is_served(pushed):
    """As where the YAML is put back to what it was: a, then b, then a again, which is not pushed again."""
    a, b = pushed("a"), pushed("b")
    assert pushed("a") == a and now_served(a) == b
    line = said_of(a, new=False)
    old, new, target = Path(a).name, Path(b).name, Path(a).parent
    assert line == (
        f"Nothing new; blessed before, and pushed to {a}, but version {old} is not served, as a newer one was pushed "
        f"after it; version {new} is served. To serve it: fullpass rollback {target} --to {old}"
    )
    # What is told to do does it.
    rollback(target, to=int(old))
    assert said_of(a, new=False).endswith(f"served from {a}") and now_served(a) == a


def test_a_model_that_was_rolled_back_stays_put_aside_and_it_is_said(pushed):
    a, b = pushed("a"), pushed("b")
    rollback(Path(b).parent)
    line = said_of(b, new=False)
    assert f"not served, as a rollback put it aside; version {Path(a).name} is served" in line
    assert line.endswith(f"--to {Path(b).name}") and now_served(b) == a


def test_a_model_that_is_no_longer_there_can_be_pushed_again(pushed):
    a = pushed("a")
    b = pushed("b", keep=1)
    line = said_of(a, new=False)
    assert f"no longer in {Path(a).parent}; version {Path(b).name} is served. To push it again" in line
    assert line.endswith("fullpass run FILE --from Pusher --fresh")


def test_a_folder_without_any_version_says_so(pushed, tmp_path):
    state = pushed_version(str(tmp_path / "elsewhere" / "7"))
    assert (state.state, state.served) == ("gone", None) and "no version is served" in state.not_served


def test_stray_names_are_no_versions(pushed):
    a = pushed("a")
    (Path(a).parent / "rolled_back-old").mkdir()
    (Path(a).parent / "²").mkdir()
    assert pushed_version(a).state == "served"


def test_a_refused_model_that_a_person_pushed_is_said_to_be_served_or_not(pushed):
    a, target = pushed("a"), Path(pushed("a")).parent
    refused = ENDED.plus({"blessed": False, "reasons": ["auc is low"], "model": "a"})

    def said() -> str:
        return printed(refused.plus(of_person(refused, target)))

    assert "Not blessed now, but by an earlier verdict or a person:" in said()
    assert said().endswith(f"It was pushed: it is served from {a}") and "not pushed" not in said()
    pushed("b")
    rollback(target)
    rollback(target, to=int(Path(pushed("b")).name))
    assert f"version {Path(a).name} is not served, as a newer one was pushed after it" in said()
    rollback(target)
    pushed("c")
    assert pushed_version_of("b", target).state == "put aside" and pushed_version_of("d", target) is None
    refused = refused.plus({"model": "d"})
    assert "Not blessed, not pushed:" in said()
