"""Grows the boosted trees of a section `model: {kind: trees}`, and converts them to a network.

LightGBM grows the trees. The network is plain TensorFlow, so that all later steps use it like any other network.
"""

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np

from fullpass.base.errors import UserError
from fullpass.base.processes import stop_requests
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import TrainingConfig, TrainingSpec, Trees
from fullpass.trainer.fit.fit import Fitted, OnEpoch, Report
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.input.epochs import Batch
from fullpass.trainer.input.placement import with_model_features, with_preprocessing
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.loss_config import LossConfig, Quantile
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import apply_model, keras_inputs, model_inputs, transformed_outputs
from fullpass.trainer.models.tasks import headed, logit_names, target_unit, targets_of
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.trees.folds import folds_to_choose
from fullpass.trainer.trees.forest import ForestLayer, forest_of, mean_of
from fullpass.trainer.trees.growth import NumbersChoice
from fullpass.trainer.trees.rounds import (
    Judge,
    Rounds,
    booster_parameters,
    boosters_at_once,
    choose_thresholds,
    ignore,
    regrow,
    threads_for,
)
from fullpass.trainer.trees.text_scores import COMPONENTS, MAX_SCORES, id_rows, learn_scores
from fullpass.trainer.trees.tree_columns import columns_model, scored_inputs, tree_columns
from fullpass.trainer.trees.tree_rows import BinnedRows, bin_rows, check_memory, find_bins
from fullpass.trainer.trees.work import AGAIN, ROUNDS, USUAL_EPOCHS, Work, seconds_of_work

_LOG = logging.getLogger(__name__)
_FEW_IDS = 50
"""The most ids of a feature for which it does not matter how categories are smoothed."""
_AGAIN_ROWS = 100_000
"""The most train rows with which trees grow again."""
_AGAIN_LEAVES = 46_500
"""The most leaves of all trees that grew again, as of 1,500 trees, because a prediction looks through them."""


@dataclass(frozen=True)
class Grown:
    """Trees as a network.

    Attributes:
        again: Grows the same number of rounds again, also on the rows of the split validation; None if that is not
            worth its time. What the validation rows choose or correct must be known before.
        loss: What the first trees lose on the validation rows, in the metric that growth watches; with folds, on those.
        forests: The number of forests that grew again, whose mean this is; 0 for the first forest.
        random: The number of these whose thresholds are drawn at random.
        held: With folds, the output for each train row of trees that did not learn from it, float32 [rows, columns].
    """

    network: Network
    fitted: Fitted
    trees: int
    leaves: int
    loss: float
    again: Callable[[], "Grown"] | None = None
    forests: int = 0
    random: int = 0
    held: np.ndarray | None = None


@dataclass(frozen=True)
class _Unit:
    """The targets that trees are fitted to, and the unit of their output."""

    task: Task
    loss: LossConfig
    scale: float
    offset: float
    classes: np.ndarray
    """The classes from the most frequent on, int64 [classes]."""

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """Returns the targets that trees are fitted to, float64 [rows]."""
        return targets_of(labels, self.scale, self.offset, self.loss)

    def learned_by_scores(self, labels: np.ndarray) -> np.ndarray:
        """Returns the targets of linear models, one column each, float64 [rows, scores]."""
        if self.task != "multiclass":
            return self.targets(labels)[:, None]
        return np.equal(labels[:, None], self.classes[:MAX_SCORES]).astype(np.float64)

    def head(self, output: keras.KerasTensor) -> keras.KerasTensor:
        """Returns logits, or predictions in the unit of the label, after the layer `head`."""
        if isinstance(self.loss, Quantile):
            output = InOrder(name="rising")(output)
        return headed(output, self.task, self.scale, self.offset, self.loss)


class InOrder(keras.layers.Layer):
    """x float [batch, columns] -> the numbers of each row in rising order, so that separate quantiles do not cross."""

    def call(self, x):
        return keras.ops.sort(x, axis=-1)


