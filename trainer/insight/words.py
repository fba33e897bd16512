"""Says what training.json records of a training, as text for people. Nothing here imports TensorFlow."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fullpass.base.metric_text import metric_text
from fullpass.trainer.config import VALIDATION

TOO_GOOD = 0.999
"""Value of a metric from which a model is suspected to read the label: one wrong pair or row in a thousand."""
_ALONE = 0.99
"""Value that a feature has alone from which it is named: it explains the model by itself."""
_FEWER_ERRORS = 0.1
"""Share of the errors of the most frequent class that such a model makes at most: an accuracy of 0.999 is usual where
one row in a thousand is of the other class."""
_SHOWN = 3
"""Columns that are named at most."""


def too_good_words(values: Mapping[str, float], record: Mapping[str, Any], guessed: Collection[str] = ()) -> str:
    """Returns a sentence that names the columns behind a metric of at least 0.999; "" without metric or evidence.

    The evidence is that a feature alone predicts the label, or else that the model relies on features beyond chance.
    A metric that can be guessed counts only if the model makes a tenth of the errors of the most frequent class.

    Args:
        values: Metrics whose best value, 1, means that nearly every row is predicted right.
        record: The content of training.json.
        guessed: Those of them that are nearly 1 for a model that always says a class of nearly all rows.

    Example:
        >>> alone = {"feature": "paid", "column": "paid_at", "value": 0.9998, "rows": 900}
        >>> too_good_words({"auc": 0.9996}, {"alone": [alone]})[:78]
        'too good: auc is 0.9996. Look at column paid_at: feature paid alone has 0.9998'
    """
    rows = list(record.get("classes", {}).values())
    errors = 1 - max(rows) / sum(rows) if sum(rows) else 1.0
    reached = [
        name
        for name, value in values.items()
        if value >= TOO_GOOD and (name not in guessed or 1 - value <= _FEWER_ERRORS * errors)
    ]
    evidence = _evidence(record)
    if not (reached and evidence):
        return ""
    return (
        f"too good: {reached[0]} is {values[reached[0]]:.4f}. Look at {evidence}. If it is made from the label, or "
        "known only after it, take it out of the features"
    )


def _evidence(record: Mapping[str, Any]) -> str:
    alone = [one for one in record.get("alone", ()) if one["value"] >= _ALONE]
    if alone:
        return "; ".join(
            f"column {one['column']}: feature {one['feature']} alone has {one['value']:.4f} on {one['rows']:,} rows"
            for one in alone[:_SHOWN]
        )
    certain = [one for one in record.get("importance", ()) if one["importance"] > one["reach"]][:_SHOWN]
    listed = ", ".join(f"{one['feature']} ({one['importance']:.4f})" for one in certain)
    return f"the features that the model relies on most, by importance: {listed}" if certain else ""


def epochs_words(record: Mapping[str, Any]) -> str:
    """Returns the number of epochs, the best of them, the limit that ended them, and the falls of the learning rate.

    Example:
        >>> epochs_words({"epochs": 30, "best_epoch": 30, "ended_by": "epochs", "restarts": [12]})
        '30, the best 30; the last epoch is the best: raise training.epochs; the learning rate fell after epoch 12'
        >>> epochs_words({"epochs": 20, "best_epoch": 15, "ended_by": "early_stopping", "again": ["trees"]})
        '20, the best 15; ended by early stopping; then trees learned from the validation rows too'
    """
    found = [f"{record['epochs']}, the best {record['best_epoch']}", ended_words(record)]
    if restarts := record.get("restarts"):
        epochs = ", ".join(map(str, restarts))
        found.append(f"the learning rate fell after epoch{'s' * (len(restarts) > 1)} {epochs}")
    if again := record.get("again"):
        found.append(f"then {' and '.join(again)} learned from the validation rows too")
    return "; ".join(filter(None, found))


def ended_words(record: Mapping[str, Any]) -> str:
    """Returns what ended a training, and what to raise if it was a limit; "" if it made its epochs.

    Example:
        >>> tried = {"epochs": 20, "best_epoch": 15, "ended_by": "early_stopping"}
        >>> ended_words(tried | {"limited": {"trees": 300}})
        'ended by early stopping; trees: the last of 300 epochs is the best: raise training.epochs or time'
    """
    others = [
        f"{kind}: the last of {epochs:,} epochs is the best: raise training.epochs or time"
        for kind, epochs in (record.get("limited") or {}).items()
    ]
    return "; ".join(filter(None, [_ended(record), *others]))


def _ended(record: Mapping[str, Any]) -> str:
    last_is_best = record["best_epoch"] == record["epochs"] > 1
    if record["ended_by"] == "time":
        return f"ended by training.time{', the last epoch is the best: raise it' if last_is_best else ''}"
    if record["ended_by"] == "early_stopping":
        return "ended by early stopping"
    return "the last epoch is the best: raise training.epochs" if last_is_best else ""


def tried_words(record: Mapping[str, Any]) -> str:
    """Returns which of several models was kept, and by what; the smallest value is the best.

    Examples:
        >>> tried = {"compared": {"trees": 0.31, "wide_deep": 0.29}, "model": {"monitor": "log_loss"}}
        >>> tried_words(tried)
        'wide_deep, by log_loss of the eval split: 0.29; trees 0.31'
        >>> found = {"weights": {"trees": 0.38, "wide_deep": 0.62}, "gain": 0.0031, "reach": 0.0009, "kept": True}
        >>> tried_words(tried | {"blend": found}).split("; ")[0]
        '0.38 trees + 0.62 wide_deep, better by 0.0031 ± 0.0009'
    """
    tried = sorted(record["compared"].items(), key=lambda pair: pair[1])
    kept, *others = [f"{kind} {value:.4g}" for kind, value in tried]
    monitor = f"{(record.get('model') or {}).get('monitor', 'the smallest loss')} of the {chosen_on(record)} split"
    blend = record.get("blend")
    others += [f"{kind} is left out: about {s:.0f} s" for kind, s in (record.get("left_out") or {}).items()]
    kind, value = kept.rsplit(" ", 1)
    if not blend:
        return "; ".join([f"{kind}, by {monitor}: {value}", *others])
    weights = " + ".join(f"{weight:.2f} {kind}" for kind, weight in blend["weights"].items() if weight)
    gain = _gain_words(blend["gain"], blend["reach"])
    if blend["kept"]:
        return "; ".join([f"{weights}, {gain}", f"{monitor}: {kept}", *others])
    return "; ".join([f"{kind}, by {monitor}: {value}", *others, f"a blend ({weights}) is {gain}"])


def _gain_words(gain: float, reach: float) -> str:
    """Returns by how much the loss is better or worse, as a positive number.

    Example:
        >>> _gain_words(-0.0033, 0.008)
        'worse by 0.0033 ± 0.008, within chance'
    """
    words = f"{'better' if gain >= 0 else 'worse'} by {abs(gain):.2g} ± {reach:.2g}"
    return words if abs(gain) > reach else f"{words}, within chance"


def chosen_on(record: Mapping[str, Any]) -> str:
    """Returns the split whose rows ended the training and chose, from training.json."""
    return VALIDATION if VALIDATION in (record.get("rows") or {}) else "eval"


def reference_doubt(record: Mapping[str, Any], baselines: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns why a model is no better than a simple one beyond chance; "" if it is better than all.

    A label of several classes per row has no reference, and no doubt.

    Args:
        record: The content of training.json, with the simple reference.
        baselines: Those of a forecast, in the same form.
    """
    references = list(baselines)
    if "reference" in record and record.get("model", {}).get("task") != "multilabel":
        if record["reference"] is None:
            return "the simple reference could not be measured: train or eval has one class or one number only"
        references.insert(0, record["reference"])
    words = "; ".join(reference_words(one) for one in references if not _is_beaten(one))
    return f"the model is no better than a simple one beyond chance: {words}" if words else ""


