import math
from dataclasses import replace

import numpy as np
import pytest

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.config import EvaluationConfig, Threshold
from fullpass.components.evaluation.judge.judge_metric import PlacedBounds, judge_metric
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.judge.verdict import FILE as VERDICT_FILE
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict, read_verdict, verdict_json
from fullpass.components.evaluation.measure.measure_rows import measure_rows
from fullpass.components.evaluation.measure.measured_metrics import (
    FILE,
    MeasuredRows,
    measured_json,
    read_measured,
    text_of,
)
from fullpass.components.evaluation.measure.metrics import DEFAULT_METRICS, METRICS, OF_A_CLASS, metric_named
from fullpass.components.evaluation.measure.scored_rows import Scored
from tests.components.evaluation.measured_rows import scored_by


def judged(name, value, baseline, threshold):
    rows = MeasuredRows((), {name: value}, {} if baseline is None else {name: baseline})
    return judge_metric(name, rows, threshold and PlacedBounds(threshold))


@pytest.mark.parametrize(
    ("name", "value", "baseline", "threshold", "held"),
    [
        ("auc", 0.8, None, Threshold(min=0.8), True),
        ("auc", 0.79, None, Threshold(min=0.8), False),
        ("log_loss", 0.5, None, Threshold(max=0.4), False),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed"), False),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed", tolerance=0.02), True),
        ("log_loss", 0.42, 0.41, Threshold(not_worse_than="blessed"), False),
        ("log_loss", 0.40, 0.41, Threshold(not_worse_than="blessed"), True),
        ("auc", 0.2, None, Threshold(not_worse_than="blessed"), True),  # a first run has no baseline
        ("auc", math.nan, 0.5, Threshold(min=0.1), False),
        ("auc", math.nan, 0.5, Threshold(not_worse_than="blessed"), False),
        ("auc", 0.1, None, None, True),
    ],
)
def test_held(name, value, baseline, threshold, held):
    assert judged(name, value, baseline, threshold).passed is held


@pytest.mark.parametrize(
    ("name", "value", "baseline", "threshold", "says"),
    [
        ("auc", 0.79, None, Threshold(min=0.8), "auc is 0.7900, below the minimum 0.8 (evaluation.thresholds.auc.min)"),
        ("log_loss", 0.5, None, Threshold(max=0.4), "log_loss is 0.5000, above the maximum 0.4"),
        ("auc", 0.8, 0.81, Threshold(not_worse_than="blessed"), "the last blessed model has 0.8100"),
        (
            "auc",
            0.8,
            0.81,
            Threshold(not_worse_than="blessed", tolerance=0.005),
            "over 0.005 (evaluation.thresholds.auc",
        ),
        ("auc", math.nan, None, Threshold(min=0.8), "auc is not a number"),
    ],
)
def test_the_reason_is_in_words(name, value, baseline, threshold, says):
    assert says in judged(name, value, baseline, threshold).missed


def test_a_class_is_judged_on_all_rows_and_on_slices():
    config = EvaluationConfig.model_validate(
        {"slices": [["zone"]], "thresholds": {"recall[fox]": {"min": 0.6, "slices": {"min": 0.5, "min_examples": 10}}}}
    )

    def rows(recall, *keys):
        return MeasuredRows(keys, {"recall[fox]": recall, "example_count": 50.0})

    whole, east, west = rows(0.7), rows(0.4, ("zone", "east")), rows(math.nan, ("zone", "west"))
    verdict = judge_metrics([whole, east, west], config)
    assert verdict.reasons == (
        "on the slice zone east (50 examples) recall[fox] is 0.4000, below the minimum 0.5 "
        "(evaluation.thresholds.recall[fox].slices.min)",
    )
    assert verdict.notes == ("recall[fox]: of 2 slices, 1 have no rows of the class; these are not judged",)
    (reason,) = judge_metrics([rows(math.nan), rows(0.9, ("zone", "east"))], config).reasons
    assert reason.startswith("recall[fox] is not a number: the model has no such class or never predicts it")


