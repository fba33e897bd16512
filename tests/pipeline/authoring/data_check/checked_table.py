"""A table of good data, and what `check --data` finds after some of it is replaced."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.loading.load import load
from tests.pipeline.authoring.tables import write_csv as write

ROWS = 1000


FEATURES = "{age: number, city: category, member: boolean, joined: date}"


def columns():
    random = np.random.default_rng(2)
    return {
        "age": random.normal(40, 10, ROWS).round(3),
        "city": random.choice(["Oslo", "Rome", "Bern"], ROWS),
        "member": random.choice(["yes", "no"], ROWS),
        "joined": [f"2023-{m:02d}-{d:02d}" for m, d in random.integers(1, 13, (ROWS, 2)).tolist()],
        "y": random.integers(0, 2, ROWS),
    }


def problems(tmp_path, changes=None, *, features=FEATURES, label="{name: y, task: binary}", data="", extra=()):
    """Returns (severity, path, message) of what is found after some columns are replaced."""
    write(tmp_path / "data.csv", {**columns(), **(changes or {})}, extra)
    return of(tmp_path, f"  source: {{format: csv, path: data.csv}}\n{data}", features, label)


def of(tmp_path, data, features=FEATURES, label="{name: y, task: binary}"):
    text = f"name: test\ndata:\n{data}label: {label}\nfeatures: {features}\n"
    (tmp_path / "p.yaml").write_text(text)
    report = check_data(load(tmp_path / "p.yaml"))
    return [(p.severity, p.path, p.message) for p in report.problems]


GIVEN_SPLITS = "  source: {format: csv, path: {train: train.csv, eval: eval.csv}}\n"


def of_table(tmp_path, columns, features=FEATURES, label="{name: y, task: binary}"):
    """As `of`, for columns that are written as Parquet."""
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    return of(tmp_path, "  source: {format: parquet, path: a.parquet}\n", features, label)


def replaced(values, value, share):
    values = np.array(values, dtype=object)
    values[: int(share * len(values))] = value
    return values
