from fullpass.pipeline.authoring.init.propose_crosses import find_pairs
from fullpass.pipeline.authoring.profile.strength import (
    Target,
)

ROWS = 4000


def test_pairs_that_tell_more_together(random):
    a, b, c = (random.integers(0, 4, ROWS) for _ in range(3))
    y = ((a + b) % 2).astype(float)  # nothing one by one, all together
    pairs = find_pairs({"a": a, "b": b, "c": c}, Target("binary", y))
    assert [set(pair.inputs) for pair in pairs] == [{"a", "b"}]
    assert pairs[0].gain > 0.9
    assert pairs[0].combinations == 16


def test_no_pairs_where_effects_add_up(random):
    a, b = random.integers(0, 4, ROWS), random.integers(0, 4, ROWS)
    y = a + b + random.normal(size=ROWS)
    assert find_pairs({"a": a, "b": b}, Target("regression", y)) == ()


def test_no_pairs_of_few_rows(random):
    a, b = random.integers(0, 2, 500), random.integers(0, 2, 500)
    assert find_pairs({"a": a, "b": b}, Target("binary", (a ^ b).astype(float))) == ()


def test_pairs_that_say_the_same_stand_once(random):
    month, day = random.integers(0, 4, ROWS), random.integers(0, 4, ROWS)
    y = ((month + day) % 2).astype(float)
    pairs = find_pairs({"month": month, "also month": month + 7, "day": day}, Target("binary", y))
    assert len(pairs) == 1