def measured(auc, *, examples=1000, of=None, newest=False, baseline=None):
    keys = () if of is None else (("zone", of),)
    values = {"auc": auc, "example_count": float(examples)}
    return MeasuredRows(keys, values, {} if baseline is None else {"auc": baseline}, newest)


ON_SLICES = {"min": 0.7, "not_worse_than": "blessed", "tolerance": 0.05, "min_examples": 100}


def config(**threshold):
    return EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"auc": threshold}})


def test_each_slice_must_hold_and_the_reason_names_slice_value_and_bound():
    rows = [
        measured(0.9, baseline=0.9),
        measured(0.65, of="a", examples=1234, baseline=0.6),
        measured(0.80, of="b", baseline=0.86),
        measured(0.82, of="c", baseline=0.86),
    ]
    verdict = judge_metrics(rows, config(min=0.8, slices=ON_SLICES))
    assert [(one.name, set(one.failed)) for one in verdict.slices] == [
        ("zone a", {"auc"}),
        ("zone b", {"auc"}),
        ("zone c", set()),
    ]
    assert verdict.reasons == (
        "on the slice zone a (1,234 examples) auc is 0.6500, below the minimum 0.7 "
        "(evaluation.thresholds.auc.slices.min)",
        "on the slice zone b (1,000 examples) auc is 0.8000, the last blessed model has 0.8600 on the same rows: worse "
        "by over 0.05 (evaluation.thresholds.auc.slices.tolerance)",
    )


def test_small_slices_and_those_of_one_class_are_shown_and_not_judged():
    rows = [
        measured(0.9, examples=1199),
        measured(0.1, of="a", examples=99),
        measured(math.nan, of="b"),
        measured(0.9, of="c", examples=100),
    ]
    verdict = judge_metrics(rows, config(slices=ON_SLICES))
    assert verdict.blessed and [one.name for one in verdict.slices if one.judged] == ["zone c"]
    assert [one.values["auc"] for one in verdict.slices if one.name == "zone a"] == [0.1]
    assert verdict.notes == (
        "auc: of 3 slices, 1 have fewer than 100 examples (99 in all) and 1 have no rows of both classes; these are "
        "not judged",
        "not_worse_than: there is no last blessed model yet, so nothing was compared",
    )


def test_a_slice_has_no_value_of_a_metric_that_is_undefined_on_it():
    verdict = judge_metrics([measured(0.9), measured(math.nan, of="b", baseline=0.8)], config(min=0.5))
    [one] = verdict.slices
    assert (one.name, dict(one.values), dict(one.baseline)) == ("zone b", {}, {"auc": 0.8})


def test_a_metric_that_became_undefined_does_not_hold():
    verdict = judge_metrics([measured(0.9), measured(math.nan, of="b", baseline=0.9)], config(slices=ON_SLICES))
    assert "zone b" in verdict.reasons[0] and "not a number" in verdict.reasons[0]


def test_slices_of_the_newest_span_are_judged_by_newest_span_alone():
    rows = [
        measured(0.9),
        measured(0.9, newest=True),
        measured(0.65, of="a"),
        measured(0.65, of="a", newest=True),
    ]
    of_all = judge_metrics(rows, config(slices={"min": 0.7}))
    [why] = of_all.reasons
    assert "slice zone a (" in why and "evaluation.thresholds.auc.slices.min" in why
    of_newest = judge_metrics(rows, config(newest_span={"slices": {"min": 0.7}}))
    [why] = of_newest.reasons
    assert "slice zone a of the newest span" in why and "evaluation.thresholds.auc.newest_span.slices.min" in why


def on_newest(auc, baseline, error):
    """All rows, where the new model is far better, and the newest span alone."""
    newest = measured(auc, newest=True, examples=150, baseline=baseline)
    return [measured(0.9, baseline=0.7), replace(newest, difference_errors={"auc": error})]


