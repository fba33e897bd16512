"""Extracts the facts about each raw column that the report shows from TFDV's statistics."""

from dataclasses import dataclass

from tensorflow_metadata.proto.v0 import statistics_pb2

_TOP = 3
_BYTES = "__BYTES_VALUE__"
"""Placeholder in TFDV's statistics for each value that is not UTF-8."""
_KINDS = statistics_pb2.FeatureNameStatistics.Type


@dataclass(frozen=True)
class Column:
    """A raw column. missing: share of rows without a value. bars: counts per bucket, or of the most common values."""

    name: str
    kind: str
    missing: float
    text: str
    bars: tuple[float, ...]


def read_columns(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> tuple[Column, ...]:
    """Returns the columns of the first dataset, sorted by name."""
    data = statistics.datasets[0]
    columns = [_column(feature, int(data.num_examples)) for feature in data.features]
    return tuple(sorted(columns, key=lambda column: column.name))


def _column(feature: statistics_pb2.FeatureNameStatistics, rows: int) -> Column:
    name = ".".join(feature.path.step) or feature.name
    is_number = feature.WhichOneof("stats") == "num_stats"
    common = (feature.num_stats if is_number else feature.string_stats).common_stats
    missing = 1 - common.num_non_missing / rows if rows else 0.0
    if not common.num_non_missing:
        return Column(name, _KINDS.Name(feature.type).lower(), missing, "no value", ())
    if is_number:
        kind, (text, bars) = "number", _numbers(feature.num_stats)
    elif {value.value for value in feature.string_stats.top_values} == {_BYTES}:
        kind, (text, bars) = "bytes", _bytes(feature.string_stats)
    else:
        kind, (text, bars) = "text", _texts(feature.string_stats)
    return Column(name, kind, missing, _lengths(common) + text, bars)


def _lengths(common: statistics_pb2.CommonStatistics) -> str:
    """Returns the lengths of a column's lists as text; empty for a column of single values."""
    least, most = common.min_num_values, common.max_num_values
    if most <= 1:
        return ""
    return f"lists of {least}; " if least == most else f"lists of {least} to {most}, mean {common.avg_num_values:.3g}; "


def _numbers(stats: statistics_pb2.NumericStatistics) -> tuple[str, tuple[float, ...]]:
    text = f"{stats.min:g} to {stats.max:g}, mean {stats.mean:.4g}, median {stats.median:.4g}"
    standard = next((h for h in stats.histograms if h.type == statistics_pb2.Histogram.STANDARD), None)
    return text, tuple(bucket.sample_count for bucket in standard.buckets) if standard else ()


def _texts(stats: statistics_pb2.StringStatistics) -> tuple[str, tuple[float, ...]]:
    total = stats.common_stats.tot_num_values or stats.common_stats.num_non_missing
    top = ", ".join(f"{_shown(value.value)} ({value.frequency / total:.0%})" for value in stats.top_values[:_TOP])
    text = f"{stats.unique:,} values" + (f": {top}" if top else "")
    return text, tuple(bucket.sample_count for bucket in stats.rank_histogram.buckets[:20])


def _shown(value: str) -> str:
    return "bytes that are not UTF-8" if value == _BYTES else value


def _bytes(stats: statistics_pb2.StringStatistics) -> tuple[str, tuple[float, ...]]:
    """Returns the facts about a column without text values, such as images."""
    return f"{stats.unique:,} different values of {stats.avg_length:,.0f} bytes on average", ()
