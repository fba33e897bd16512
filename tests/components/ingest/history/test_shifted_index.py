"""The label of a forecast and its baselines, against pandas' merge of the rows with themselves."""

from collections import Counter
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.ingestion import ingestion_of
from fullpass.components.ingest.spans.ingest_request import KnownSpan, read_request
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import raw_columns
from tests.components.ingest.reading_tools import ingested_parts, request_of

START = pd.Timestamp("2024-01-01", tz="UTC")
FORECAST = {"ahead": "3d", "season": "5d", "entity": "shop", "at": "day"}


def config_of(path="{YYYY}-{MM}-{DD}.csv", label=None, derive=None, forecast=FORECAST, **data):
    return PipelineConfig.model_validate(
        {
            "name": "shops",
            "data": {"source": {"format": "csv", "path": path}, "derive": derive or {}, **data},
            "features": {"id": "number"},
            "label": {"name": "sales", "task": "regression", **(label or {}), "forecast": forecast},
        }
    )


def requested(folder, config, known=(), span=None):
    columns = raw_columns(config.preprocessing_config).values()
    whole = request_of(folder, config.data, config.ingest_config, columns, span, known)
    return whole, read_request(whole.to_json(known=known))


def ingested(folder, request):
    """Returns the usable rows by id, reason -> rows left out, the bad rows, and the files read for the label."""
    work = f"{folder}/work-{len(list(folder.iterdir()))}"
    made = with_histories([ingestion_of(request, span, work) for span in request.spans], request, f"{work}/history")
    found, left_out, bad = {}, Counter(), []
    for ingestion in made:
        for reading, tables in ingested_parts(ingestion):
            found |= {int(row["id"]): row for table in tables for row in table.to_pylist()}
            bad += reading.take_bad()
            left_out += reading.left_out
    return found, left_out, bad, {path.rsplit("/", 1)[-1] for path in made[0].forecast.files}


def write(path, lines):
    path.write_text("\n".join(["id,shop,day,sales", *lines, ""]))


def days_of_sales(folder, days=12, seed=0):
    """Writes a file per local day; dates have offsets, shops two spellings, rows and values are missing.

    Returns:
        The rows as a frame: id, shop (as token), at, span (number of the day), sales.
    """
    draw, rows, number = np.random.default_rng(seed), [], 0
    for day in range(days):
        lines = []
        for shop in ("7", "ann", "bob"):
            for hour in (0, 12):
                if draw.random() < 0.15:
                    continue
                at = START + timedelta(days=day, hours=hour)
                zone = int(draw.choice([0, 2]))
                written = (at + timedelta(hours=zone)).strftime(f"%Y-%m-%dT%H:%M+{zone:02d}:00")
                sales = None if draw.random() < 0.1 else float(draw.integers(1, 1000))
                spelling = "7.0" if shop == "7" and draw.random() < 0.5 else shop
                lines.append(f"{number},{spelling},{written},{'' if sales is None else sales}")
                rows.append((number, shop, at, day, sales))
                number += 1
        draw.shuffle(lines)
        write(folder / f"{START + timedelta(days=day):%Y-%m-%d}.csv", lines)
    return pd.DataFrame(rows, columns=["id", "shop", "at", "span", "sales"])


def expected_of(rows):
    """Returns id -> label, last value and last season of the rows that have a later one, NaN for missing."""
    wanted = rows
    for name, offset in (("ahead", timedelta(days=3)), ("now", timedelta()), ("season", timedelta(days=-2))):
        other = rows.assign(at=rows["at"] - offset)[["shop", "at", "sales"]].rename(columns={"sales": name})
        wanted = wanted.merge(other.assign(**{f"has_{name}": True}), on=["shop", "at"], how="left")
    wanted = wanted[wanted["has_ahead"].eq(True)]
    return wanted.set_index("id")[["ahead", "now", "season"]].astype(float)


def received(found):
    names = ["sales in 3d", "sales now", "sales last season"]
    return pd.DataFrame(
        {n: [row[name] for name in names] for n, row in found.items()}, index=["ahead", "now", "season"]
    ).T


def assert_equal(found, expected):
    assert len(expected) > 10 and expected.isna().any().any()
    got = received(found).astype(float).sort_index()
    pd.testing.assert_frame_equal(got, expected.sort_index(), check_names=False, check_index_type=False)