def test_a_model_is_not_worse_than_the_last_blessed_one_on_the_newest_span_either():
    """Standard error 0.01 of the difference: at 0.95 a loss of 0.0164 is chance, and 0.02 is not."""
    rows, than_blessed = on_newest(0.83, 0.86, 0.01), config(not_worse_than="blessed", tolerance=0.005)
    [why] = judge_metrics(rows, than_blessed).reasons
    assert why == (
        "on the newest span auc is 0.8300, the last blessed model has 0.8600 on the same rows: worse by over 0.005 "
        "(evaluation.thresholds.auc.tolerance) beyond chance (0.95)"
    )
    assert judge_metrics(on_newest(0.845, 0.86, 0.01), than_blessed).blessed
    assert judge_metrics(rows, config(min=0.5)).blessed


def test_limits_of_the_newest_span_replace_those_that_it_inherits():
    rows = on_newest(0.83, 0.86, 0.001)
    assert judge_metrics(rows, config(not_worse_than="blessed", confidence=0.99, tolerance=0.04)).blessed
    assert judge_metrics(
        rows, config(not_worse_than="blessed", newest_span={"not_worse_than": "blessed", "tolerance": 0.04})
    ).blessed
    [why] = judge_metrics(rows, config(not_worse_than="blessed", newest_span={"min": 0.85})).reasons
    assert "below the minimum 0.85 (evaluation.thresholds.auc.newest_span.min)" in why
    [why] = judge_metrics(rows, config(not_worse_than="blessed", newest_span={"min": 0.8})).reasons
    assert why.endswith("worse (evaluation.thresholds.auc.not_worse_than) beyond chance (0.95)")


def test_a_newest_span_that_does_not_show_chance_is_not_compared_and_a_note_says_so():
    rows, than_blessed = on_newest(0.5, 0.9, math.nan), config(not_worse_than="blessed")
    verdict = judge_metrics(rows, than_blessed)
    [note] = verdict.notes
    assert verdict.blessed
    assert note == "auc: not compared on the newest span, whose 150 examples do not show chance"
    assert judge_metrics([measured(0.9, baseline=0.7)], than_blessed).blessed


def test_of_many_slices_the_worst_are_named():
    rows = [measured(0.9), *(measured(0.5 + i / 1000, of=str(i)) for i in range(20))]
    reasons = judge_metrics(rows, config(slices={"min": 0.7})).reasons
    assert len(reasons) == 7 and "zone 0 " in reasons[0] and reasons[-1].startswith("and auc on 14 more slices")


@pytest.mark.parametrize("metric", ["auc", "auc_pr"])
@pytest.mark.parametrize("thresholds", [{}, {"not_worse_than": "blessed"}, {"max": 0.9}, {"min": 0.5}])
def test_an_eval_split_of_one_class_blesses_nothing(metric, thresholds):
    config = EvaluationConfig.model_validate(
        {"metrics": [metric, "log_loss"], "thresholds": {metric: thresholds} if thresholds else {}}
    )
    values = {metric: math.nan, "log_loss": 0.1, "example_count": 500.0}
    verdict = judge_metrics([MeasuredRows((), values)], config)
    assert verdict.reasons == (f"{metric} is not a number: there are no rows of both classes, or the model diverged",)


NEEDED = [(task, name) for name, its in METRICS.items() if its.needs for task in its.tasks]
NEEDED += [(task, f"{name}[cat]") for name, its in OF_A_CLASS.items() if its.needs for task in its.tasks]


def rows_of_one_kind(task):
    """Rows that define no metric that needs rows: of one class, none positive or a cat; equal labels of 0."""
    labels, scores = np.zeros(200), np.linspace(0.1, 0.3, 200)
    if task == "multiclass":
        scores = np.stack([1 - scores, scores, 0 * scores], axis=1)
    if task == "multilabel":
        labels, scores = np.zeros((200, 3)), np.stack([scores] * 3, axis=1)
    return scored_by(Scored(labels, np.ones(200), scores, classes=("ape", "bear", "cat")))


