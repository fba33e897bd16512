"""Checks of `model: {kind: trees}`: what it can read and learn, and the keys of `training:` that are for networks."""

from collections.abc import Iterator

from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.preprocessing.features.feature import ImageFeature
from fullpass.trainer.config import TREE_KEYS, TrainingConfig, Trees
from fullpass.trainer.loss_config import TASKS

_INSTEAD = "Remove it, or use model: {kind: wide_deep}"


def check_trees(loaded: Loaded) -> Iterator[Finding]:
    """Trees learn one label of numbers and categories, and read no key that is for networks."""
    config = loaded.config
    if not isinstance(config.model, Trees):
        return
    for name, feature in config.features.items():
        if isinstance(feature, ImageFeature):
            yield Finding(("features", name), f"is an image, which trees cannot read. {_INSTEAD}.")
    for name in config.sequences:
        yield Finding(("sequences", name), f"is a sequence, which trees cannot read. {_INSTEAD}.")
    if config.label.task == "multilabel":
        yield Finding(("label", "task"), "multilabel is not for trees. Use model: {kind: wide_deep}.")
    if config.training.loss.kind == "focal":
        fitting = ", ".join(kind for kind, tasks in TASKS.items() if config.label.task in tasks and kind != "focal")
        yield Finding(("training", "loss"), f"focal is not for trees. Accepted: {fitting}.")
    usual = TrainingConfig()
    for key in TrainingConfig.model_fields:
        if key not in TREE_KEYS and getattr(config.training, key) != getattr(usual, key):
            yield Finding(("training", key), f"is for networks; trees do not read it. {_instead(key)}")
    if config.training.distribution not in ("auto", "one_device"):
        yield Finding(("training", "distribution"), "trees grow on one machine. Accepted: auto, one_device.")


def _instead(key: str) -> str:
    if key == "learning_rate":
        return "Set model.learning_rate."
    if key == "warm_start":
        return "They grow anew, in seconds. Remove it."
    return "Remove it."
