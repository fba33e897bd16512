"""The joins that `init` proposes for the tables of a folder, against pandas."""

import re

import pandas as pd
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load

ROWS = 1500


@pytest.fixture
def orders(tmp_path, random):
    """Returns the orders, and the tables, which lie in a folder beside them."""
    codes = [f"{letter}{digit}X" for letter in "ABCDEFGH" for digit in range(5)]
    days = [f"2024-01-{day:02d}" for day in range(1, 29)]
    orders = pd.DataFrame(
        {
            "customer": random.integers(1000, 1080, ROWS),
            "shop": random.choice(codes, ROWS),
            "day": random.choice(days, ROWS),
            "town": random.choice(list("PQR"), ROWS),
            "size": random.random(ROWS).round(3),
        }
    )
    orders["returned"] = (orders["customer"] % 3 + random.normal(size=ROWS) > 1.2).astype(int)
    readings = [(day, town, round(random.random(), 3)) for day in days for town in "PQR"]
    tables = {
        "customers": pd.DataFrame({"customer": range(1000, 1060), "region": random.choice(["N", "S", "W"], 60)}),
        "prices": pd.DataFrame(
            [(code, f"2024-01-{day:02d}", int(random.integers(9))) for code in codes for day in (20, 4, 9)],
            columns=["shop", "since", "price"],
        ),
        "rates": orders.groupby("customer")[["returned"]].mean().reset_index(),
        "stores": pd.DataFrame({"code": [*codes, "Z9Z"], "floor": random.random(41).round(3)}),
        "visits": pd.DataFrame({"customer": random.integers(1000, 1080, 300), "pages": range(300)}),
        "weather": pd.DataFrame(readings, columns=["day", "town", "temp"]),
    }
    (tmp_path / "tables").mkdir()
    for name, table in tables.items():
        table.to_csv(tmp_path / "tables" / f"{name}.csv", index=False)
    (tmp_path / "tables" / "notes.pdf").write_bytes(b"%PDF-1.4")
    orders.to_csv(tmp_path / "orders.csv", index=False)
    return orders, tables


def test_tables_are_joined_by_keys_that_are_unique_and_match(tmp_path, orders):
    rows, tables = orders
    data = str(tmp_path / "orders.csv")
    written = init(data, output=str(tmp_path / "p.yaml"), label="returned", tables=str(tmp_path / "tables"))
    loaded = load(written.file)
    assert require(loaded) == () and not check_data(loaded).has_errors
    joins = {name: join.keys for name, join in loaded.config.data.joins.items()}
    assert joins == {
        "customers": {"customer": "customer"},
        "stores": {"shop": "code"},
        "weather": {"day": "day", "town": "town"},
    }
    shares = re.findall(r"([\d.]+)% of rows have a match; no two of (\d+) rows", written.text)
    for (share, size), (name, on) in zip(shares, joins.items(), strict=True):
        merged = rows.merge(tables[name], "left", left_on=list(on), right_on=list(on.values()), indicator=True)
        assert len(merged) == ROWS and int(size) == len(tables[name])
        assert float(share) == pytest.approx(100 * (merged["_merge"] == "both").mean(), abs=0.06)
    for message in (
        r"rates\.csv: not joined: it has returned, which the label is made of",
        r"prices\.csv: not joined: rows of the table repeat the key \[shop\]",
        r"visits\.csv: not joined: rows of the table repeat the key \[customer\]",
        r"notes\.pdf: not joined: ",
    ):
        assert re.search(message, written.text), message
    read = {f.column for f in loaded.config.features.values() if f.column and "." in f.column}
    assert read == {"customers.region", "stores.floor", "weather.temp"}


def test_a_folder_without_files_is_named(tmp_path, orders):
    with pytest.raises(UserError, match="--tables .*/none: no folder with files"):
        data, nowhere = str(tmp_path / "orders.csv"), str(tmp_path / "none")
        init(data, output=str(tmp_path / "p.yaml"), label="returned", tables=nowhere)