@pytest.mark.parametrize(("task", "metric"), NEEDED)
def test_a_metric_that_lacks_the_rows_it_needs_blesses_no_model_of_any_task(task, metric):
    measured = measure_rows((metric,), (), [rows_of_one_kind(task)]).measured
    asked_or_not = [{"metrics": [metric]}, {"metrics": [metric], "thresholds": {metric: {"min": -9, "max": 99}}}]
    for config in map(EvaluationConfig.model_validate, asked_or_not):
        assert math.isnan(measured[0].values[metric])
        [why] = judge_metrics(measured, config).reasons
        assert f"{metric} is not a number" in why and f"there are no {metric_named(metric).needs}" in why


@pytest.mark.parametrize("task", DEFAULT_METRICS)
def test_rows_of_one_class_are_refused_by_the_default_metrics(task):
    config = EvaluationConfig.model_validate({"metrics": list(DEFAULT_METRICS[task])})
    measured = measure_rows(config.metrics, (), [rows_of_one_kind(task)]).measured
    assert judge_metrics(measured, config).blessed == (task == "regression")  # an error of equal labels is an error


def test_more_classes_than_have_areas_are_no_fault_of_the_rows():
    labels, names = np.arange(600) % 60 * 1.0, tuple(map(str, range(60)))
    scored = Scored(labels, np.ones(600), np.eye(60)[labels.astype(int)], classes=names)
    rows = measure_rows(DEFAULT_METRICS["multiclass"], (), [scored_by(scored)]).measured
    assert math.isnan(rows[0].values["macro_auc"])
    assert judge_metrics(
        rows, EvaluationConfig.model_validate({"metrics": list(DEFAULT_METRICS["multiclass"])})
    ).blessed
    bounds = EvaluationConfig.model_validate({"thresholds": {"macro_auc": {"min": 0.5}}})
    [why] = judge_metrics(rows, bounds).reasons
    assert why == "macro_auc is not a number: the areas of more than 50 classes are not computed"


def test_only_metrics_that_say_how_many_rows_are_right_make_a_model_too_good():
    record = {"alone": [{"feature": "paid", "column": "paid_at", "value": 0.9998, "rows": 900}]}
    record["classes"] = {"no": 9990, "yes": 10}  # whoever always says no has an accuracy of 0.999
    values = {"recall": 1.0, "log_loss": 1.0, "accuracy": 0.9995, "auc": 0.9996, "example_count": 900.0}
    rows = [MeasuredRows((), values)]
    for names, said in ((("recall", "log_loss", "accuracy"), ""), (("recall", "auc"), "too good: auc is 0.9996")):
        verdict = judge_metrics(rows, EvaluationConfig.model_validate({"metrics": names}), record)
        assert "".join(verdict.notes)[: len(said) or None] == said


def test_a_measure_that_needs_no_second_class_may_be_undefined_where_nothing_is_asked_of_it():
    """Precision is undefined for a model without positive predictions, which is no fault of the split."""
    values = {"precision": math.nan, "auc": 0.8, "example_count": 500.0}
    config = EvaluationConfig.model_validate({"metrics": ["auc", "precision"]})
    assert judge_metrics([MeasuredRows((), values)], config).blessed


@pytest.mark.parametrize(
    ("loss", "error", "threshold", "held"),
    [
        (0.02, 0.005, {}, False),
        (0.02, 0.005, {"confidence": 0.95}, False),  # t with 39 degrees of freedom is 1.685, so up to 0.0084 is chance
        (0.008, 0.005, {"confidence": 0.95}, True),
        (0.009, 0.005, {"confidence": 0.95}, False),
        (0.009, 0.005, {"confidence": 0.99}, True),
        (0.018, 0.005, {"confidence": 0.95, "tolerance": 0.01}, True),
        (0.02, math.nan, {"confidence": 0.95}, False),  # if the standard error is unknown, the values decide
    ],
)
def test_a_threshold_may_ask_for_worse_beyond_chance(loss, error, threshold, held):
    bounds = Threshold(not_worse_than="blessed", **threshold)
    rows = MeasuredRows((), {"auc": 0.8 - loss}, {"auc": 0.8}, difference_errors={"auc": error})
    found = judge_metric("auc", rows, PlacedBounds(bounds))
    assert found.passed is held
    if not held and "confidence" in threshold:
        assert "beyond chance (0.95)" in found.missed


