"""Where each feature is computed: when examples are written, in the input function, or in the model.

The analysis and the values are the same in all cases: there is one transform graph, and each of the three placements
applies its part of it. A cross is computed where the latest of its inputs is computed.
"""

from collections.abc import Iterable, Mapping

from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.columns.raw_columns import (
    RawColumn,
    columns_behind,
    feature_columns,
    raw_columns,
    with_source_columns,
)
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.base_feature import ComputeAt
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import TargetFeature

COMPUTE_AT_ORDER: tuple[ComputeAt, ...] = ("transform", "input", "model")
"""The placements in the order in which an example passes them."""
_RAW = "fullpass_raw/"


def compute_at_by_feature(config: PreprocessingConfig) -> dict[str, ComputeAt]:
    """Returns feature or cross name -> where it is computed; empty if a user-defined function replaces all features."""
    if config.function is not None:
        return {}
    found: dict[str, ComputeAt] = {
        name: feature.compute_at or config.compute_at for name, feature in config.features.items()
    }
    for cross in config.crosses:
        found[cross.feature_name] = max(
            (found[name] for name in crossed_features(cross, config)),
            key=COMPUTE_AT_ORDER.index,
            default=config.compute_at,
        )
    return found


def transformed_at(config: PreprocessingConfig, compute_at: ComputeAt) -> list[str]:
    """Returns the transformed features computed at `compute_at`, including weights of ids, in the order of `outputs`.

    It does not list the features of a user-defined function that replaces all transforms; all of them are computed at
    `config.compute_at`.
    """
    where = compute_at_by_feature(config)
    mine = [output for output in outputs(config) if where[output.feature] == compute_at]
    return [name for output in mine for name in (output.name, output.weights) if name is not None]


def materializes(config: PreprocessingConfig) -> bool:
    """Returns whether any feature is computed when examples are written; otherwise training reads raw examples."""
    if config.function is not None:
        return config.compute_at == "transform"
    return "transform" in compute_at_by_feature(config).values()


def columns_for(config: PreprocessingConfig, compute_at: ComputeAt) -> dict[str, RawColumn]:
    """Returns the raw columns, by name, that are inputs of the features computed at `compute_at`."""
    if config.function is not None:
        read = config.features if config.compute_at == compute_at else {}
    else:
        where = compute_at_by_feature(config)
        crosses = [cross for cross in config.crosses if where[cross.feature_name] == compute_at]
        encoded = [f for n, f in config.features.items() if isinstance(f, TargetFeature) and where[n] == compute_at]
        crosses += [config.cross_of(feature) for feature in encoded if feature.cross is not None]
        read = {name: config.features[name] for cross in crosses for name in crossed_features(cross, config)}
        read |= {name: feature for name, feature in config.features.items() if where[name] == compute_at}
    named = [column for name, feature in read.items() for column in feature_columns(name, feature)]
    return columns_behind(named, config)


def raw_name(column: str) -> str:
    """Returns the name of a raw column among transformed features; no feature can have this name."""
    return f"{_RAW}{column}"


def string_features(config: PreprocessingConfig, names: Iterable[str]) -> frozenset[str]:
    """Returns the features and crosses whose computation uses strings, which only CPUs support."""
    names = frozenset(names)
    if config.function is not None or not names:
        return names
    types = {name: column.type for name, column in raw_columns(config).items()}
    return frozenset(name for name in names if _reads_text(name, config, types))


def crossed_features(cross: Cross, config: PreprocessingConfig) -> list[str]:
    """Returns the features that a cross combines; for a date part, the date. `check` handles unknown names."""
    named = [name if name in config.features else name.rpartition(".")[0] for name in cross.inputs]
    return [name for name in named if name in config.features]


def _reads_text(name: str, config: PreprocessingConfig, types: Mapping[str, str]) -> bool:
    feature = config.features.get(name)
    if feature is None:
        return True
    wanted = feature_columns(name, feature)
    if set(wanted.values()) & {"string", "token", "image"}:
        return True
    return any(types.get(column) == "string" for column in with_source_columns(wanted, config.derive))
