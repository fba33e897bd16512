"""Rows to predict with readable, unreadable and absent dates of a join by time: each keeps its place and its cells."""

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.predict.exported import Exported, TrainingRows
from fullpass.components.predict.other_rows import other_rows
from fullpass.components.predict.predict import predict_tables
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import events_of_serving, serving_columns

_START = datetime(2024, 1, 1, tzinfo=UTC)
_UNREADABLE = ("garbage", "2024-13-01", "2024-01-32T10:00", "01.02.2024", "2024-01-05T25:00", "٢٠٢٤-٠١-٠٥", "-", "0")
_OF_JSON: tuple[Any, ...] = (5, 1.5, True, [], ["2024-01-02", "2024-01-03"], ["soon"])
_KEYS = ("a", "b", "nobody")
_OF_HISTORY = 1000


def try_one(seed: int, folder: Path) -> str:
    """Predicts rows by a model that answers with what it was given, and compares this with plain loops."""
    rng = random.Random(seed)
    known = [(rng.choice(_KEYS[:2]), _START + timedelta(hours=rng.randrange(24 * 30)), i) for i in range(40)]
    known = list({row[:2]: row for row in known}.values())
    lines = "".join(f"{key},{when.isoformat()},{i}\n" for key, when, i in known)
    (folder / "table.csv").write_text(f"k,at,v\n{lines}")
    share, kind = rng.choice((0, 0, 0.1, 0.5, 1)), rng.choice(("csv", "jsonl", "parquet"))
    rows = [_row(rng, i, share, kind) for i in range(rng.choice((1, 2, 40)))]
    model = _model(history=seed % 2 == 0)
    table = str(folder / "table.csv")
    others = other_rows(model, {"t": table}, {"h": table} if seed % 2 == 0 else {}, str(folder))
    path = _written(rows, folder, kind)
    bad = [_is_unreadable(row["at"]) for row in rows]
    try:
        found = [row for table in predict_tables(model, str(path), others=others) for row in table.to_pylist()]
    except UserError as error:
        assert all(bad) and str(path) in str(error) and "'at'" in str(error), (error, rows)
        return "refused"
    assert [(int(row["id"]), row["x"]) for row in found] == [(row["id"], row["x"]) for row in rows], found
    assert [row["bad_row"] is not None for row in found] == bad, (rows, found)
    for row, answer in zip(rows, found, strict=True):
        expected = None if _is_unreadable(row["at"]) else _answer(row, known, history=seed % 2 == 0)
        assert answer["prediction"] == expected, (row, answer, expected)
    return "rows quarantined" if any(bad) else "read"


def _row(rng: random.Random, number: int, share: float, kind: str) -> dict[str, Any]:
    when = _START + timedelta(minutes=rng.randrange(-600, 60 * 24 * 31))
    zone = timedelta(hours=rng.randint(-11, 13))
    readable = (
        when.strftime("%Y-%m-%d"),
        when.strftime("%Y-%m-%dT%H:%M"),
        when.strftime("%Y-%m-%d %H:%M:%S"),
        when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        when.astimezone(type(UTC)(zone)).isoformat(),
    )
    at: Any = rng.choice((*readable, "", None))
    if rng.random() < share:
        at = rng.choice((*_UNREADABLE, *(_OF_JSON if kind == "jsonl" else ())))
    return {"id": number, "k": rng.choice((*_KEYS, None)), "at": at, "x": rng.choice(("é", "x y", "7.0", "<b>"))}


def _written(rows: list[dict[str, Any]], folder: Path, kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "csv":
        lines = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({n: c for n, c in row.items() if c is not None}) + "\n" for row in rows))
    else:
        text = pa.string()
        pq.write_table(
            pa.Table.from_pylist(rows, pa.schema({"id": pa.int64(), "k": text, "at": text, "x": text})), path
        )
    return path


def _is_unreadable(at: Any) -> bool:
    return at in _UNREADABLE or (at not in (None, "", []) and not isinstance(at, str))


def _answer(row: Mapping[str, Any], known: list[tuple[str, datetime, int]], *, history: bool) -> float:
    """Returns the newest value of the key at the time of the row, -1 without one, and the count of earlier ones."""
    if not row["at"] or row["k"] is None:
        return -1.0
    time = datetime.fromisoformat(row["at"])
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    mine = sorted((when, value) for key, when, value in known if key == row["k"] and when <= time)
    before = sum(when < time for when, _ in mine) if history else 0
    return float(mine[-1][1] if mine else -1) + _OF_HISTORY * before


def _model(*, history: bool) -> Exported:
    source = {"format": "csv", "path": "x"}
    config = {
        "name": "a",
        "data": {
            "source": source,
            "joins": {"t": {"source": source, "on": "k", "as_of": {"left": "at", "right": "at"}}},
            "history": {"h": {"entity": "k", "at": "at"}},
            "derive": {"n": "past_count(h.at)"},
        },
        "features": {"v": {"type": "number", "column": "t.v"}, **({"n": "number"} if history else {})},
        "label": {"name": "y", "task": "regression"},
    }

    def predict(**columns: tf.Tensor) -> dict[str, tf.Tensor]:
        value = tf.where(tf.math.is_nan(columns["t.v"]), -1.0, columns["t.v"])
        ages = columns.get("h.at", tf.fill([len(value), 1], np.nan))
        before = tf.reduce_sum(tf.cast(~tf.math.is_nan(ages), tf.float32), axis=1)
        return {"prediction": tf.reshape(value, [-1]) + _OF_HISTORY * before}

    checked = PipelineConfig.model_validate(config)
    columns = serving_columns(checked.preprocessing_config)
    return Exported(
        directory=Path("none"),
        predict=predict,
        columns=columns,
        keys={name: name for name in columns},
        classes=(),
        levels=(),
        training=TrainingRows(
            {"format": "csv"},
            joins={name: join.description() for name, join in checked.data.joins.items()},
            events=events_of_serving(checked.preprocessing_config),
        ),
    )