@pytest.mark.parametrize(
    ("metric", "value", "error", "word"),
    [
        ("auc", 0.83, 0.01, "better"),
        ("auc", 0.77, 0.01, "worse"),
        ("log_loss", 0.77, 0.01, "better"),
        ("log_loss", 0.83, 0.01, "worse"),
        ("auc", 0.82, 0.01, "within chance"),  # t with 39 degrees of freedom: 2.0227 standard errors
        ("auc", 0.8203, 0.01, "better"),
        ("calibration", 0.9, 0.01, "they differ"),
        ("auc", 0.8, 0.01, "equal"),
        ("auc", 0.9, math.nan, "too few rows to tell"),
        ("auc", math.nan, 0.01, ""),
    ],
)
def test_a_word_says_how_a_metric_differs_from_that_of_the_last_blessed_model(metric, value, error, word):
    rows = MeasuredRows((), {metric: value}, {metric: 0.8}, difference_errors={metric: error})
    found = judge_metric(metric, rows, None)
    assert found.change == word
    assert judge_metric(metric, replace(rows, baseline={}), None).change == ""
    assert judge_metric(metric, replace(rows, not_compared={metric: "other classes"}), None).change == ""


def test_the_weakest_slice_is_worse_than_all_rows_beyond_the_chance_of_any_slice():
    """With four slices, a slice must be worse by the 0.99375 quantile of t, 2.62 standard errors of its value."""
    rows = [
        replace(measured(0.9, of=name, examples=200, newest=newest), values={"auc": auc}, errors={"auc": error})
        for name, auc, error, newest in (
            ("a", 0.70, 0.08, False),
            ("b", 0.84, 0.02, False),
            ("c", 0.85, 0.02, False),
            ("d", 0.95, 0.01, False),
            ("e", 0.10, 0.01, True),
        )
    ]
    verdict = judge_metrics([measured(0.9), *rows], config(min=0.5))
    assert verdict.deciding.metric == "auc" and verdict.weakest.name == "zone b"
    assert judge_metrics([measured(0.9), *rows[:1], *rows[2:]], config(min=0.5)).weakest is None
    assert judge_metrics([measured(0.9)], config(min=0.5)).weakest is None


ONE_SLICE = [measured(0.9), measured(0.95, of="a")]
UNSLICED = MeasuredRows((), {"auc": 0.9, "example_count": 2e4}, unsliced=(("zone",),))


@pytest.mark.parametrize(
    ("rows", "threshold", "says"),
    [
        ([UNSLICED], {"slices": {"min": 0.1}}, "it has more than 10,000 combinations of values"),
        ([measured(0.9)], {"slices": {"min": 0.1}}, "no example has a value there"),
        ([measured(0.9), measured(0.9, of="a", examples=99)], {"slices": {"min": 0.1}}, "none of 1 slices has 100"),
        ([measured(0.9), measured(math.nan, of="a")], {"slices": {"min": 0.1}}, "and rows of both classes"),
        (ONE_SLICE, {"newest_span": {"slices": {"min": 0.1}}}, "the newest span has no row"),
        (
            [*ONE_SLICE, measured(0.9, newest=True)],
            {"newest_span": {"slices": {"min": 0.1}}},
            "zone of the newest span",
        ),
        (ONE_SLICE, {"min": 0.5, "beyond_chance": 0.95}, "chance cannot be estimated"),
        (ONE_SLICE, {"max": 0.99, "beyond_chance": 0.95}, "chance cannot be estimated"),
        (ONE_SLICE, {"slices": {"min": 0.5, "beyond_chance": 0.95}}, "chance cannot be estimated"),
        ([measured(math.nan), measured(0.9, of="a")], {"slices": {"min": 0.1}}, "auc is not a number"),
        (
            [measured(0.9, baseline=math.nan)],
            {"not_worse_than": "blessed"},
            "no value on the same rows to compare with",
        ),
        ([measured(0.9, examples=0)], {"min": 0.1}, "no labelled example"),
    ],
)
def test_a_threshold_that_was_not_judged_does_not_hold_and_the_reason_says_so(rows, threshold, says):
    bounds = config(**threshold)
    [why] = judge_metrics(rows, bounds).reasons
    assert says in why


