"""Writes data/purchases.csv beside this file, and prints the best AUC that is possible. No data is downloaded.

A purchase is likely to be sent back if the customer bought at least three times in the last seven days, and if many of
the purchases of the last thirty days were sent back. Nothing in the row itself tells.
"""

import csv
import math
import random
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2024, 1, 1)
HEAD = ("customer", "bought_at", "shop", "amount", "returned")
SHOPS = ("books", "garden", "shoes", "toys")


def purchases(customers: int = 1500, days: int = 90, seed: int = 1) -> list[tuple]:
    """Returns purchases by time: customer, time, shop, amount, 1 if it is sent back, and the chance of that."""
    draw, rows = random.Random(seed), []
    for customer in range(customers):
        moment, pace, past = START, draw.lognormvariate(1.1, 0.7), []
        while True:
            pause = draw.expovariate(1) * (0.4 if draw.random() < 0.3 else pace)
            moment = (moment + timedelta(days=pause)).replace(microsecond=0)
            if moment >= START + timedelta(days=days):
                break
            seen = [(then, back) for then, back in past if then < moment]
            recent = sum(moment - then <= timedelta(days=7) for then, _ in seen)
            month = [back for then, back in seen if moment - then <= timedelta(days=30)]
            share = sum(month) / len(month) if month else 0.5
            chance = 1 / (1 + math.exp(-(2 if recent >= 3 else -2) - 3 * (share - 0.5)))
            back = int(draw.random() < chance)
            past.append((moment, back))
            amount = round(draw.lognormvariate(3, 0.8), 2)
            rows.append((f"c{customer:04d}", moment.isoformat(), draw.choice(SHOPS), amount, back, chance))
    return sorted(rows, key=lambda row: (row[1], row[0]))


def auc(rows: list[tuple]) -> float:
    """Returns the AUC of the true chances: how often a purchase that is sent back has a higher chance than another."""
    ranked = sorted(rows, key=lambda row: row[-1])
    groups: dict[float, list[int]] = {}
    for *_, back, chance in ranked:
        groups.setdefault(chance, []).append(back)
    below = wins = 0.0
    for backs in groups.values():
        kept = len(backs) - sum(backs)
        wins += sum(backs) * (below + kept / 2)
        below += kept
    return wins / (below * (len(rows) - below))


if __name__ == "__main__":
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    rows = purchases()
    with open(folder / "purchases.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEAD, *(row[:-1] for row in rows)])
    print(f"{len(rows):,} purchases; best AUC from 2024-03-10 on: {auc([r for r in rows if r[1] >= '2024-03-10']):.4f}")
