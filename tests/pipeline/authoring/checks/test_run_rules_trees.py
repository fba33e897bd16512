"""Every key that trees do not read, and every feature that they cannot take, is refused before anything runs."""

import pytest

from fullpass.trainer.config import TREE_KEYS, TrainingConfig
from tests.pipeline.conftest import mistake, section

NETWORKS_ONLY = {
    "batch_size": "64", "optimizer": "sgd", "learning_rate": "0.1", "schedule": "cosine", "warmup": "0.1",
    "weight_decay": "0.1, optimizer: adamw", "clip_norm": "1.0", "label_smoothing": "0.1", "mask_rate": "0.1",
    "warm_start": "blessed", "checkpoint": "{keep: 3}", "profile": "{steps: [1, 2]}", "steps_per_execution": "5",
    "accumulate": "2", "xla": "true", "scaling": "linear", "wait_for_workers": "5.0",
    "mixed_precision": "bfloat16",
}  # fmt: skip
READ = {
    "epochs": "5", "early_stopping": "null", "time": "null", "loss": "auto", "calibration": "none", "seed": "7",
    "distribution": "one_device",
}  # fmt: skip


def tags(how: str) -> dict[int, str]:
    """Returns the lines of a pipeline of trees that reads the column `company` so."""
    return {16: f"  company: {{{how}}}", 18: "model: trees\nevaluation:"}


MISTAKES = {
    "a loss that they lack": mistake(section("model: trees\ntraining: {loss: focal}"),
        "training.loss", 19, "focal is not for trees", "Accepted: auto"),
    "a learning rate of networks": mistake(section("model: {kind: trees}\ntraining: {learning_rate: 0.1}"),
        "training.learning_rate", 19, "is for networks", "Set model.learning_rate"),
    "weights of another model": mistake(section("model: trees\ntraining: {warm_start: blessed}"),
        "training.warm_start", 19, "Trees are trained from scratch"),
    "checkpoints": mistake(section("model: trees\ntraining: {checkpoint: {every_steps: 5}}"),
        "training.checkpoint", 19, "Trees are not saved during training"),
    "several machines": mistake(section("model: trees\ntraining: {distribution: multi_worker}"),
        "training.distribution", 19, "trees grow on one machine"),
    "several devices": mistake(section("model: trees\ntraining: {distribution: mirrored}"),
        "training.distribution", 19, "Accepted: auto, one_device"),
    "an order of rows": mistake(section("model: trees\ninput: {shuffle_buffer: 1000}"),
        "input.shuffle_buffer", 19, "is for networks"),
    "a search by a key of networks": mistake(
        section("model: trees\ntuning: {search: {training.batch_size: {choices: [32, 64]}}}"),
        'tuning.search["training.batch_size"]', 19, "training has no"),
    "a search among encodings": mistake(
        section("model: trees\ntuning: {search: {features.company.encoding: {choices: [auto, one_hot]}}}"),
        'tuning.search["features.company.encoding"]', 19, "trees read the ids themselves"),
    "an image": mistake({15: "  fare: number\n  picture: {type: image, column: zone, size: [8, 8]}",
        18: "model: trees\nevaluation:"},
        "features.picture", 16, "is an image, which trees cannot read"),
    "an encoding": mistake(tags("type: category, encoding: one_hot"),
        "features.company.encoding", 16, "is for networks; trees read the ids"),
    "the encoding of a cross": mistake(
        section("model: trees\ncrosses: [{inputs: [company, started.hour], encoding: {embedding: 4}}]"),
        "crosses[0].encoding", 19, "is for networks; trees read the ids"),
    "a list read in its order": mistake(tags("type: category, list: {encoder: gru}, vocabulary: {top_k: 9}"),
        "features.company.list.encoder", 16, "reads elements in their order"),
    "a text read in its order": mistake(
        tags("type: text, output: ids, max_length: 9, encoder: gru, vocabulary: {top_k: 9}"),
        "features.company.encoder", 16, "reads elements in their order"),
    "an image, to trees or a network": mistake({
        15: "  fare: number\n  picture: {type: image, column: zone, size: [8, 8]}", 18: "model: auto\nevaluation:"},
        "features.picture", 16, "is an image, which trees cannot read"),
    "a loss that trees lack, of both": mistake(section("model: auto\ntraining: {loss: focal}"),
        "training.loss", 19, "focal is not for trees"),
    "both on several machines": mistake(section("model: auto\ntraining: {distribution: multi_worker}"),
        "training.distribution", 19, "kind: auto trains on one machine"),
    "a search in what is tried with its defaults": mistake(
        section("model: auto\ntuning: {search: {model.leaves: {min: 7, max: 63}}}"),
        'tuning.search["model.leaves"]', 19, "There are: none"),
    "a list pooled by what a model learns": mistake(
        tags("type: category, list: {pooling: attention}, vocabulary: {top_k: 9}"),
        "features.company.list.pooling", 16, "Accepted for trees: mean, sum, max, sqrt_n"),
}  # fmt: skip
ALLOWED = {
    "a list of any number of ids": tags('type: category, separator: "|"'),
    "a text of the usual size": tags("type: text"),
    "a list of buckets": tags("type: number, list: true, transforms: [{bucketize: {boundaries: [0, 5]}}]"),
    "a list of numbers": tags("type: number, list: {pooling: max}"),
    "a list of dates in pairs": tags("type: date, list: true, parts: [day_of_year], cyclic: true"),
    "a cross": section("model: trees\ncrosses: [{inputs: [company, started.hour]}]"),
    "no checkpoints": section("model: trees\ntraining: {checkpoint: null}"),
    "a cache, and features computed late": section("model: trees\ninput: {cache: none, compute_at: input}"),
    "weights of classes": {13: "  task: binary\n  class_weights: balanced", 18: "model: trees\nevaluation:"},
    "weights of rows": {13: "  task: binary\n  weight: hour", 18: "model: trees\nevaluation:"},
    "keys of the network of both": section(
        "model: auto\ntraining: {learning_rate: 0.01, batch_size: 64, distribution: mirrored}\n"
        "input: {shuffle_buffer: 1000}"
    ),
    "the encoding of the network of both": {
        16: "  company: {type: category, encoding: one_hot}",
        18: "model: auto\nevaluation:",
    },
    "a search": section(
        "model: trees\ntuning:\n  search:\n    model.leaves: {min: 7, max: 63}\n"
        "    model.learning_rate: {min: 0.01, max: 0.2, scale: log}\n    training.epochs: {min: 1, max: 9}"
    ),
}


@pytest.mark.parametrize(("lines", "path", "line", "says"), MISTAKES.values(), ids=MISTAKES)
def test_what_trees_do_not_take_is_refused_by_its_path(assert_told, lines, path, line, says):
    assert_told(lines, path, line, says)


@pytest.mark.parametrize("lines", ALLOWED.values(), ids=ALLOWED)
def test_what_trees_take_passes(edited, problems_of, lines):
    assert problems_of(edited(lines)) == ()


@pytest.mark.parametrize("key", TrainingConfig.model_fields)
def test_every_key_of_training_is_read_or_refused(edited, problems_of, key):
    value = {**NETWORKS_ONLY, **READ}[key]
    paths = [problem.path for problem in problems_of(edited(section(f"model: trees\ntraining: {{{key}: {value}}}")))]
    assert (f"training.{key}" in paths) == (key in NETWORKS_ONLY)


def test_the_keys_that_are_read_are_those_that_are_named():
    assert set(READ) == set(TREE_KEYS)