def _is_beaten(reference: Mapping[str, Any]) -> bool:
    if reference["reference"] is None or reference["reach"] is None:
        return False
    return bool(_gain(reference) > reference["reach"])


def _gain(reference: Mapping[str, Any]) -> float:
    """Returns by how much the model is better; negative if it is worse."""
    difference = reference["network"] - reference["reference"]
    return -difference if reference["metric"] == "rmse" else difference


def reference_words(reference: Mapping[str, Any] | None) -> str:
    """Returns the entry `reference` of training.json, or a baseline of a forecast, as a line; "" without one.

    Example:
        >>> found = {"kind": "ridge regression", "metric": "rmse", "reference": 3.0, "network": 2.5, "reach": 0.1,
        ...          "train_rows": 900, "eval_rows": 100, "seconds": 0.1}
        >>> reference_words(found)
        'ridge regression on 900 rows has rmse 3.0000, the model 2.5000 on the same 100: better by 0.5000 ± 0.1000'
    """
    if reference is None:
        return ""
    if reference["reference"] is None:
        return f"{reference['kind']} is known for no row of eval"
    gain, reach = _gain(reference), reference["reach"]
    verdict = f"{'better' if gain >= 0 else 'worse'} by {metric_text(abs(gain), reach)}"
    if reach is not None and abs(gain) <= reach:
        verdict = f"{verdict}, within chance" if gain else "equal"
    trained = f" on {reference['train_rows']:,} rows" if "train_rows" in reference else ""
    return (
        f"{reference['kind']}{trained} has {reference['metric']} "
        f"{metric_text(reference['reference'])}, the model {metric_text(reference['network'])} on the same "
        f"{reference['eval_rows']:,}: {verdict}"
    )
