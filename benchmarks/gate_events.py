"""Shows the data gate's findings on 36 months of New York taxi trips: `make gate-events DATA=folder`.

The folder holds yellow_tripdata_sample_YYYY-MM.csv, 10,000 trips of each month from 2018-01 to 2020-12. Every month is
judged as in a scheduled run: by the defaults, against the month before and the rest of a window. The events of each
month are known, so a finding in any other month is a false alarm. `--days` does the same day by day.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.data_gate.judge import judge_span
from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.data_gate.span_summary import SpanSummary
from fullpass.components.data_gate.summarize import summarize_raw
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.spans import find_window
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import raw_columns

NAME = "yellow_tripdata_sample_"
EVENTS = {
    "2019-01": "congestion_surcharge appears, at 0",
    "2019-02": "the surcharge of 2.50 is charged, and extra includes it",
    "2020-03": "the collapse: trips end in the middle of the month",
    "2020-04": "the collapse; vendor, payment and others missing",
    "2020-05": "vendor, payment and others missing",
    "2020-06": "vendor, payment and others missing, fewer",
}
EXPECTED = {
    "2019-01": {("new_columns", "congestion_surcharge")},
    "2019-02": {("drift", "congestion_surcharge"), ("drift", "extra")},
    "2020-03": {("drift", "pickup_datetime, day")},
    "2020-04": {("drift", "pickup_datetime, day"), ("missing", "vendor_id"), ("missing", "payment_type")},
    "2020-05": {("missing", "vendor_id"), ("missing", "payment_type")},
    "2020-06": {("missing", "vendor_id"), ("missing", "payment_type")},
}
_YAML = """\
name: taxi
data:
  source: {{format: csv, path: "{path}"}}
  {span}window: {{spans: all}}
  bad_rows: {{max_fraction: 0.01}}
  derive: {{generous: "tip_amount > 0.2 * fare_amount"}}
label: {{name: generous, task: binary}}
features:
  vendor_id: category
  pickup_datetime: date
  trip_time: {{type: duration, start: pickup_datetime, end: dropoff_datetime}}
  passenger_count: number
  trip_distance: number
  rate_code_id: category
  store_and_fwd_flag: category
  pickup_location_id: category
  dropoff_location_id: category
  payment_type: category
  extra: number
  mta_tax: number
  tolls_amount: number
  improvement_surcharge: number
  total_amount: number
  congestion_surcharge: number
"""


@dataclass(frozen=True)
class Spans:
    """The summaries of all spans of the data."""

    config: PipelineConfig
    series: tuple[Series, ...]
    summaries: tuple[SpanSummary, ...]
    unit: str | None

    def judged(self, window: int) -> list[GateVerdict]:
        """Returns a verdict per span, in the window that ends with the span."""
        verdicts = []
        for i, newest in enumerate(self.summaries):
            begin = max(0, i - window + 1)
            others, earlier = self.summaries[begin:i], self.summaries[:begin]
            verdicts.append(judge_span(newest, others, earlier, self.series, self.config.gates, unit=self.unit))
        return verdicts


def read_spans(text: str, folder: Path, asked: str) -> Spans:
    """Returns the spans of a pipeline, read from its raw files.

    Args:
        text: Content of the pipeline file.
        folder: Folder for the pipeline file and the span index.
        asked: Spans as in `fullpass run --span`; they are limited because some trips of 2018 have dates of 2008.
    """
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    loaded = load(file)
    config, preprocessing = loaded.config, loaded.config.preprocessing_config
    window = find_window(config.data, loaded.resolve, asked, index=folder / "index")
    columns = tuple(raw_columns(preprocessing).values())
    request = Request(config.ingest_config, config.data.split_names, columns, gzip=False).with_window(window, ())
    source = SeriesSource.of(preprocessing, window.unit)
    summaries = tuple(summarize_raw(request, span, source) for span in request.spans)
    return Spans(config, source.series, summaries, window.unit)


def told(verdict: GateVerdict) -> str:
    """Returns the findings of a verdict as text, check by check."""
    by_check: dict[str, list[str]] = {}
    for finding in verdict.findings:
        by_check.setdefault(finding.check, []).append(finding.subject)
    return "; ".join(f"{check}: {', '.join(subjects)}" for check, subjects in by_check.items())


def months(data: Path, folder: Path, console: Console) -> bool:
    """Prints the findings of each month; returns whether every event is found and there is no false alarm."""
    spans = read_spans(_YAML.format(path=f"{data}/{NAME}{{YYYY}}-{{MM}}.csv", span=""), folder, "2018-01:2020-12")
    verdicts = spans.judged(12)
    table = Table(title="Month by month, in a window of 12, by the defaults", title_justify="left")
    for heading in ("month", "what happened", "what the gate tells"):
        table.add_column(heading)
    for verdict in verdicts:
        if verdict.findings or verdict.span in EVENTS:
            table.add_row(verdict.span, EVENTS.get(verdict.span, "nothing known"), told(verdict) or "nothing")
    console.print(table)
    found = {v.span: {(f.check, f.subject) for f in v.findings} for v in verdicts}
    missed = [month for month, expected in EXPECTED.items() if not expected <= found.get(month, set())]
    false = [month for month, findings in found.items() if findings and month not in EVENTS]
    ordinary = sum(bool(verdict.previous) for verdict in verdicts) - len(EVENTS)
    console.print(f"Events missed: {', '.join(missed) or 'none'}. False alarms: {len(false)} of {ordinary} months.")
    return not missed and not false


def days(data: Path, folder: Path, console: Console) -> None:
    """Prints the number of days with findings, by period and check.

    A day has 17 to 848 rows, so chance matters most here.
    """
    span = "span: {column: pickup_datetime, unit: day}\n  "
    spans = read_spans(_YAML.format(path=f"{data}/{NAME}*.csv", span=span), folder, "2018-01-01:2020-12-31")
    verdicts = spans.judged(30)
    periods = {
        "2018": 0,
        "2019-01 to 02": 0,
        "2019-03 to 12": 0,
        "2020-01 to 02": 0,
        "2020-03 to 06": 0,
        "2020 rest": 0,
    }
    counts = {period: Counter[str]() for period in periods}
    for verdict in verdicts:
        period = _period(verdict.span)
        periods[period] += 1
        counts[period].update({finding.check for finding in verdict.findings} or {"quiet"})
    table = Table(title="Day by day, in a window of 30, by the defaults: days told of", title_justify="left")
    checks = sorted({check for counter in counts.values() for check in counter} - {"quiet"})
    for heading in ("days", "", "quiet", *checks):
        table.add_column(heading, justify="right")
    for period, number in periods.items():
        table.add_row(period, str(number), str(counts[period]["quiet"]), *(str(counts[period][c]) for c in checks))
    console.print(table)


def _period(day: str) -> str:
    if day < "2019":
        return "2018"
    if day < "2020":
        return "2019-01 to 02" if day < "2019-03" else "2019-03 to 12"
    return "2020-01 to 02" if day < "2020-03" else "2020-03 to 06" if day < "2020-07" else "2020 rest"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if the gate finds the event of each month with one, and nothing in the other months."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the 36 files")
    parser.add_argument("--days", action="store_true", help="also judge day by day, which takes minutes")
    asked = parser.parse_args(arguments)
    console = Console(width=150)
    if not list(asked.data.glob(f"{NAME}*.csv")):
        parser.error(f"{asked.data} holds no {NAME}YYYY-MM.csv")
    with tempfile.TemporaryDirectory() as scratch:
        right = months(asked.data.absolute(), Path(scratch), console)
        if asked.days:
            days(asked.data.absolute(), Path(scratch), console)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
