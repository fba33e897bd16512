"""The raw columns of the report, from the statistics of the train split."""

from dataclasses import dataclass

from markupsafe import Markup
from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.components.pages.charts import histogram, short_label

_TOP_VALUES, _BARS = 3, 20
"""Numbers of the most common values that are named, and that have a bar: those fit one line, and a small chart."""
_BYTES = "__BYTES_VALUE__"
"""Placeholder in TFDV's statistics for each value that is not UTF-8."""
Bars = list[dict[str, float | str]]
"""The bars of `charts.histogram`."""
_KINDS = statistics_pb2.FeatureNameStatistics.Type


@dataclass(frozen=True)
class ReportedColumn:
    """A raw column. missing: share of rows without a value. chart: its distribution; empty if none is known."""

    name: str
    kind: str
    missing: float
    text: str
    chart: Markup


def read_columns(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> tuple[ReportedColumn, ...]:
    """Returns the columns of the first dataset, sorted by name."""
    data = statistics.datasets[0]
    columns = [_column(feature, int(data.num_examples)) for feature in data.features]
    return tuple(sorted(columns, key=lambda column: column.name))


def _column(feature: statistics_pb2.FeatureNameStatistics, rows: int) -> ReportedColumn:
    name = ".".join(feature.path.step) or feature.name
    is_number = feature.WhichOneof("stats") == "num_stats"
    common = (feature.num_stats if is_number else feature.string_stats).common_stats
    missing = 1 - common.num_non_missing / rows if rows else 0.0
    if not common.num_non_missing:
        return ReportedColumn(name, _KINDS.Name(feature.type).lower(), missing, "no value", Markup(""))
    if is_number:
        kind, (text, bars) = "number", _numbers(feature.num_stats)
    elif {value.value for value in feature.string_stats.top_values} == {_BYTES}:
        stats = feature.string_stats
        kind, bars = "bytes", []
        text = f"{stats.unique:,} different values of {stats.avg_length:,.0f} bytes on average"
    else:
        kind, (text, bars) = "text", _texts(feature.string_stats)
    return ReportedColumn(
        name, kind, missing, _lengths(common) + text, histogram(bars, label=f"distribution of {name}")
    )


def _lengths(common: statistics_pb2.CommonStatistics) -> str:
    """Returns the lengths of a column's lists as text; empty for a column of single values."""
    least, most = common.min_num_values, common.max_num_values
    if most <= 1:
        return ""
    return f"lists of {least}; " if least == most else f"lists of {least} to {most}, mean {common.avg_num_values:.3g}; "


def _numbers(stats: statistics_pb2.NumericStatistics) -> tuple[str, Bars]:
    text = f"{stats.min:g} to {stats.max:g}, mean {stats.mean:.4g}, median {stats.median:.4g}"
    standard = next((h for h in stats.histograms if h.type == statistics_pb2.Histogram.STANDARD), None)
    buckets = standard.buckets if standard else ()
    return text, [{"from": b.low_value, "to": b.high_value, "rows": b.sample_count} for b in buckets]


def _texts(stats: statistics_pb2.StringStatistics) -> tuple[str, Bars]:
    total = stats.common_stats.tot_num_values or stats.common_stats.num_non_missing
    top = ", ".join(
        f"{'bytes that are not UTF-8' if value.value == _BYTES else value.value} ({value.frequency / total:.0%})"
        for value in stats.top_values[:_TOP_VALUES]
    )
    text = f"{stats.unique:,} values" + (f": {top}" if top else "")
    buckets = stats.rank_histogram.buckets[:_BARS]
    return text, [{"value": short_label(b.label), "rows": b.sample_count} for b in buckets]
