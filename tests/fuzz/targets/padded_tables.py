"""Writes a table as spreadsheets save it, with padded lines that are no rows, and reads exactly its rows."""

import csv
import io
import random
from pathlib import Path

from fullpass.components.ingest.readers.read_source import columns_of_file
from fullpass.pipeline.authoring.profile.detect_source import infer_source
from fullpass.pipeline.authoring.profile.sample import read_sample

TITLES = ("Students of the year by state", "Report, second quarter", "Sales of May (in thousand)", "Table 3: rents")
TOTALS = ("Total", "Sum", "Grand total", "Average")
KINDS = {
    "number": lambda rng: f"{rng.uniform(0, 900):.2f}",
    "count": lambda rng: str(rng.randint(0, 5000)),
    "word": lambda rng: rng.choice(("red", "green", "blue", "dark blue")),
    "place": lambda rng: rng.choice(("Bern", "Basel, city", "Biel", "Chur")),
    "day": lambda rng: f"2024-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
}


def lines_of(rng: random.Random, kinds: list[str], rows: list[list[str]]) -> list[list[str]]:
    """Returns the cells of all lines of a file: those above the header, the header, the rows, and those below."""
    above = [[rng.choice(TITLES)] for _ in range(rng.randint(0, 2))]
    above = [line for one in above for line in (one, *[[]] * rng.choice((0, 0, 1)))]
    if rng.random() < 0.2:
        above = [[], *above]
    totals = [rng.choice(TOTALS), *[rng.choice(("", "1234.5")) for _ in kinds[2:]], "77"]
    below = [*([totals] if rng.random() < 0.5 else []), *([[]] if rng.random() < 0.5 else [])]
    return [*above, [f"{kind}_{i}" for i, kind in enumerate(kinds)], *rows, *below]


def text_of(rng: random.Random, lines: list[list[str]], width: int) -> str:
    """Returns the text of a file; each line that is shorter than a row is filled with empty cells, in part or not."""
    separator, end = rng.choice(",;\t"), rng.choice(("\n", "\r\n"))
    padding = rng.choice(("all", "none", "some"))
    written = io.StringIO()
    writer = csv.writer(written, delimiter=separator, lineterminator=end)
    for line in lines:
        most = width if padding == "all" else rng.randint(len(line), width) if padding == "some" else len(line)
        cells = [*line, *[""] * (max(len(line), most) - len(line))]
        writer.writerow(cells if len(cells) > 1 or any(cells) else [])  # else quotes show that a cell is there
    return written.getvalue()


def try_one(seed: int, folder: Path) -> str:
    """Writes and reads one table."""
    rng = random.Random(seed)
    kinds = [*rng.choices(tuple(KINDS), k=rng.randint(1, 5)), "count"]
    rows = [[KINDS[kind](rng) for kind in kinds] for _ in range(rng.randint(12, 60))]
    for row in rows:
        if rng.random() < 0.1 and len(row) > 2:
            row[rng.randrange(len(row))] = ""
    lines = lines_of(rng, kinds, rows)
    path = folder / "table.csv"
    path.write_text(text_of(rng, lines, len(kinds)), encoding="utf-8", newline="")
    found = infer_source(str(path), folder)
    names = [name for name in columns_of_file(found.files[0], found.source) or [] if name]
    sample = read_sample(found.files, found.source, names, rows=None)
    assert names == [f"{kind}_{i}" for i, kind in enumerate(kinds)], (names, found.settings)
    read = list(zip(*(sample.columns[name].to_pylist() for name in names), strict=True))
    assert (read, sample.malformed) == ([tuple(row) for row in rows], 0), (
        found.settings,
        read[:2],
        read[-3:],
        rows[-1],
    )
    return "read"
