"""Damages every file that runs leave, in four ways: the next commands succeed, or their error names the file.

The four ways are a flipped bit, a cut file, an empty file and a removed file. `models`, `gc --dry-run` and `rollback`
run on each file in each way. A run with training takes too long, so it runs on one file of each kind, in one of the
ways. It must produce exactly the results of an undamaged root, or name the file.
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
    """Returns the results of the third day on an undamaged root, after a rollback."""
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
    """Returns one file per kind: the last of the names that differ only in numbers and digests."""
    return list({re.sub(r"[0-9a-f]{12,}|\d+", "N", name): name for name in names}.values())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_next_run(nightly, expected, shard):
    trials = [(name, list(WAYS)[i % len(WAYS)]) for i, name in enumerate(of_every_kind(nightly.state_files()))]
    assert len(trials) > 60
    found = {trial: nightly.complaints(*trial, expected) for trial in trials[shard::SHARDS]}
    assert {trial: complaints for trial, complaints in found.items() if complaints} == {}
