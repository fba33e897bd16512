"""Checks of retraining: stable ids, warm starts, and thresholds on the newest span."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.base.files import is_address
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.authoring.checks.evaluation_rules import bound_problems
from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.features.ids import StableIds, Vocabulary

_NO_SPANS = "the source has no spans. Put a field such as {YYYY}-{MM}-{DD} in data.source.path"


def check_stable_ids(loaded: Loaded) -> Iterator[Finding]:
    """Stable ids belong to learned vocabularies, and `keep_spans` needs a source with spans."""
    config = loaded.config
    preprocessing = config.preprocessing_config
    if config.stable_ids and config.preprocessing is not None:
        yield Finding(("stable_ids",), "has no effect: `preprocessing` replaces the transforms of all features.")
    elif config.stable_ids and not preprocessing.has_stable_ids:
        yield warning(("stable_ids",), "has no effect: no feature learns a vocabulary.")
    if not has_spans(config.data):
        for keys, said in _stable_ids(loaded):
            if isinstance(said, StableIds) and said.keep_spans is not None:
                yield Finding((*keys, "keep_spans"), f"{_NO_SPANS}, or give keep_models.")


def check_warm_start(loaded: Loaded) -> Iterator[Finding]:
    """The export of a warm start exists; a warm start combined with `tuning` is a warning."""
    training = loaded.config.training
    if training.begins_from_folder and not is_address(training.warm_start):
        folder = Path(loaded.resolve(training.warm_start))
        if not (folder / "saved_model.pb").exists():
            yield Finding(
                ("training", "warm_start"),
                f"no exported model in {folder}. Accepted: none, blessed, or a model's folder, such as "
                "serving/1760000000.",
            )
    if training.warm_start != "none" and loaded.config.tuning is not None:
        yield warning(
            ("training", "warm_start"),
            "trials of `tuning` start from scratch; their best values may not suit a warm start.",
        )


def check_newest_span(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds on the newest span need a source with spans, and bound a metric on its bad side."""
    config = loaded.config
    for name, threshold in config.evaluation.thresholds.items():
        if threshold.newest_span is None:
            continue
        keys: Keys = ("evaluation", "thresholds", name, "newest_span")
        if not has_spans(config.data):
            yield Finding(keys, f"{_NO_SPANS}, or remove it.")
        yield from bound_problems(keys, name, threshold.newest_span)


def _stable_ids(loaded: Loaded) -> Iterator[tuple[Keys, object]]:
    config = loaded.config
    yield ("stable_ids",), config.stable_ids
    features: list[tuple[Keys, object]] = [(config.keys_of(n), f) for n, f in config.all_features.items()]
    crosses: list[tuple[Keys, object]] = [(("crosses", i), cross) for i, cross in enumerate(config.crosses)]
    for keys, holder in features + crosses:
        vocabulary = getattr(holder, "vocabulary", None)
        if isinstance(vocabulary, Vocabulary):
            yield (*keys, "vocabulary", "stable_ids"), vocabulary.stable_ids
