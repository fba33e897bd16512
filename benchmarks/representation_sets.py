"""The data sets of bench_representations, with a known structure: what decides is in ids, pairs of ids, and skew."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.model_sets import DataSet


def rights() -> DataSet:
    """Requests of teams for resources: six columns of ids, and pairs of them, decide which one in twelve is refused."""
    random, rows = np.random.default_rng(11), 24_000
    team = (1200 * random.random(rows) ** 2).astype(int)
    ids = {"manager": team * 2 + (random.random(rows) < 0.2), "department": team // 10}
    ids["title"] = ids["department"] // 2 * 6 + (6 * random.random(rows) ** 2).astype(int)
    ids |= {"family": ids["title"] // 9, "code": ids["title"] * 7 + 3}  # the code is one to one with the title
    pool = random.integers(0, 1500, (120, 10))
    ids["resource"] = pool[ids["department"], (10 * random.random(rows) ** 2).astype(int)]
    odds = np.full(rows, -4.8)
    for names, effect in ((("resource",), 0.8), (("manager",), 0.8), (("title", "resource"), 2.2),
                          (("manager", "title"), 1.0)):  # fmt: skip
        cell = np.unique(np.stack([ids[name] for name in names]), axis=1, return_inverse=True)[1].ravel()
        odds += random.normal(0, effect, cell.max() + 1)[cell]
    label = np.where(random.random(rows) < 1 / (1 + np.exp(-odds)), "refused", "granted")
    spread = random.permutation(20_000)
    return DataSet({f"{name}_id": spread[own].astype(str) for name, own in ids.items()}, label, "binary")


def houses() -> DataSet:
    """Sales of houses: suburb, street and agent multiply the price, which also rises with the date of the sale."""
    random, rows = np.random.default_rng(12), 12_000
    suburb = (250 * random.random(rows) ** 1.5).astype(int)
    street, agent = suburb * 12 + random.integers(0, 12, rows), (400 * random.random(rows) ** 2).astype(int)
    rooms, days = random.integers(1, 7, rows), random.integers(0, 900, rows)
    land = np.exp(random.normal(6.2, 0.5, rows))
    value = 12.6 + 0.16 * rooms + 0.12 * np.log(land) + 0.25 * days / 900 + random.normal(0, 0.22, rows)
    value = value + random.normal(0, 0.3, 250)[suburb] + random.normal(0, 0.15, 3000)[street]
    value = value + random.normal(0, 0.15, 400)[agent]
    sold = np.datetime64("2016-01-01") + days.astype("timedelta64[D]")
    columns = {"suburb": _named("suburb", suburb), "street": _named("street", street), "agent": _named("agent", agent)}
    columns |= {"rooms": rooms.astype(float), "land": land.round(1), "sold_on": sold.astype(str)}
    return DataSet(columns, np.exp(value).round(), "regression")


def ratings() -> DataSet:
    """Marks that people give each other; both are numbered from 1 in no order that means anything."""
    random, rows = np.random.default_rng(13), 20_000
    giver, taker = random.integers(0, 500, rows), random.integers(0, 160, rows)
    taste, trait = random.normal(0, 1, (500, 2)), random.normal(0, 1, (160, 2))
    mark = 5.5 + random.normal(0, 1.2, 500)[giver] + random.normal(0, 1.0, 160)[taker]
    mark = mark + (taste[giver] * trait[taker]).sum(axis=1) * 0.5 + random.normal(0, 1.5, rows)
    columns = {"giver": (giver + 1).astype(str), "taker": (taker + 1).astype(str)}
    columns["round"] = random.integers(1, 22, rows).astype(float)
    return DataSet(columns, mark.round(2), "regression")


def calls() -> DataSet:
    """Counts over four orders of magnitude, one in six of them 0; all effects multiply."""
    random, rows = np.random.default_rng(14), 12_000
    size, region = np.exp(random.normal(2, 1.6, rows)), random.integers(0, 40, rows)
    hour, kind = random.integers(0, 24, rows), random.choice(["shop", "home", "office"], rows)
    mean = 0.5 * size * np.exp(random.normal(0, 0.5, 40)[region] + np.sin(np.pi * hour / 12) + (kind == "shop"))
    mean = mean * random.gamma(4, 0.25, rows)
    columns = {"size": size.round(2), "hour": hour.astype(float), "region": _named("region", region), "kind": kind}
    return DataSet(columns, random.poisson(mean).astype(float), "regression")


def delays() -> DataSet:
    """Delays like those of flights: whether one is late is in the hour and the season, and in no id."""
    random, rows = np.random.default_rng(15), 20_000
    hour, month = random.integers(5, 24, rows), random.integers(1, 13, rows)
    odds = -2.2 + 0.11 * (hour - 5) + 0.5 * np.cos(month * np.pi / 3) + random.normal(0, 1, rows)
    columns = {"hour": hour.astype(float), "month": month.astype(float), "distance": random.gamma(4, 250, rows).round()}
    columns["plane"] = _named("N", random.integers(100, 2_500, rows))
    columns |= {
        "route": _named("R", random.integers(0, 200, rows)),
        "carrier": _named("C", random.integers(0, 15, rows)),
    }
    return DataSet(columns, np.where(random.random(rows) < 1 / (1 + np.exp(-odds)), "late", "on time"), "binary")


SETS: Mapping[str, Callable[[], DataSet]] = {made.__name__: made for made in (rights, houses, ratings, calls, delays)}


def _named(prefix: str, numbers: np.ndarray) -> np.ndarray:
    return np.array([f"{prefix} {number}" for number in numbers])
