"""Writes data/visits.jsonl, 8,000 visits of a shop with a known answer, beside this file; no data is downloaded.

A visitor is shown one of the articles that he looked at before. He buys a cheap one if it is among the later half of
them, and a dear one if it is among the earlier half, having thought it over. So the answer depends on the order of the
list, on the article shown, and on the price that it had in the list: a mean over the list knows none of it.
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
