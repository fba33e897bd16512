"""Checks of `model: {kind: trees}` and `auto`: features and tasks that trees support, and keys only for networks."""

from collections.abc import Iterator

from fullpass.pipeline.authoring.loading.load import Finding, Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.features.feature import Feature, ImageFeature, TextFeature
from fullpass.preprocessing.features.lists import list_options
from fullpass.trainer.config import TREE_KEYS, TrainingConfig, Trees, TreesOrNetwork
from fullpass.trainer.loss_config import losses_for

_INSTEAD = "Remove it, or use model: {kind: wide_deep}"
_INSTEAD_OF = {
    "learning_rate": "Set model.learning_rate.",
    "warm_start": "Trees are trained from scratch in seconds. Remove it.",
    "checkpoint": "Trees are not saved during training. Remove it.",
}
"""Key of training: that trees do not read -> what to do."""


def check_trees(loaded: Loaded) -> Iterator[Finding]:
    """Trees learn one label from numbers and categories, and the file sets no key that only networks read."""
    config = loaded.config
    if not isinstance(config.model, Trees | TreesOrNetwork):
        return
    for name, feature in config.features.items():
        yield from _check_feature(name, feature)
    for name in config.sequences:
        yield Finding(("sequences", name), f"is a sequence, which trees cannot read. {_INSTEAD}.")
    if config.label.task == "multilabel":
        yield Finding(("label", "task"), "multilabel is not for trees. Use model: {kind: wide_deep}.")
    if config.training.loss.objective is None:
        accepted = losses_for(config.label.task, trees=True)
        yield Finding(("training", "loss"), f"{config.training.loss.kind} is not for trees. Accepted: {accepted}.")
    if isinstance(config.model, Trees):
        yield from _check_keys_of_networks(loaded)
    elif config.training.distribution == "multi_worker":
        message = "kind: auto trains on one machine. Accepted: auto, one_device, mirrored, tpu."
        yield Finding(("training", "distribution"), message)


def _check_feature(name: str, feature: Feature) -> Iterator[Finding]:
    keys = ("features", name)
    if isinstance(feature, ImageFeature):
        yield Finding(keys, f"is an image, which trees cannot read. {_INSTEAD}.")
    if isinstance(feature, TextFeature) and feature.encoder is not None:
        yield _in_order((*keys, "encoder"))
    options = list_options(feature)
    if options is not None:
        if options.encoder is not None:
            yield _in_order((*keys, "list", "encoder"))
        if options.attend_to is not None:
            yield _in_order((*keys, "list", "attend_to"))
        if options.pooling == "attention":
            message = "attention is for networks. Accepted for trees: mean, sum, max, sqrt_n."
            yield Finding((*keys, "list", "pooling"), message)


def _check_keys_of_networks(loaded: Loaded) -> Iterator[Finding]:
    """Yields a finding for each key that only network training reads."""
    config, usual = loaded.config, TrainingConfig()
    holders: list[tuple[Keys, object]] = [(("features", name), feature) for name, feature in config.features.items()]
    holders += [(("crosses", i), cross) for i, cross in enumerate(config.crosses)]
    for keys, holder in holders:
        if getattr(holder, "encoding", "auto") != "auto":
            yield Finding((*keys, "encoding"), "is for networks; trees read the ids themselves. Remove it.")
    for key in TrainingConfig.model_fields:
        given = getattr(config.training, key)
        # `checkpoint: null` disables checkpoints, and trees write none while they grow.
        if key not in TREE_KEYS and given != getattr(usual, key) and (key, given) != ("checkpoint", None):
            instead = _INSTEAD_OF.get(key, "Remove it.")
            yield Finding(("training", key), f"is for networks; trees do not read it. {instead}")
    if config.training.distribution not in ("auto", "one_device"):
        yield Finding(("training", "distribution"), "trees grow on one machine. Accepted: auto, one_device.")
    if config.input.shuffle_buffer != "auto":
        message = "is for networks; trees see all rows at once, whatever their order. Remove it."
        yield Finding(("input", "shuffle_buffer"), message)


def _in_order(keys: Keys) -> Finding:
    return Finding(keys, f"reads elements in their order, which trees cannot. {_INSTEAD}.")
