"""The names of the files in artifacts that more than one component reads or writes."""

PAGE = "report.html"
"""The page of a Report or SpanComparison artifact."""
COMPARISON_FILE = "comparison.json"
"""The findings of the data gate in a SpanComparison artifact."""
STATISTICS_FILE = "FeatureStats.pb"
"""TFDV's statistics in the folder of a split of an ExampleStatistics artifact, as TFX's own StatisticsGen names it."""
