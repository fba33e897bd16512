"""The requests of the month of examples/watch, by hour and day: what is named, and how rarely chance is."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from fullpass.components.watch.came_in import HOUR, HourSketches
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.judge_traffic import TrafficJudge
from fullpass.components.watch.log_rows import Refused
from tests.components.watch.watched_month import SERIES, batch_of, load_month, summary_of

month = load_month()
OVER = 10**9
"""An hour by which all days are over."""
TIGHT = {"drift": {"js": 1e-6, "linf": 1e-6}, "missing": {"max_change": 0.0}, "new_tokens": {"max_share": 0.001}}
"""Limits that leave only what chance explains."""


def reference(seed=0):
    return summary_of(*(batch_of(month.orders(day, seed=seed)) for day in (-2, -1, 0)))


def judged(batches, *, before, limits=None, refused=(), whole=OVER):
    sketches = HourSketches({1: SERIES})
    for batch in batches:
        sketches.add(batch)
    for one in refused:
        sketches.add_refused(one)
    config = WatchConfig.model_validate(limits or {})
    return TrafficJudge(1, config, SERIES.series, before, sketches.counts(), whole).judge()


def asked(day, *, per_hour, **more):
    rows = month.orders(day, per_hour=per_hour, **more)
    return batch_of(month.asked(day, rows, planted=more.get("planted", True)))


def found(judged):
    return {(one.check, one.subject): (one.first, one.last) for one in judged.findings}


def test_each_change_of_the_month_is_named_with_its_first_hour_and_nothing_else():
    batches = [asked(day, per_hour=40) for day in range(6, 17)]
    assert found(judged(batches, before=reference())) == {
        ("drift", "distance_km"): ("2026-01-08T07", "2026-01-09"),
        ("columns", "weight_kg"): ("2026-01-12T13", "2026-01-12"),
        ("new_tokens", "shop"): ("2026-01-15T10", "2026-01-16"),
    }


def test_a_day_is_compared_when_it_is_over_and_an_hour_at_once():
    rows = month.asked(12, month.orders(12, per_hour=40))
    batch, eighteen = batch_of(rows), int(np.datetime64("2026-01-12T18", "h").astype(int))
    so_far = batch.chosen(batch.times < eighteen * HOUR)
    metres = replace(so_far, arrays={**so_far.arrays, "distance_km": pa.array(np.full(len(so_far.times), 5e3, "f4"))})
    assert found(judged([metres], before=reference(), whole=eighteen)) == {
        ("columns", "weight_kg"): ("2026-01-12T13", "2026-01-12")
    }
    assert ("drift", "distance_km") in found(judged([metres], before=reference(), whole=eighteen + 6))


def test_other_columns_are_compared_also_in_hours_that_have_lost_one():
    batch = asked(8, per_hour=40)
    lost = replace(batch, arrays={**batch.arrays, "weight_kg": pa.nulls(len(batch.times), pa.float32())})
    verdict = judged([lost], before=reference())
    assert found(verdict) == {
        ("columns", "weight_kg"): ("2026-01-08T00", "2026-01-08"),
        ("drift", "distance_km"): ("2026-01-08T07", "2026-01-08"),
    }
    assert "weight_kg" not in {one.series for one in verdict.days[0].compared}


@pytest.mark.parametrize("rows", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("limit", [0.001, 0.01, 0.2])
def test_refused_requests_of_an_hour_are_named_only_beyond_the_binomial_tail(rows, limit):
    times = np.full(rows, 490_000 * HOUR)
    named = []
    batch = batch_of(month.orders(1))
    counts = np.arange(min(rows, 40) + 1)
    for count in counts:
        answered = batch.chosen(np.arange(len(batch.times)) < rows - count)
        answered = replace(answered, times=times[: rows - count])
        refused = Refused(np.ones(count, int), times[:count], np.ones(count))
        verdict = judged([answered], before=None, limits={"refused": {"max_share": limit}}, refused=[refused])
        named.append(bool(verdict.findings))
    tails = stats.binom.sf(counts - 1, rows, limit)
    assert all(tails[named] <= 1e-4 / 24), "an hour is one look of the 24 of a day"
    assert all(np.array(named)[tails < 1e-4 / 24 / (50 * math.sqrt(rows))]), "the bound is not much wider"


def some_missing(rows, draw):
    """Leaves out a third of the weights: an hour with few rows may then have none."""
    return rows | {"weight_kg": np.where(draw.random(len(rows["late"])) < 1 / 3, np.nan, rows["weight_kg"])}


def quiet(seeds, days, per_hour, limits):
    """Returns the number of judged days on which nothing changes, and the findings by check."""
    total, named = 0, Counter()
    for seed in seeds:
        draw = np.random.default_rng(seed)
        training = [some_missing(month.orders(day, seed=seed), draw) for day in (-2, -1, 0)]
        rows = [month.orders(day, seed=seed, planted=False, per_hour=per_hour) for day in range(1, days + 1)]
        batches = [batch_of(some_missing(one, draw)) for one in rows if len(one["late"])]
        times = np.concatenate([batch.times for batch in batches])
        times = times[draw.random(len(times)) < 0.005]
        refused = Refused(np.ones(len(times), int), times, np.ones(len(times)))
        before = summary_of(*map(batch_of, training))
        verdict = judged(batches, before=before, limits=limits, refused=[refused])
        total += len(verdict.days)
        named.update(one.check for one in verdict.findings)
    return total, named


@pytest.mark.parametrize("limits", [{}, TIGHT], ids=["default limits", "chance alone"])
def test_nothing_is_named_on_quiet_days_of_few_requests(limits):
    assert quiet(range(3), 8, 0.5, limits) == (24, {})


@pytest.mark.long
def test_chance_names_a_quiet_day_in_10000():
    """The table of 40 seeds of 25 quiet days, for the limits as they are by default and for what chance explains alone.

    `pytest -s` prints it. With a rate of one in 10,000 days, more than two of 2,000 have a probability of 0.001.
    """
    print("\nrequests an hour  limits        days  findings")
    for per_hour in (0.5, 5, 40):
        for name, limits in (("default", {}), ("chance alone", TIGHT)):
            days, named = quiet(range(40), 25, per_hour, limits)
            print(f"{per_hour:16}  {name:12}  {days:4}  {dict(named) or 'none'}", flush=True)
            assert stats.binom.sf(named.total() - 1, days, 1e-4) > 0.001 or not named
