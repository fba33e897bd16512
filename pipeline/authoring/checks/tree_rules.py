"""Checks of `model: {kind: trees}` and `auto`: features and tasks that trees support, and keys only for networks."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.pipeline.authoring.loading.load import Finding, Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.dates.date_format import PARTS
from fullpass.preprocessing.features.feature import (
    CategoryFeature,
    DateFeature,
    Feature,
    ImageFeature,
    NumberFeature,
    TextFeature,
)
from fullpass.preprocessing.features.ids import Vocabulary
from fullpass.preprocessing.features.lists import list_options
from fullpass.preprocessing.features.transforms import Bucketize
from fullpass.trainer.config import MAX_TREE_IDS, TREE_KEYS, TrainingConfig, Trees, TreesOrNetwork
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
        if config.preprocessing is None:
            yield from _check_ids(name, feature, loaded)
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


def _check_ids(name: str, feature: Feature, loaded: Loaded) -> Iterator[Finding]:
    """Yields a finding if a list or text has too many ids, each of which becomes a column."""
    if list_options(feature) is None and not isinstance(feature, TextFeature):
        return
    config = loaded.config
    owner = config.preprocessing_config.vocabulary_owner(name)
    vocabulary = getattr(config.features.get(owner, feature), "vocabulary", None)
    learned = isinstance(vocabulary, Vocabulary) and vocabulary.is_learned
    ids = _ids_of_vocabulary(vocabulary, loaded) if isinstance(vocabulary, Vocabulary) else _ids_of(feature)
    if ids is not None and ids <= MAX_TREE_IDS:
        return
    how = "Reduce their number"
    if isinstance(vocabulary, Vocabulary) and learned:
        how = f"Set features.{owner}.vocabulary.top_k to {MAX_TREE_IDS - 1 - vocabulary.oov_buckets} or less"
    known = "any number of" if ids is None else f"{ids:,}"
    yield Finding(
        ("features", name),
        f"is a list or text of {known} different ids. Trees have a column for each, and take up to {MAX_TREE_IDS}. "
        f"{how}, or use model: {{kind: wide_deep}}.",
    )


def _ids_of_vocabulary(vocabulary: Vocabulary, loaded: Loaded) -> int | None:
    """Returns the maximum number of ids of a vocabulary, including that of missing values; None if data decides."""
    tokens = len(vocabulary.tokens) if vocabulary.tokens is not None else vocabulary.top_k
    if vocabulary.file is not None:
        file = Path(loaded.resolve(vocabulary.file))
        tokens = file.read_bytes().removesuffix(b"\n").count(b"\n") + 1 if file.is_file() else 0
    return None if tokens is None else 1 + vocabulary.oov_buckets + tokens


def _ids_of(feature: Feature) -> int:
    """Returns the number of ids of a list's values, including that of missing values; 0 for numbers."""
    if isinstance(feature, CategoryFeature):
        return 1 + feature.hash.buckets if feature.hash is not None else 2 + getattr(feature.identity, "size", 0)
    if isinstance(feature, NumberFeature) and feature.transforms and isinstance(feature.transforms[-1], Bucketize):
        buckets = feature.transforms[-1]
        return 1 + (buckets.buckets or len(buckets.boundaries or ()) + 1)
    parts = feature.parts if isinstance(feature, DateFeature) and not feature.cyclic else ()
    return max((1 + (PARTS[part].size or 0) for part in parts), default=0)


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
