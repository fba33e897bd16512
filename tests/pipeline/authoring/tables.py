"""Columns and CSV files for the tests of profiles, `init` and `check --data`."""

import csv

import pyarrow as pa

from fullpass.pipeline.authoring.profile.column_profile import profile_column
from fullpass.pipeline.authoring.profile.value_counts import count_values


def values_of(cells, **options):
    """Returns the value counts of cells as text; None and NaN are missing."""
    texts = [None if cell is None or cell != cell else str(cell) for cell in cells]
    return count_values(pa.array(texts, pa.string()), **options)


def column_of(name, cells):
    """Returns the profile of cells as text."""
    return profile_column(name, values_of(cells))


def write_csv(path, columns, extra=()):
    """Writes columns, and extra rows, and returns the path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        writer.writerows(extra)
    return path