def grow_trees(
    data: TrainingData, spec: TrainingSpec, *, epochs: tuple[int, int], report: Report, on_epoch: OnEpoch
) -> Grown:
    """Grows the trees of a training, for a number of epochs, and up to a second number while they improve.

    Raises:
        UserError: Trees do not support a feature, the label or the loss, or there is too little memory.
        StoppedError: This process received a stop signal.
    """
    label, training = spec.preprocessing.label, spec.config.training
    _check(label.task, training.loss)
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    factors = data.statistics.factors.tolist()
    unit = _unit(label.task, training, data.train.counts)
    scored = scored_inputs(inputs)
    texts = learn_scores(data.train.split, scored, unit.learned_by_scores, factors, data.in_model)
    columns = tree_columns(inputs, texts)
    reader = with_preprocessing(columns_model(inputs, columns), data.in_model)
    names = logit_names(label.task, data.statistics.names, training.loss)
    check_memory(data.train.counts.weighted_rows, columns.width, len(names))
    threads = threads_for(data.train.counts.weighted_rows, columns.width)
    at_once = boosters_at_once(threads)
    settings = booster_parameters(_trees(spec), training, label.task, len(data.statistics.names), threads)
    work = _work(data, spec, columns.width)

    def read(batch: Batch, _: np.ndarray) -> np.ndarray:
        return apply_model(reader, batch[0], training=False).numpy()

    def read_train(batch: Batch, numbers: np.ndarray) -> np.ndarray:
        found, features = read(batch, numbers), with_model_features(batch[0], data.in_model) if scored else {}
        for item in scored:
            of_text, first = texts[item.name], columns.scores[item.name]
            found[:, first : first + of_text.scores] = of_text.of_train(id_rows(item, features), numbers)
        return found

    bins = find_bins(data.train.split, read_train, columns.unseen, settings[0])
    of_train, of_validation = (data.train.split, read_train), (data.validation.split, read)
    train = bin_rows([of_train], unit.targets, bins, unseen=columns.unseen, factors=factors)
    folds = data.folds
    validation = bin_rows([of_validation], unit.targets, bins) if folds is None else train
    raw = keras.Input((len(names),), name="answer")
    criterion = loss_of(label.task, training.loss, label_deviation=data.train.counts.error_unit)
    judge = Judge(keras.Model(raw, unit.head(raw)), criterion, label.task, training)

    def grown(dumps: Sequence[Mapping[str, Any]], rows: BinnedRows) -> Grown:
        never_seen = {column: np.flatnonzero(~seen).tolist() for column, seen in rows.seen.items()}
        forest = forest_of(dumps, never_seen)
        _LOG.info("trees: %s trees of %s leaves are kept", f"{forest.trees:,}", f"{forest.leaves:,}")
        output = unit.head(ForestLayer(forest, name="forest")(columns.matrix))
        model = keras.Model(keras_inputs(inputs), output, name="trees")
        network = Network(model, inputs, spec.preprocessing, names if any(names) else ())
        return Grown(network, fitted, forest.trees, forest.leaves, loss)

    with stop_requests() as stops, ThreadPoolExecutor(at_once) as growers:

        def boosters(rows: BinnedRows, cut: np.ndarray | None, parameters: Mapping[str, Any]) -> Rounds:
            return Rounds([{**booster, **parameters} for booster in settings], train, rows, judge, growers, cut)

        many = any(item.output.kind == "ids" and item.size > _FEW_IDS for item in inputs.values())
        rounds_of = partial(boosters, validation, folds)
        choosing = None if folds is not None else folds_to_choose(data, spec)
        of_folds = None if choosing is None else partial(boosters, train, choosing)
        choice = NumbersChoice(_trees(spec), work, len(train.weight), rounds_of, at_once, stops, epochs[0], of_folds)
        best = choice.run(categories=many)
        leaves = choice.chosen["num_leaves"]
        if training.epochs == "auto":
            epochs = (min(epochs[0], work.most_epochs(leaves)), min(epochs[1], work.most_epochs(leaves)))
        fitted = best.run(epochs, _telling(report, work, choice), on_epoch, stops)
        first_work = work.of(leaves, ROUNDS * fitted.epochs)
        left = work.budget - choice.spent - first_work
        own_validation = data.validation is not data.evaluation
        again_pays = (own_validation or folds is not None) and len(train.weight) <= _AGAIN_ROWS
        kept, both_fit = [best], 2 * fitted.best_epoch <= work.most_epochs(leaves)
        if again_pays and both_fit and 2 * first_work <= left:
            random = rounds_of({**choice.chosen, "extra_trees": True})
            of_random = random.run(epochs, report, ignore, stops)
            left -= work.of(leaves, ROUNDS * of_random.epochs)
            kept = choose_thresholds(best, random)
            fitted = of_random if kept == [random] else fitted
        loss = kept[0].loss_of(kept)

    def regrown(rows: BinnedRows, seeds: range) -> list[list[dict[str, Any]]]:
        """Returns forests whose seeds are so much higher, and which have as many rounds per row as were best."""
        learned = len(train.weight) if folds is None else len(folds) * (1 - 1 / len(np.unique(folds)))
        share = len(rows.weight) / learned

        def member(wanted: tuple[int, Rounds]) -> list[dict[str, Any]]:
            seed, one = wanted
            rounds = math.ceil(ROUNDS * one.best_epoch * share)
            return regrow(one.settings, rows.dataset, rounds, training.seed + seed, stops)

        with stop_requests() as stops, ThreadPoolExecutor(at_once) as growers:
            return list(growers.map(member, itertools.product(seeds, kept)))

    if folds is None:
        members = [rounds.dumps() for rounds in kept]
        first = grown(mean_of(members), train)
    else:
        members = regrown(train, range(1, 2))
        output = judge.head(np.mean([rounds.logits for rounds in kept], axis=0, dtype=np.float32)).numpy()
        first = replace(grown(mean_of(members), train), held=output)

    growing = sum(work.of(leaves, ROUNDS * one.best_epoch) for one in kept)
    times = min(AGAIN, max(1, _AGAIN_LEAVES // first.leaves), int(left / growing)) if again_pays else 0

    def again() -> Grown:
        if own_validation:
            rows = bin_rows([of_train, of_validation], unit.targets, bins, unseen=columns.unseen, factors=factors)
            forests = regrown(rows, range(1, times + 1))
        else:  # the same rows, of which the first seed has grown
            rows, forests = train, members + regrown(train, range(2, times + 1))
        drawn = times * sum("extra_trees" in one.settings[0] for one in kept)
        return replace(grown(mean_of(forests), rows), forests=len(forests), random=drawn)

    return replace(first, again=again) if times > 0 else first


def _telling(report: Report, work: Work, choice: NumbersChoice) -> Report:
    """Returns a report that also says about how long all growth takes, choices and later forests included."""
    rounds = work.of(choice.chosen["num_leaves"], ROUNDS * min(choice.epochs, USUAL_EPOCHS))
    seconds = seconds_of_work(choice.spent + work.whole(rounds))
    _LOG.info("trees: growth takes about %.0f s of processor", seconds)

    def tell(done: int, total: int | None, unit: str, note: str, ends_at: float | None) -> None:
        report(done, total, unit, f"{note}, about {seconds:.0f} s of processor in all", ends_at)

    return tell


def work_of(data: TrainingData, spec: TrainingSpec) -> Work:
    """Returns what the growth of trees costs, from the inputs alone: no column is read."""
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    outputs, scored = len(data.statistics.names), scored_inputs(inputs)
    single = sum(item.output.kind == "ids" and not item.output.multi for item in inputs.values())
    lists = sum(item.size for item in inputs.values() if item.output.multi and item not in scored)
    numbers = sum(item.width for item in inputs.values() if item.output.kind != "ids")
    return _work(data, spec, single + lists + numbers + len(scored) * (min(MAX_SCORES, max(1, outputs)) + COMPONENTS))


def _work(data: TrainingData, spec: TrainingSpec, columns: int) -> Work:
    names = logit_names(spec.preprocessing.label.task, data.statistics.names, spec.config.training.loss)
    rows = data.train.counts.weighted_rows * (1 if data.folds is None else len(np.unique(data.folds)) - 1)
    return Work(rows, columns, len(names), spec.config.training.seconds)


def _trees(spec: TrainingSpec) -> Trees:
    if not isinstance(spec.config.model, Trees):
        raise TypeError(f"model: {spec.config.model.kind} is not trees")
    return spec.config.model


def _unit(task: Task, training: TrainingConfig, counts: SplitCounts) -> _Unit:
    unit = target_unit(task, training.loss, counts)
    return _Unit(task, training.loss, *unit, np.argsort(-counts.class_rows, kind="stable"))


def _check(task: Task, loss: LossConfig) -> None:
    if task == "multilabel":
        raise UserError("label.task: multilabel is not for trees. Use model: {kind: wide_deep}.")
    if loss.objective is None:
        raise UserError(f"training.loss: {loss.kind} is not for trees. Use auto.")