@pytest.mark.parametrize("below", ["", ".slices"])
@pytest.mark.parametrize("of_blessed", [0.5, 2.0])
def test_quantiles_of_other_levels_are_not_compared_so_their_bound_does_not_hold(below, of_blessed):
    than_blessed = {"not_worse_than": "blessed"}
    thresholds = {"pinball": {"slices": than_blessed} if below else than_blessed, "mae": than_blessed}
    bounds = EvaluationConfig.model_validate({"slices": [["zone"]] if below else [], "thresholds": thresholds})
    values = {"pinball": 1.0, "mae": 1.0, "example_count": 500.0}
    why = "the quantiles of the last blessed model have other levels"
    whole = MeasuredRows((), values, {"pinball": of_blessed, "mae": 1.0}, not_compared={"pinball": why})
    rows = [whole, *([replace(whole, keys=(("zone", "a"),))] if below else [])]
    verdict = judge_metrics(rows, bounds)
    [why] = verdict.reasons
    path = f"evaluation.thresholds.pinball{below}.not_worse_than"
    note = "pinball: not compared, because the quantiles of the last blessed model have other levels"
    assert f"pinball is 1.0000, {note.removeprefix('pinball: ')} ({path};" in why
    assert verdict.notes == (note,)
    absolute = EvaluationConfig.model_validate({"thresholds": {"pinball": {"max": 1.5}}})
    verdict = judge_metrics(rows, absolute)
    assert verdict.blessed and verdict.notes == (note,)


def test_every_entry_of_slices_needs_a_slice_that_is_judged():
    both = EvaluationConfig.model_validate(
        {"slices": [["zone"], ["hour", "day"]], "thresholds": {"auc": {"slices": {"min": 0.5}}}}
    )
    few = MeasuredRows((("day", "1"), ("hour", "7")), {"auc": 0.9, "example_count": 99.0})
    [why] = judge_metrics([*ONE_SLICE, few], both).reasons
    assert "auc was judged on no slice of hour, day" in why
    assert judge_metrics([*ONE_SLICE, replace(few, values={"auc": 0.9, "example_count": 100.0})], both).blessed


def test_a_precision_of_a_slice_that_the_model_never_calls_positive_does_not_hold():
    bounds = EvaluationConfig.model_validate(
        {"slices": [["zone"]], "thresholds": {"precision": {"slices": {"min": 0.5}}}}
    )
    rows = [
        MeasuredRows(keys, {"precision": value, "example_count": 500.0})
        for keys, value in (((), 0.9), ((("zone", "a"),), math.nan), ((("zone", "b"),), 0.9))
    ]
    [why] = judge_metrics(rows, bounds).reasons
    assert "slice zone a (500 examples) precision is not a number: the model predicts no row as positive" in why


def test_what_was_not_judged_and_what_was_not_measured_is_noted():
    rows = [measured(0.9, examples=1000), measured(0.9, of="a", examples=400)]
    assert judge_metrics(rows, config(slices={"min": 0.5})).notes == (
        "600 of 1,000 examples are in no slice of zone, because a value is missing; these are not judged",
    )
    assert judge_metrics([UNSLICED], config(min=0.5)).notes == (
        "zone has more than 10,000 combinations of values, so none of its slices is measured",
    )


