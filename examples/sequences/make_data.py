"""Writes data/visits.jsonl beside this file: 8,000 visits of a shop with a known label. No data is downloaded.

The shop shows one of the articles that the visitor saw before. A visitor buys a cheap article from the later half of
the list, and an expensive one from the earlier half. The label therefore depends on the order of the list, on the
article shown, and on its price in the list. A mean over the list contains none of this.
"""

import json
import random
from pathlib import Path


def visit(rng: random.Random) -> dict:
    """Returns one visit."""
    articles = rng.sample([f"article {i}" for i in range(20)], rng.randint(4, 8))
    seen = [{"article": article, "price": round(rng.gammavariate(2, 10), 2)} for article in articles]
    place = rng.randrange(len(seen))
    is_late, is_cheap = place >= len(seen) // 2, seen[place]["price"] < 17
    return {"seen": seen, "shown": articles[place], "age": rng.randint(18, 80), "bought": is_late == is_cheap}


if __name__ == "__main__":
    generator = random.Random(0)
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    rows = [json.dumps(visit(generator)) + "\n" for _ in range(8000)]
    (folder / "visits.jsonl").write_text("".join(rows))