def test_labels_and_baselines_equal_a_merge_with_gaps_and_over_the_borders_of_spans(tmp_path):
    rows = days_of_sales(tmp_path)
    _, request = requested(tmp_path, config_of(window={"spans": "all"}))
    found, left_out, bad, _ = ingested(tmp_path, request)
    expected = expected_of(rows)
    assert_equal(found, expected)
    assert not bad and left_out == {"no row of its entity 3d later, so no label": len(rows) - len(expected)}


def test_a_new_day_ingests_only_the_days_again_whose_label_it_may_hold(tmp_path):
    rows = days_of_sales(tmp_path)
    config = config_of(window={"spans": "all"})
    before, _ = requested(tmp_path, config, span=":2024-01-11")
    known = [KnownSpan(span.number, span.fingerprint, 0) for span in before.spans]
    _, request = requested(tmp_path, config, known=known)
    assert [span.label for span in request.spans] == ["2024-01-08", "2024-01-09", "2024-01-10", "2024-01-12"]
    found, _, _, read = ingested(tmp_path, request)
    days = [7, 8, 9, 11]
    expected = expected_of(rows)
    assert_equal(found, expected[np.isin(rows.set_index("id").loc[expected.index, "span"], days)])
    assert read == {f"2024-01-{day:02d}.csv" for day in range(5, 13)}, "no day out of reach of label or season is read"


def one_day(folder, *lines, **changes):
    write(folder / "rows.csv", lines)
    _, request = requested(folder, config_of("rows.csv", **changes))
    return ingested(folder, request)


@pytest.mark.parametrize(
    ("label", "derive", "expected"),
    [
        ({"task": "multiclass"}, {}, [b"9", b"1", None]),
        ({"task": "binary", "positive": 9}, {}, [9.0, 1.0, None]),
        ({"name": "many", "task": "binary"}, {"many": "sales > 5"}, [b"1", b"0", None]),
        ({"task": "multilabel", "separator": "|"}, {}, [b"9", None, None]),
    ],
)
def test_a_label_of_each_task_has_its_type(tmp_path, label, derive, expected):
    found, *_ = one_day(tmp_path, "0,a,2024-01-01,1", "1,a,2024-01-04,9.0", label=label, derive=derive)
    name = label.get("name", "sales")
    assert [found[0].get(f"{name} {of}") for of in ("in 3d", "now", "last season")] == expected


def test_rows_without_a_date_or_with_a_wrong_one_are_counted_for_what_they_are(tmp_path):
    lines = ["0,a,2024-01-01,1", "1,a,2024-01-04,9", "2,,2024-01-01,1", "3,a,,1", "4,a,yesterday,1"]
    found, left_out, bad, _ = one_day(tmp_path, *lines)
    assert list(found) == [0]
    assert left_out == {"no entity or time, so no label": 2, "no row of its entity 3d later, so no label": 1}
    assert [(row.row, row.column, row.reason, row.text) for row in bad] == [
        (6, "day", "no date of the format iso", "yesterday")
    ]


def test_two_rows_of_one_entity_and_time_are_refused_and_named(tmp_path):
    lines = ["0,a,2024-01-01T00:00,1", "1,b,2024-01-01T00:00,1", "2,a,2024-01-01T02:00+02:00,2"]
    with pytest.raises(UserError) as error:
        one_day(tmp_path, *lines)
    path = tmp_path / "rows.csv"
    expected = f"two rows of entity 'a' have the time 2024-01-01 00:00:00 UTC: {path}, row 2, and {path}, row 4."
    assert str(error.value).startswith(f"label.forecast: {expected}")


def test_nothing_of_the_future_is_in_the_columns_of_the_features(tmp_path):
    lines = [f"{n},a,2024-01-{n + 1:02d},{{}}" for n in range(6)]
    changed = [one_day(tmp_path, *(line.format(7 if n == 4 and flipped else 1) for n, line in enumerate(lines)))[0]
               for flipped in (False, True)]  # fmt: skip
    assert changed[0].keys() == changed[1].keys() == {0, 1, 2}
    differing = {
        (n, name) for n, row in changed[0].items() for name, cell in row.items() if changed[1][n][name] != cell
    }
    assert differing == {(1, "sales in 3d")}


def test_a_forecast_changes_the_configuration_of_ingest_and_nothing_else_does():
    assert config_of().ingest_config.shifted.columns == {
        "sales in 3d": 259_200_000_000,
        "sales now": 0,
        "sales last season": -172_800_000_000,
    }
    assert IngestConfig.model_validate(config_of().ingest_config.model_dump(mode="json")) == config_of().ingest_config