def test_measurements_are_json_without_nan_and_come_back_as_they_were(tmp_path):
    rows = [
        replace(UNSLICED, errors={"auc": math.nan}),
        MeasuredRows((("zone", "a"),), {"auc": math.nan, "example_count": 3.0}, {"auc": 0.5}, newest=True),
    ]
    (tmp_path / FILE).write_text(measured_json(rows))
    assert "NaN" not in measured_json(rows)
    assert repr(read_measured(str(tmp_path))) == repr(rows)


def test_a_verdict_is_json_without_nan_and_comes_back_as_it_was(tmp_path):
    """A last blessed model whose value is undefined is another thing than no such model."""
    rows = [
        measured(0.9, baseline=math.nan),
        measured(0.6, of="a", baseline=0.9),
        measured(math.nan, newest=True),
    ]
    verdict = judge_metrics(rows, config(min=0.5, slices=ON_SLICES, newest_span={"max": 1}))
    assert [m.baseline for m in verdict.newest] == [None] and math.isnan(verdict.metrics[0].baseline)
    assert not verdict.blessed and len(verdict.reasons) == 2
    (tmp_path / VERDICT_FILE).write_text(verdict_json(verdict))
    assert "NaN" not in verdict_json(verdict)
    assert repr(read_verdict(str(tmp_path))) == repr(verdict)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.0, "1234567"), (1234568.0, "1234568"), (16777215.0, "16777215"), (7.0, "7"), (-0.5, "-0.5")]
    + [(0.10000000149011612, "0.1"), (0.10000000894069672, "0.10000001"), (b"1234567", "1234567")]
    + [(1e20, "1e+20"), (1.5e-7, "1.5e-07"), (0.0, "0"), (math.inf, "inf")],
)
def test_the_value_of_a_slice_is_written_in_full(value, text):
    assert text_of(value) == text


def test_confidence_goes_with_a_comparison():
    with pytest.raises(ValueError, match="confidence requires not_worse_than"):
        Threshold(min=0.5, confidence=0.95)


@pytest.mark.parametrize(
    ("confidence", "t"), [(0.9, 1.304), (0.95, 1.685), (0.975, 2.023), (0.99, 2.426), (0.999, 3.313)]
)
def test_quantiles_are_those_of_the_tables_of_students_t(confidence, t):
    assert quantile(confidence) == pytest.approx(t, abs=2e-3)


@pytest.mark.parametrize("required", [False, True])
def test_a_model_no_better_than_the_simple_reference_is_blessed_with_a_sentence_or_refused(required):
    rows = [MeasuredRows((), {"auc": 0.9, "example_count": 100.0}, doubt="no better than a simple one")]
    config = EvaluationConfig.model_validate({"metrics": ["auc"], "beyond_reference": required})
    verdict = judge_metrics(rows, config)
    assert verdict.blessed is not required
    assert verdict.notes == (() if required else ("no better than a simple one",))
    assert verdict.reasons == (("no better than a simple one (evaluation.beyond_reference)",) if required else ())
    assert judge_metrics([replace(rows[0], doubt="")], config).blessed


def test_what_decided_is_each_bound_that_holds_or_each_reason():
    held = Measured("auc", 0.9, required=">= 0.8", error=0.01)
    verdict = Verdict(blessed=True, reasons=(), metrics=(held, Measured("accuracy", 0.7)), examples=10)
    assert verdict.decided == ("auc 0.9000 ± 0.0202: >= 0.8",) and not verdict.slices_differ
    assert replace(verdict, blessed=False, reasons=("auc is too low",)).decided == ("auc is too low",)
    missed = Slice("hour 7", 5, {"auc": 0.8}, judged=(replace(held, missed="too low"),))
    assert replace(verdict, slices=(missed,)).slices_differ
