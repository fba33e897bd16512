import numpy as np

from fullpass.pipeline.authoring.profile.leaks import leaking_summands

ROWS = 4000


def test_a_total_beside_its_parts_is_a_leak(random):
    fare, tip, toll = (random.exponential(scale, ROWS) for scale in (10, 2, 1))
    total = fare + tip + toll
    total[:1000] += 2.5  # a surcharge that no column holds
    other = random.normal(size=ROWS)
    columns = {"fare": fare, "toll": toll, "total": total, "other": other}
    assert leaking_summands(columns, tip) == ("total",)
    del columns["total"]
    assert leaking_summands(columns, tip) == ()


def test_a_weighted_sum_is_no_total(random):
    a, b = random.normal(size=ROWS), random.normal(size=ROWS)
    assert leaking_summands({"a": a, "b": b}, 3 * a + 0.5 * b) == ()
    assert leaking_summands({"a": a}, a) == ()


def test_missing_parts_of_a_total_add_nothing(random):
    fare, tip = random.exponential(10, ROWS), random.exponential(2, ROWS)
    toll = np.where(random.random(ROWS) < 0.7, np.nan, 3.0)
    total = fare + tip + np.nan_to_num(toll)
    assert leaking_summands({"fare": fare, "toll": toll, "total": total}, tip) == ("total",)


def test_the_summands_of_a_label_are_all_found(random):
    casual, registered = random.poisson(20, ROWS).astype(float), random.poisson(90, ROWS).astype(float)
    columns = {"casual": casual, "registered": registered, "other": random.normal(size=ROWS)}
    assert leaking_summands(columns, casual + registered) == ("registered", "casual")
