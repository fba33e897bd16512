"""Writes data/visits.jsonl, 8,000 visits of a shop with a known answer, beside this file; no data is downloaded.

A visitor is shown one of the articles that he looked at before, and buys if it is among the later half of them. So the
answer depends on the order of the list and on the article shown: a mean over the list knows neither.
"""

import json
import random
from pathlib import Path


def visit(rng: random.Random) -> dict:
    """Returns one visit."""
    seen = rng.sample([f"article {i}" for i in range(20)], rng.randint(4, 8))
    place = rng.randrange(len(seen))
    return {
        "seen": seen,
        "shown": seen[place],
        "price": round(rng.gammavariate(2, 10), 2),
        "bought": place >= len(seen) // 2,
    }


if __name__ == "__main__":
    generator = random.Random(0)
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    rows = [json.dumps(visit(generator)) + "\n" for _ in range(8000)]
    (folder / "visits.jsonl").write_text("".join(rows))
