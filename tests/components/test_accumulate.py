"""The merge of the states of many files."""

from collections.abc import Sequence

import pytest

from fullpass.components.accumulate import States


@pytest.mark.parametrize(
    ("count", "megabytes", "at_once"),
    [(2, 1, 64), (64, 1, 64), (65, 1, 64), (5000, 1, 64), (1000, 40, 3), (1, 900, 2), (2700, 900, 2)],
)
def test_states_are_merged_in_order_and_few_are_held(count, megabytes, at_once):
    held, most, merges = 0, 0, []

    def states():
        nonlocal held, most
        for number in range(count):
            held += 1
            most = max(most, held)
            yield (number,)

    def merge(some: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        nonlocal held
        held -= len(some) - 1
        merges.append(len(some))
        return sum(some, ())

    given = States(states(), megabytes << 20)
    assert given.at_once == at_once
    assert given.merged(merge) == tuple(range(count))
    rounds = next(n for n in range(1, 20) if at_once**n >= count)
    assert most <= at_once * rounds and held == 1, "each round holds fewer than `at_once` results"
    assert max(merges, default=0) <= at_once and (count > at_once or merges == [count] * (count > 1))


def test_one_state_is_not_merged():
    state = object()
    assert States([state], 1).merged(lambda some: pytest.fail("merged")) is state


def test_no_state_is_an_error():
    with pytest.raises(ValueError, match="no state"):
        States([], 1).merged(list)
