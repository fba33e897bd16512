"""A version judged by labels: metrics against scikit-learn, the day on which they fall, and labels that come late."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.judge_live import EvalMetrics, LiveJudge
from fullpass.components.watch.went_out import Delays, WentOut

ACCUMULATOR = SliceAccumulator(("example_count", "auc", "accuracy"), (("shop",),), None, 1)
FIRST = 20_454
"""1 January 2026."""
SHOPS = (b"north", b"south")
LABELS = {"source": {"format": "csv", "path": "labels.csv"}, "on": "id", "at": "known_at"}


def rows_of(day, rows=600, *, signal=2.0):
    """Returns labels, scores, shops and sampling weights of a day."""
    draw = np.random.default_rng(day)
    labels, shop = (draw.random(rows) < 0.4).astype(float), draw.integers(0, 2, rows)
    scores = 1 / (1 + np.exp(-(signal * (labels - 0.5) * (1 + shop) + draw.normal(size=rows))))
    return labels, scores, shop, np.where(draw.random(rows) < 0.5, 1.0, 4.0)


def out_of(days, delays=None):
    """Returns what went out of days. days: day from 0 -> rows. delays: day -> the days that each label came later."""
    out, number = WentOut(), 0
    for day, (labels, scores, shop, weights) in days.items():
        ids = np.arange(number, number := number + len(labels))
        rows = ScoredRows(ids, ids * 0, {"shop": Codes(shop, SHOPS)}, (Scored(labels, weights, scores),))
        key = (1, FIRST + day)
        out.labelled[key] = ACCUMULATOR.add(ACCUMULATOR.start(), rows)
        out.delays[key] = Delays()
        out.delays[key].add(np.zeros(len(labels), int) if delays is None else delays[day], labels)
    return out


def live(days, *, today, delays=None, stopped=(), answered=1000, at_eval=None, **watch):
    config = WatchConfig.model_validate({"after": "1000 labels", **watch})
    found = EvalMetrics(*at_eval) if at_eval else EvalMetrics({}, {})
    every = {FIRST + day: answered for day in range(max(days) + 1)}
    out = out_of(days, delays)
    return LiveJudge(1, config, out, ACCUMULATOR, found, every, FIRST + today, [FIRST + day for day in stopped]).judge()


def together(*days):
    return [np.concatenate(parts) for parts in zip(*days, strict=True)]


def test_the_metrics_of_a_day_are_those_of_scikit_learn_with_the_weights_of_sampling():
    days = {day: rows_of(day) for day in range(3)}
    found = live(days, today=3)
    for day, (labels, scores, _, weights) in days.items():
        auc = roc_auc_score(labels, scores, sample_weight=weights)
        assert found.days[day].metrics["auc"].value == pytest.approx(auc, abs=2e-3)
        right = accuracy_score(labels, scores > 0.5, sample_weight=weights)
        assert found.days[day].metrics["accuracy"].value == pytest.approx(right, abs=1e-9)
        assert (found.days[day].labels, found.days[day].share) == (600, 0.6)


def test_the_newest_days_are_judged_together_and_by_slice():
    days = {day: rows_of(day) for day in range(4)}
    found = live(days, today=4)
    labels, scores, shop, weights = together(days[2], days[3])
    assert found.over == ("2026-01-03", "2026-01-04")
    of = {one.metric: one for one in found.judged}
    assert of["auc"].value == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights), abs=2e-3)
    assert {name for name, _, _ in found.slices} == {"shop north", "shop south"}
    for name, rows, metrics in found.slices:
        chosen = shop == SHOPS.index(name.split()[1].encode())
        auc = roc_auc_score(labels[chosen], scores[chosen], sample_weight=weights[chosen])
        assert (rows, metrics["auc"]) == (chosen.sum(), pytest.approx(auc, abs=2e-3))


def test_a_bound_is_missed_beyond_chance_and_since_the_day_on_which_it_fell():
    days = {day: rows_of(day, signal=2.0 if day < 5 else 0.2) for day in range(8)}
    (finding,) = live(days, today=8, live={"auc": {"min": 0.75}}).findings
    assert (finding.check, finding.subject, finding.policy) == ("live", "auc", "retrain")
    assert (finding.first, finding.last) == ("2026-01-06", "2026-01-08") and "on 1,200 labels" in finding.text
    assert not live(days, today=5, live={"auc": {"min": 0.75}}).findings
    value = live(days, today=5, live={"auc": {"min": 0.75}}).judged[0].value
    assert not live(days, today=5, live={"auc": {"min": value + 0.005}}).findings, "half a standard error below"


def test_eval_is_the_bound_with_its_own_error():
    days = {day: rows_of(day) for day in range(2)}
    value = next(one.value for one in live(days, today=2).judged if one.metric == "auc")

    def missed(above, error):
        at_eval = {"auc": value + above}, {"auc": error}
        return bool(live(days, today=2, at_eval=at_eval, live={"auc": {"not_worse_than": "eval"}}).findings)

    assert not missed(0.01, 0.01) and missed(0.2, 0.01) and not missed(0.2, 0.1)


def test_days_that_are_not_over_or_stopped_are_not_judged():
    days = {day: rows_of(day, signal=2.0 if day < 5 else 0.2) for day in range(8)}
    bound = {"auc": {"min": 0.75}}
    assert live(days, today=5, live=bound).over == ("2026-01-04", "2026-01-05")
    found = live(days, today=8, live=bound, stopped=[5, 6, 7])
    assert not found.findings and found.over == ("2026-01-04", "2026-01-05")
    assert found.days[6].metrics["auc"].value < 0.75, "it is shown"
    assert [note.split()[0] for note in found.notes] == ["2026-01-06", "2026-01-07", "2026-01-08"]
    first = live(days, today=8, live=bound, stopped=[6]).findings[0].first
    assert first == "2026-01-06", "the day before the stopped one misses the bound too"


def test_too_few_labels_give_no_metric_of_a_bound():
    found = live({0: rows_of(0)}, today=1, live={"auc": {"min": 0.99}})
    assert not found.findings and not found.judged and "600 labels are known" in found.notes[0]
    (note,) = live({0: rows_of(0, 0)}, today=1).notes
    assert note == "No label is known yet: this shows inputs and scores only, and no metric."


@pytest.mark.parametrize(("early_share", "told"), [(0.4, False), (0.7, True)])
def test_early_labels_that_differ_from_late_ones_are_told(early_share, told):
    """On settled days, 300 labels come on the first day and 300 within nine; the positive ones may come early."""
    draw = np.random.default_rng(1)
    days, delays = {}, {}
    for day in range(16):
        labels, *others = rows_of(day)
        late = np.repeat([0, 5], 300)
        labels = (draw.random(600) < np.where(late == 0, early_share, 0.4)).astype(float)
        seen = late <= 15 - day
        days[day], delays[day] = [part[seen] for part in (labels, *others)], late[seen]
    settled = [days[day][0][delays[day] == 0].mean() for day in range(11)]
    notes = live(days, today=16, delays=delays, labels=LABELS).notes
    assert any("Early labels differ from late ones" in note for note in notes) == told
    if told:
        assert any(f"have the mean {np.mean(settled):.3g}" in note for note in notes), (notes, np.mean(settled))


def test_without_settled_days_it_is_said_that_early_labels_are_not_known_to_be_like_late_ones():
    days = {day: rows_of(day) for day in range(3)}
    delays = {day: np.arange(600) % (4 - day) for day in range(3)}
    (note,) = live(days, today=3, delays=delays, labels=LABELS).notes
    assert "Labels of the newest days are still coming" in note


@pytest.mark.long
def test_the_rate_of_false_alarms_at_the_bound_is_that_of_its_confidence():
    """The AUC of 200 draws against the mean of all: about 1 in 20 are below it beyond a confidence of 0.95."""
    draws = [{0: rows_of(1000 + seed, 1000)} for seed in range(200)]
    aucs = [roc_auc_score(of[0][0], of[0][1], sample_weight=of[0][3]) for of in draws]
    bound = {"auc": {"min": float(np.mean(aucs)), "confidence": 0.95}}
    named = sum(bool(live(of, today=1, live=bound).findings) for of in draws)
    assert 2 <= named <= 21, "of 10 expected; chance gives others once in 1,000 times"
