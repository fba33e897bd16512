"""What `beam_internals` promises of Apache Beam: another version that differs fails here first, with a name."""

from fullpass.preprocessing.internals.beam_internals import GlobalWindows, Shared, WindowedValue


class Graph:
    """Something that a weak reference can hold."""


def test_a_shared_object_is_made_once():
    shared = Shared()
    first = shared.acquire(Graph, tag="a")
    assert shared.acquire(Graph, tag="a") is first
    assert shared.acquire(Graph, tag="b") is not first


def test_a_value_that_a_bundle_ends_with_is_in_the_global_window():
    value = GlobalWindows.windowed_value(7)
    assert isinstance(value, WindowedValue)
    assert (value.value, len(value.windows)) == (7, 1)
