"""The merge of the states of many files."""

from collections.abc import Sequence

import pytest

from fullpass.components.accumulate import merge_in_rounds


@pytest.mark.parametrize("count", [2, 64, 65, 1000, 5000])
def test_states_are_merged_in_order_and_few_are_held(count):
    held, most = 0, 0

    def states():
        nonlocal held, most
        for number in range(count):
            held += 1
            most = max(most, held)
            yield (number,)

    def merge(some: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        nonlocal held
        held -= len(some) - 1
        return sum(some, ())

    assert merge_in_rounds(states(), merge) == tuple(range(count))
    assert most <= 64 + count // 64 and held == 1


def test_one_state_is_not_merged():
    state = object()
    assert merge_in_rounds([state], lambda some: pytest.fail("merged")) is state


def test_no_state_is_an_error():
    with pytest.raises(ValueError, match="no state"):
        merge_in_rounds([], list)
