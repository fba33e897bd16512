"""Number features: columns whose transforms have the same shape are transformed together, as one matrix.

The transforms of a column are a chain. Each transform analyzes the present values of the column and returns a function.
The chain of these functions is applied to the column and to the fill of its missing values. A median fill before a
z-score therefore needs no second pass: both are statistics of the raw column.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import tensorflow as tf

from fullpass.base.errors import prefix_errors
from fullpass.preprocessing.apply.number import ANALYZE, MISSING, Apply, Group, bucketize, nonfinite_to_nan
from fullpass.preprocessing.apply.statistics import RANK_ERROR, Moments, Statistics
from fullpass.preprocessing.features.number_features import MissingRule
from fullpass.preprocessing.features.transforms import Bucketize, NumberTransform, TransformSpec


@dataclass(frozen=True)
class Quantity:
    """A number on its way to a transformed feature.

    path: its path in the YAML. values: float32 [batch], NaN for missing. keys: string [batch] for every column that a
    transform names as its key.
    """

    path: str
    values: tf.Tensor
    missing: MissingRule
    transforms: tuple[NumberTransform, ...]
    keys: Mapping[str, tf.Tensor] = field(default_factory=dict)


class _Chain(NamedTuple):
    """The transforms of columns with equally shaped chains, split before the first analyzer.

    stateless_prefix: the stateless transforms at the beginning; None if there are none. rest: the transform of each
    column, for every later index.
    """

    members: Sequence[Quantity]
    stateless_prefix: Apply | None
    rest: Sequence[Sequence[TransformSpec]]


def apply_quantities(quantities: Mapping[str, Quantity]) -> dict[str, tf.Tensor]:
    """Returns the transformed feature of every quantity, by the same name: float32 [batch], or int64 ids [batch]."""
    if not quantities:
        return {}
    groups: dict[Hashable, list[str]] = {}
    for name, quantity in quantities.items():
        groups.setdefault(_shape(quantity), []).append(name)
    chains = [_split_chain([quantities[name] for name in names]) for names in groups.values()]
    names = [name for group in groups.values() for name in group]
    return dict(zip(names, _apply_chains(chains), strict=True))


def _shape(quantity: Quantity) -> Hashable:
    """Returns a key that is equal for quantities that are transformed as one matrix."""
    # Numbers may differ between columns; everything else must be equal.
    transforms = tuple(
        (type(spec), tuple("number" if isinstance(value, float) else value for _, value in spec))
        for spec in quantity.transforms
    )
    return transforms, quantity.path if quantity.keys else None


def _split_chain(members: Sequence[Quantity]) -> _Chain:
    columns = list(zip(*(member.transforms for member in members), strict=True))
    stateless = list(itertools.takewhile(lambda specs: specs[0].is_stateless, columns))
    stateless_prefix = stateless_chain(stateless) if stateless else None
    return _Chain(members, stateless_prefix, columns[len(stateless) :])


def _apply_chains(chains: Sequence[_Chain]) -> list[tf.Tensor]:
    """Returns the transformed columns of all chains, one after the other."""
    members = [member for chain in chains for member in chain.members]
    widths = [len(chain.members) for chain in chains]
    raw = tf.stack([member.values for member in members], axis=1)
    of_raw, of_prefixed = _statistics(raw, widths, [chain.stateless_prefix for chain in chains])
    fills = tf.split(_fill(members, of_raw), widths, axis=1)
    results: list[tf.Tensor] = []
    for chain, prefixed, fill in zip(chains, of_prefixed, fills, strict=True):
        with prefix_errors(", ".join(member.path for member in chain.members)):
            results += _apply_chain(chain, prefixed, chain.stateless_prefix(fill) if chain.stateless_prefix else fill)
    return results


def _statistics(
    raw: tf.Tensor, widths: Sequence[int], prefixes: Sequence[Apply | None]
) -> tuple[Statistics, list[Statistics]]:
    """Returns statistics of the raw columns, and of the inputs of the first analyzer of each chain.

    All are parts of one matrix, so each kind of moment needs one analyzer for any number of different chains.
    """
    of_chains = tf.split(raw, widths, axis=1)
    prefixed = [prefix(values) if prefix else None for values, prefix in zip(of_chains, prefixes, strict=True)]
    moments = Moments(tf.concat([raw, *(values for values in prefixed if values is not None)], 1))
    statistics: list[Statistics] = []
    in_raw, behind_raw = 0, raw.shape[1]
    for values, transformed, width in zip(of_chains, prefixed, widths, strict=True):
        if transformed is None:
            statistics.append(Statistics(values, moments, first=in_raw))
        else:
            statistics.append(Statistics(transformed, moments, first=behind_raw))
            behind_raw += width
        in_raw += width
    return Statistics(raw, moments), statistics


def _apply_chain(chain: _Chain, prefixed: Statistics, fill: tf.Tensor) -> list[tf.Tensor]:
    keys = chain.members[0].keys
    last = chain.rest[-1] if chain.rest and isinstance(chain.rest[-1][0], Bucketize) else None
    rest, transformed = analyze_chain(chain.rest[:-1] if last else chain.rest, prefixed, keys=keys)
    filled = tf.where(tf.math.is_nan(transformed.values), rest(fill), transformed.values)
    if last:
        return bucketize(Group(last, transformed, keys), filled)
    return tf.unstack(fill_remaining_with_zero(filled), num=len(chain.members), axis=1)


def analyze_chain(
    columns: Sequence[Sequence[TransformSpec]], raw: Statistics, *, keys: Mapping[str, tf.Tensor]
) -> tuple[Apply, Statistics]:
    """Analyzes transforms one after the other.

    Args:
        columns: The transform of each column, for every index in the chain.
        raw: Statistics of the columns before the chain.
        keys: string [batch] for every column that a transform names as its key.

    Returns:
        The chain as a function, and the statistics of the columns after it.
    """
    functions: list[Apply] = []
    statistics = raw
    for specs in columns:
        functions.append(ANALYZE[type(specs[0])](Group(specs, statistics, keys)))
        statistics = Statistics(nonfinite_to_nan(functions[-1](statistics.values)))
    return _compose(functions), statistics


def stateless_chain(columns: Sequence[Sequence[TransformSpec]]) -> Apply:
    """Returns the function of a chain of transforms that need no analysis."""
    return _compose([ANALYZE[type(specs[0])](Group(specs)) for specs in columns])


def _compose(functions: Sequence[Apply]) -> Apply:
    def chain(values: tf.Tensor) -> tf.Tensor:
        for function in functions:
            values = nonfinite_to_nan(function(values))
        return values

    return chain


def fill_remaining_with_zero(values: tf.Tensor) -> tf.Tensor:
    """Replaces values that are still missing by 0: the train split has no fill, or the fill is outside a domain."""
    return tf.where(tf.math.is_nan(values), 0.0, values)


def _fill(members: Sequence[Quantity], raw: Statistics) -> tf.Tensor:
    """Returns the value that replaces a missing one in each raw column: float32 [1, columns], NaN for none."""
    rules = [member.missing for member in members]
    fill = tf.constant([MISSING if isinstance(rule, str) else rule for rule in rules], tf.float64)
    of_train = {"mean": lambda: raw.mean, "min": lambda: raw.range[0], "max": lambda: raw.range[1]}
    for name, statistic in of_train.items():
        if name in rules:
            fill = tf.where(tf.constant([rule == name for rule in rules]), statistic(), fill)
    by_median = [[index] for index, rule in enumerate(rules) if rule == "median"]
    if by_median:
        fill = tf.tensor_scatter_nd_update(fill, by_median, _medians(tf.gather(raw.values, by_median, axis=1)[:, :, 0]))
    return nonfinite_to_nan(tf.cast(fill, tf.float32))[tf.newaxis, :]


def _medians(values: tf.Tensor) -> tf.Tensor:
    """Returns the upper median of each column over the train split, float64. Ranks are off by at most 1 %."""
    return tf.cast(Statistics(values).quantiles(2, epsilon=RANK_ERROR)[:, 0], tf.float64)
