"""What the report says of a raw column, from TFDV's statistics."""

from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.components.pages.charts import histogram
from fullpass.components.report.columns import ReportedColumn, read_columns


def statistics():
    data = statistics_pb2.DatasetFeatureStatistics(num_examples=10)
    number = data.features.add(type=statistics_pb2.FeatureNameStatistics.FLOAT)
    number.path.step.append("fare")
    number.num_stats.common_stats.num_non_missing = 5
    number.num_stats.min, number.num_stats.max, number.num_stats.mean, number.num_stats.median = 1, 9, 4.5, 4
    for kind, counts in ((statistics_pb2.Histogram.QUANTILES, [4, 4]), (statistics_pb2.Histogram.STANDARD, [6, 2])):
        shown = number.num_stats.histograms.add(type=kind)
        for i, count in enumerate(counts):
            shown.buckets.add(low_value=i, high_value=i + 1, sample_count=count)
    text = data.features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    text.path.step.append("company")
    stats = text.string_stats
    stats.common_stats.num_non_missing, stats.common_stats.tot_num_values, stats.unique = 10, 10, 2
    for value, count in (("Flash Cab", 7), ("Blue", 3)):
        stats.top_values.add(value=value, frequency=count)
        stats.rank_histogram.buckets.add(label=value, sample_count=count)
    empty = data.features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    empty.path.step.append("empty")
    empty.string_stats.common_stats.num_missing = 10
    return statistics_pb2.DatasetFeatureStatisticsList(datasets=[data])


def bars(name, *rows):
    return histogram(rows, label=f"distribution of {name}")


NUMBERS = ({"from": 0.0, "to": 1.0, "rows": 6.0}, {"from": 1.0, "to": 2.0, "rows": 2.0})
TEXTS = ({"value": "Flash Cab", "rows": 7.0}, {"value": "Blue", "rows": 3.0})


def test_columns_are_sorted_and_describe_the_train_split():
    assert read_columns(statistics()) == (
        ReportedColumn("company", "text", 0.0, "2 values: Flash Cab (70%), Blue (30%)", bars("company", *TEXTS)),
        ReportedColumn("empty", "string", 1.0, "no value", ""),
        ReportedColumn("fare", "number", 0.5, "1 to 9, mean 4.5, median 4", bars("fare", *NUMBERS)),
    )


def test_lists_say_how_long_they_are():
    told = statistics()
    common = next(f for f in told.datasets[0].features if "fare" in (f.name, *f.path.step)).num_stats.common_stats
    common.min_num_values, common.max_num_values, common.avg_num_values = 1, 7, 2.5
    assert read_columns(told)[2].text == "lists of 1 to 7, mean 2.5; 1 to 9, mean 4.5, median 4"
    common.min_num_values = 7
    assert read_columns(told)[2].text == "lists of 7; 1 to 9, mean 4.5, median 4"


def test_values_that_are_no_text_are_described_as_bytes():
    told = statistics()
    image = told.datasets[0].features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    image.path.step.append("image")
    stats = image.string_stats
    stats.common_stats.num_non_missing, stats.unique, stats.avg_length = 10, 9, 1234.4
    stats.top_values.add(value="__BYTES_VALUE__", frequency=10)
    assert read_columns(told)[3] == ReportedColumn(
        "image", "bytes", 0.0, "9 different values of 1,234 bytes on average", ""
    )
    stats.top_values.add(value="a", frequency=1)
    assert read_columns(told)[3].text == "9 values: bytes that are not UTF-8 (100%), a (10%)"
