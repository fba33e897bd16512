"""Plays a month of a served model, a day at a time: what it is asked, what it answers, and the labels that come later.

`python month.py train` writes two weeks of training data into this folder. `python month.py 8` writes 8 January 2026:
its requests with the answers of the served model to log/, their labels to labels.csv, and its orders to days/.
`python month.py ask 8 ADDRESS` sends them to `fullpass serve` instead, as of now. Four things go wrong:

* 8 January 07:00 to the end of 9 January: an app sends metres instead of kilometres;
* 12 January 13:00 to 18:00: it sends no weight;
* 15 January 10:00: a shop opens that no training row has;
* 20 January: the far orders are no longer the late ones.

Labels are known up to nine days after the request. No data is downloaded.
"""

import csv
import json
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

START = np.datetime64("2026-01-01T00:00", "s")
DAYS = 30
PER_HOUR = 100
"""Orders of an hour, on average over a day."""
HOURS = np.array([4, 3, 2, 2, 2, 4, 7, 9, 10, 10, 11, 12, 13, 12, 11, 11, 12, 13, 13, 11, 9, 8, 6, 5]) / 8.33
"""Orders of an hour, as a share of their mean."""
SHOPS = ("centre", "harbour", "north", "south")
NEW_SHOP = "kiosk"
COLUMNS = ("order_id", "distance_km", "weight_kg", "shop", "express")
LONGEST_DELAY = 9
"""Days until the last label is known."""


