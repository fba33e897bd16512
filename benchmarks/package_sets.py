"""Real tables of the package pydataset (data sets of R, as CSV inside the package) for bench_models."""

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import package_file
from benchmarks.model_sets import DataSet

_MOST_ROWS = 20_000


@dataclass(frozen=True)
class _Table:
    """A table of the package.

    Attributes:
        path: Package of R and name of the table.
        label: The column to predict.
        task: binary, multiclass or regression.
        without: Columns that are known only with the label, or number the rows.
    """

    path: str
    label: str
    task: str
    without: tuple[str, ...] = ()


_TABLES = {
    "films": _Table("ggplot2/movies", "rating", "regression", tuple(f"r{i}" for i in range(1, 11))),
    "diamonds": _Table("ggplot2/diamonds", "price", "regression"),
    "computers": _Table("Ecdat/Computers", "price", "regression"),
    "wages": _Table("Ecdat/Wages", "lwage", "regression"),
    "doctors": _Table("Ecdat/DoctorContacts", "mdu", "regression"),
    "hours": _Table("Ecdat/HI", "whrswk", "regression"),
    "mortgages": _Table("Ecdat/Hdma", "deny", "binary"),
    "visits": _Table("Ecdat/OFP", "ofp", "regression"),
    "insured": _Table("Ecdat/VietNamI", "insurance", "binary"),
    "votes": _Table("car/Chile", "vote", "multiclass"),
    "income": _Table("car/SLID", "wages", "regression"),
    "occupations": _Table("Ecdat/Males", "occupation", "multiclass", ("nr",)),
}


def _read(table: _Table) -> DataSet:
    """Returns up to 20,000 rows whose label is known."""
    import pandas

    with tarfile.open(package_file("pydataset", "resources.tar.gz")) as archive:
        file = archive.extractfile(f"resources/rdata/csv/{table.path}.csv")
        rows = pandas.read_csv(file, index_col=0).dropna(subset=[table.label])
    rows = rows.sample(min(len(rows), _MOST_ROWS), random_state=0)
    label = rows.pop(table.label)
    columns = {name: _column(rows[name]) for name in rows if name not in table.without}
    given = label.to_numpy(float) if table.task == "regression" else label.astype(str).to_numpy(str)
    return DataSet(columns, given, table.task)


def _column(values: Any) -> np.ndarray:
    if values.dtype.kind in "fi":
        return values.to_numpy(float)
    return values.astype("string").fillna("").to_numpy(str)


PACKAGE_SETS: Mapping[str, Callable[[], DataSet]] = {name: partial(_read, table) for name, table in _TABLES.items()}
