"""A source: rows that a function makes or fetches."""

import random
from collections.abc import Iterator
from typing import Any


def trips() -> Iterator[dict[str, Any]]:
    """Yields taxi trips as dicts; None is a missing cell. Every call yields the same rows."""
    drawn = random.Random(7)
    for number in range(2_000):
        x, y = drawn.uniform(0, 10), drawn.uniform(0, 10)
        miles = abs(x - drawn.uniform(0, 10)) + abs(y - drawn.uniform(0, 10))
        payment = drawn.choice(["card", "card", "cash", None])
        yield {
            "trip_id": number,
            "x": x,
            "y": y,
            "miles": miles if drawn.random() < 0.95 else None,
            "payment": payment,
            "tipped": "yes" if payment == "card" and drawn.random() < miles / 15 else "no",
        }