def orders(day: int, *, seed: int = 0, planted: bool = True, per_hour: float = PER_HOUR) -> dict[str, np.ndarray]:
    """Returns the orders of a day of January 2026 by time, as they were; days before the first are of December.

    Args:
        planted: Whether what goes wrong does: a shop opens on the 15th and the 20th changes which orders are late.

    Returns:
        The columns COLUMNS, `placed_at`, `late` (0 or 1) and `known_at`, the time at which that is known.
    """
    draw = np.random.default_rng([seed, day + 100])
    counts = draw.poisson(per_hour * HOURS)
    rows = int(counts.sum())
    hour = np.repeat(np.arange(24), counts)
    second = np.sort(hour * 3600 + draw.integers(0, 3600, rows))
    placed = START + np.timedelta64(day - 1, "D") + second.astype("timedelta64[s]")
    distance = np.exp(draw.normal(1.2, 0.5, rows)).round(2)
    weight = np.exp(draw.normal(0.7, 0.6, rows)).round(2)
    shop = draw.choice(SHOPS, rows, p=[0.4, 0.3, 0.2, 0.1])
    if planted and day >= 15:
        new = (draw.random(rows) < 0.08) & ((day > 15) | (second >= 10 * 3600))
        shop = np.where(new, NEW_SHOP, shop)
    express = np.where(draw.random(rows) < 0.3, "yes", "no")
    far, heavy = (np.log(distance) - 1.2) / 0.5, (np.log(weight) - 0.7) / 0.6
    usual = 1.5 * far + 0.6 * heavy
    changed = 1.2 * (2 * np.isin(shop, ("harbour", "north")) - 1) - 0.8 * far + 0.6 * heavy
    score = (changed if planted and day >= 20 else usual) - 1 - 0.5 * (express == "yes")
    late = (draw.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    delay = np.minimum(draw.exponential(1.5, rows), LONGEST_DELAY) * 86_400
    return {
        "order_id": np.array([f"{seed}-{day}-{number}" for number in range(rows)]),
        "placed_at": placed,
        "distance_km": distance,
        "weight_kg": weight,
        "shop": shop,
        "express": express,
        "late": late,
        "known_at": placed + delay.astype("timedelta64[s]"),
    }


def asked(day: int, rows: dict[str, np.ndarray], *, planted: bool = True) -> dict[str, np.ndarray]:
    """Returns the orders of a day as the app sends them: in metres on the 8th and 9th, without weight on the 12th."""
    second = (rows["placed_at"] - rows["placed_at"][0].astype("datetime64[D]")).astype(int)
    metres = planted and ((day == 8) & (second >= 7 * 3600) | (day == 9))
    empty = planted and (day == 12) & (second >= 13 * 3600) & (second < 18 * 3600)
    return rows | {
        "distance_km": np.where(metres, rows["distance_km"] * 1000, rows["distance_km"]).round(2),
        "weight_kg": np.where(empty, np.nan, rows["weight_kg"]),
    }


def request(rows: dict[str, np.ndarray], number: int) -> dict:
    """Returns what the model is asked for an order."""
    weight = float(rows["weight_kg"][number])
    return {
        "distance_km": float(rows["distance_km"][number]),
        "weight_kg": None if np.isnan(weight) else weight,
        "shop": str(rows["shop"][number]),
        "express": str(rows["express"][number]),
    }


def log_lines(rows: dict[str, np.ndarray], version: int, scores: np.ndarray, answers: np.ndarray) -> list[dict]:
    """Returns the lines that `fullpass serve` logs. scores: float32 [rows]; answers: text [rows]."""
    return [
        {
            "log_id": str(rows["order_id"][number]),
            "log_time": f"{rows['placed_at'][number]}Z",
            "log_version": version,
            "log_sampled": 1.0,
            "log_status": 200,
            "log_scores": [float(scores[number])],
            "log_label": str(answers[number]),
            **request(rows, number),
        }
        for number in range(len(scores))
    ]


def append(path: Path, names: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Appends rows to a CSV file, which gets a header if it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerows([names] if is_new else [])
        out.writerows(rows)


def write_labels(rows: dict[str, np.ndarray], known_at: np.ndarray) -> None:
    """Writes the labels of orders, with the time at which each is known."""
    labels = zip(rows["order_id"], rows["late"], known_at, strict=True)
    append(Path("labels.csv"), ("order_id", "late", "known_at"), labels)


def write_training(rows: dict[str, np.ndarray], day: str, known: np.ndarray | None = None) -> None:
    """Writes the orders of a day whose label is known, bool [rows], for training."""
    names = (*COLUMNS, "late")
    chosen = zip(*(rows[name] if known is None else rows[name][known] for name in names), strict=True)
    append(Path("days", f"{day}.csv"), names, chosen)


def answer(rows: dict[str, np.ndarray]) -> tuple[int, np.ndarray, np.ndarray]:
    """Returns the served version, and its scores and classes for requests."""
    import tensorflow as tf

    served = Path("serving", "current").resolve()
    model = tf.saved_model.load(str(served)).signatures["serving_raw"]
    numbers = {name: tf.constant(rows[name], tf.float32) for name in ("distance_km", "weight_kg")}
    texts = {name: tf.constant(rows[name].tolist()) for name in ("shop", "express")}
    found = model(**numbers, **texts)
    return int(served.name), found["scores"].numpy().reshape(-1), found["prediction"].numpy().astype(str).reshape(-1)


def play(day: int) -> None:
    """Writes a day of January."""
    rows = orders(day)
    sent, name = asked(day, rows), day_name(rows)
    log = Path("log", name, "000000.jsonl")
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(line) + "\n" for line in log_lines(sent, *answer(sent))), encoding="utf-8")
    write_labels(rows, rows["known_at"])
    write_training(rows, name, rows["known_at"] < START + np.timedelta64(day, "D"))


def day_name(rows: dict[str, np.ndarray]) -> str:
    """Returns the day of orders: 2026-01-08."""
    return str(rows["placed_at"][0])[:10]


def ask(day: int, address: str) -> None:
    """Sends the orders of a day to a server now, and writes their labels as known at once."""
    rows = orders(day)
    instances = [
        request(rows, number) | {"order_id": str(rows["order_id"][number])} for number in range(len(rows["late"]))
    ]
    for first in range(0, len(instances), 100):
        body = {"signature_name": "serving_raw", "instances": instances[first : first + 100]}
        urllib.request.urlopen(f"{address}/v1/models/orders:predict", json.dumps(body).encode()).close()
    now = datetime.now(UTC)
    write_labels(rows, np.full(len(instances), f"{now:%Y-%m-%dT%H:%M:%S}"))
    write_training(rows, f"{now:%Y-%m-%d}")
    print(f"{len(instances):,} orders were asked for and are labelled.")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train"]:
            for december in range(-13, 1):
                write_training(of_day := orders(december), day_name(of_day))
        case ["ask", number, to]:
            ask(int(number), to)
        case [number]:
            play(int(number))
