"""Checks of where features are computed."""

from collections.abc import Iterator

from pipeline.checks.findings import Finding, warning
from pipeline.loading.load import Loaded
from pipeline.loading.problems import Keys
from preprocessing.places import places, works_on_text


def check_places_of_own_preprocessing(loaded: Loaded) -> Iterator[Finding]:
    """Features of a function of the user's are computed at one place."""
    if loaded.config.preprocessing is None:
        return
    for name, feature in loaded.config.features.items():
        if feature.place is not None:
            yield Finding(
                ("features", name, "place"),
                "not used: `preprocessing` makes all features, at one place. Remove it here, and set input.place.",
            )


def check_text_in_the_model(loaded: Loaded) -> Iterator[Finding]:
    """What works on text is not computed on a GPU or TPU."""
    config = loaded.config
    by_keys: dict[Keys, list[str]] = {}
    for name, place in places(config.preprocessing_config).items():
        if place == "model" and works_on_text(config.preprocessing_config, name):
            by_keys.setdefault(_keys(loaded, name), []).append(name)
    for keys, names in by_keys.items():
        which = f"{', '.join(names)}: computed in the model with text, which"
        if config.training.distribution == "tpu":
            yield Finding(keys, f"{which} a TPU cannot work on. Choose place: input, or transform.")
        elif config.training.xla is True:
            yield Finding(keys, f"{which} XLA cannot compile. Choose place: input, or transform, or leave out xla.")
        else:
            yield warning(
                keys,
                f"{which} only a CPU works on: with a GPU every training step waits for the host. `place: input` "
                "computes it ahead of the step.",
            )


def _keys(loaded: Loaded, name: str) -> Keys:
    """Returns where a feature's place is decided; a cross goes where the latest of its inputs goes."""
    for i, cross in enumerate(loaded.config.crosses):
        if cross.feature_name == name:
            return ("crosses", i)
    own = loaded.config.features[name].place is not None
    return ("features", name, "place") if own else ("input", "place")
