"""Every file that runs leave is flipped, cut, emptied and removed in turn: the next commands end well, or name it.

`models`, `gc --dry-run` and `rollback` are tried on each file in each way. A run that trains takes too long: it
is tried on one file of each kind, in one of the ways. It makes exactly what it makes of an undamaged root, or names the
file.
"""

import re

import pytest

from tests.e2e.damaged_state import COMMANDS, QUICK, WAYS, Finished, finished

pytestmark = [pytest.mark.e2e, pytest.mark.long]

SHARDS = 12


@pytest.fixture(scope="module")
def nightly(tmp_path_factory) -> Finished:
    return finished(tmp_path_factory.mktemp("nightly"))


@pytest.fixture(scope="module")
def expected(nightly) -> dict[str, object]:
    """Returns what the third day makes of an undamaged root, after a rollback."""
    nightly.restore()
    for words in COMMANDS:
        nightly.owner(*words)
    return nightly.outcome()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", WAYS)
def test_commands_that_train_nothing(nightly, way):
    found = {name: nightly.complaints(name, way, {}, QUICK) for name in nightly.state_files()}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


def of_every_kind(names: list[str]) -> list[str]:
    """Returns the last of the names that differ in numbers and digests only."""
    return list({re.sub(r"[0-9a-f]{12,}|\d+", "N", name): name for name in names}.values())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_next_run(nightly, expected, shard):
    trials = [(name, list(WAYS)[i % len(WAYS)]) for i, name in enumerate(of_every_kind(nightly.state_files()))]
    assert len(trials) > 60
    found = {trial: nightly.complaints(*trial, expected) for trial in trials[shard::SHARDS]}
    assert {trial: complaints for trial, complaints in found.items() if complaints} == {}
