"""Where each feature is computed: when examples are written, in the input function, or in the model.

The analysis is the same for all, and so are the values: one transform graph, of which each place applies its part. A
cross is computed at the latest place of its inputs.
"""

from preprocessing.columns import RawColumn, feature_columns, raw_columns, with_origins
from preprocessing.config import PreprocessingConfig
from preprocessing.feature import CategoryFeature, Cross, Feature, Place
from preprocessing.outputs import outputs

PLACES: tuple[Place, ...] = ("transform", "input", "model")
"""In the order in which an example passes them."""
_RAW = "fullpass_raw/"


def places(config: PreprocessingConfig) -> dict[str, Place]:
    """Returns where each feature and each cross is computed, by name; nothing behind a function of the user's."""
    if config.function is not None:
        return {}
    found: dict[str, Place] = {name: feature.place or config.place for name, feature in config.features.items()}
    for cross in config.crosses:
        found[cross.feature_name] = max(
            (found[name] for name in owners(cross, config)), key=PLACES.index, default=config.place
        )
    return found


def transformed_at(config: PreprocessingConfig, place: Place) -> list[str]:
    """Returns the transformed features computed at a place, weights of ids included, in the order of `outputs`.

    A function of the user's that replaces all transforms is not known here: its features are all at `config.place`.
    """
    where = places(config)
    mine = [output for output in outputs(config) if where[output.feature] == place]
    return [name for output in mine for name in (output.name, output.weights) if name is not None]


def materializes(config: PreprocessingConfig) -> bool:
    """Returns whether any feature is computed when examples are written; if none is, training reads raw examples."""
    if config.function is not None:
        return config.place == "transform"
    return "transform" in places(config).values()


def columns_for(config: PreprocessingConfig, place: Place) -> dict[str, RawColumn]:
    """Returns the raw columns that the features at a place are computed of, by name."""
    if config.function is not None:
        read = config.features if config.place == place else {}
    else:
        where = places(config)
        crosses = [cross for cross in config.crosses if where[cross.feature_name] == place]
        read = {name: config.features[name] for cross in crosses for name in owners(cross, config)}
        read |= {name: feature for name, feature in config.features.items() if where[name] == place}
    named = [column for name, feature in read.items() for column in feature_columns(name, feature)]
    needed = with_origins(set(named), config)
    return {name: column for name, column in raw_columns(config).items() if name in needed}


def raw_name(column: str) -> str:
    """Returns the name of a raw column among transformed features, where no feature can have it."""
    return f"{_RAW}{column}"


def works_on_text(config: PreprocessingConfig, name: str) -> bool:
    """Returns whether a feature or cross is computed with text, which only a CPU does."""
    feature = config.features.get(name)
    if feature is None or config.function is not None:
        return True
    return _reads_text(name, feature, config)


def owners(cross: Cross, config: PreprocessingConfig) -> list[str]:
    """Returns the features that a cross combines; of the part of a date, the date. `check` sees to unknown names."""
    named = [name if name in config.features else name.rpartition(".")[0] for name in cross.inputs]
    return [name for name in named if name in config.features]


def _reads_text(name: str, feature: Feature, config: PreprocessingConfig) -> bool:
    wanted = feature_columns(name, feature)
    if isinstance(feature, CategoryFeature) or set(wanted.values()) & {"string", "token"}:
        return True
    origins = with_origins(set(wanted), config)
    return any(column.type == "string" for key, column in raw_columns(config).items() if key in origins)
