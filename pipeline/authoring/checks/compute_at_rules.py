"""Checks of where features are computed."""

from collections.abc import Iterator

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.compute_at import compute_at_by_feature, string_features
from fullpass.preprocessing.features.lists import reads_list


def check_compute_at_of_own_preprocessing(loaded: Loaded) -> Iterator[Finding]:
    """A user's preprocessing function computes all its features at one `compute_at`."""
    if loaded.config.preprocessing is None:
        return
    for name, feature in loaded.config.all_features.items():
        if feature.compute_at is not None:
            yield Finding(
                _keys(loaded, name),
                "not used: `preprocessing` computes all features together. Remove it here, and set input.compute_at.",
            )


def check_text_in_the_model(loaded: Loaded) -> Iterator[Finding]:
    """Features that read text are not computed on a GPU or TPU."""
    config = loaded.config
    by_keys: dict[Keys, list[str]] = {}
    preprocessing = config.preprocessing_config
    in_model = [name for name, where in compute_at_by_feature(preprocessing).items() if where == "model"]
    try:
        on_text = string_features(preprocessing, in_model)
    except UserError:
        return  # check_derive or check_column_types reports the error
    for name in in_model:
        if name in on_text:
            by_keys.setdefault(_keys(loaded, name), []).append(name)
    for keys, names in by_keys.items():
        which = f"{', '.join(names)}: computed in the model with text, which"
        if config.training.distribution == "tpu":
            yield Finding(keys, f"{which} a TPU cannot work on. Choose compute_at: input or transform.")
        elif config.training.xla is True:
            yield Finding(keys, f"{which} XLA cannot compile. Choose compute_at: input or transform, or leave out xla.")
        else:
            yield warning(
                keys,
                f"{which} only a CPU works on: with a GPU every training step waits for the host. `compute_at: input` "
                "computes it ahead of the step.",
            )


def check_lists_in_the_model(loaded: Loaded) -> Iterator[Finding]:
    """List features are not computed in the model, because its raw columns have a fixed width."""
    config = loaded.config
    features = config.all_features
    for name, where in compute_at_by_feature(config.preprocessing_config).items():
        if where == "model" and reads_list(features.get(name)):
            yield Finding(
                _keys(loaded, name),
                f"{name} is a list, which is computed when examples are written or as training reads them. Give it "
                "compute_at: input, or transform.",
            )


def _keys(loaded: Loaded, name: str) -> Keys:
    """Returns the path of the key that decides where a feature or cross is computed."""
    for i, cross in enumerate(loaded.config.crosses):
        if cross.feature_name == name:
            return ("crosses", i)
    own = loaded.config.all_features[name].compute_at is not None
    return (*loaded.config.keys_of(name)[:2], "compute_at") if own else ("input", "compute_at")
