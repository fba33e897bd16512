"""Pushes the served model again with the current tables of `serve: lookup`: the weights and the graph stay.

The new export answers the eval rows of the model's run. Its answers must be those of the old export for the same rows,
joined with the new tables by the code of Ingest, within the tolerance of Parity; and it answers the sample requests in
a fresh process, as ServingCheck asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.base.errors import UserError, listed
from fullpass.base.users import user_and_host
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.join_index import LOOKUP, JoinIndex, joined_arrays, with_keys
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.components.parity.compare import ParityComparison, Tolerance, check_parity, compare_rows
from fullpass.components.parity.compare_paths import MOST_ROWS, Features, example_batches
from fullpass.components.predict.exported import describe_export
from fullpass.components.push.push import LINEAGE, PushResult, origin_of, push, rolled_back, served_version
from fullpass.components.serving_check.component import check_export
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.registry.compared_model import find_model
from fullpass.pipeline.root.layout import served_folder
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.trainer.export.export_files import SERVING_DEFAULT, SERVING_RAW, column_of, verify_export
from fullpass.trainer.export.joined_tables import JoinedTable, read_table
from fullpass.trainer.export.refreshed_export import OpenExport
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.input.raw_tensors import DTYPES

_REFRESH = "fullpass run trains a model with them."


@dataclass(frozen=True)
class Refreshed:
    """A pushed version with new tables.

    Attributes:
        rows: Number of eval rows on which it was compared.
        unmatched: Number of these without a match, by join.
        changed: Number of these with another answer than that of the version before.
    """

    pushed: PushResult
    rows: int
    unmatched: Mapping[str, int]
    changed: int


def refresh(loaded: Loaded, export: Path) -> Refreshed:
    """Pushes the model of an export with the tables that a YAML names now.

    Args:
        export: Folder of the served version.

    Raises:
        UserError: The version is not served, or not any more, the model looks nothing up, the YAML declares other joins
            or columns, a table cannot be read, is too large or has other types, the eval rows are gone, the answers
            differ, or a fresh process cannot serve it.
    """
    target = served_folder(loaded)
    served = _served(target, export)
    verify_export(str(export))
    describe_export(export)  # refuses a model of another Trainer
    before, files = OpenExport(export), find_model(str(export), loaded.file).eval_files
    origin = origin_of(export)
    _check_joins(before, loaded)
    if not files or origin is None:
        raise UserError(f"{export}: the eval rows of its run are not on this machine, so the tables cannot be checked.")
    with TemporaryDirectory(prefix="fullpass-refresh-") as folder:
        indexes = _read_tables(before, loaded, folder)
        tables = [_table(before, index) for index in indexes]
        digests = {table.name: table.described()["digest"] for table in tables}
        if digests == {name: of["digest"] for name, of in before.lookups.items()}:
            return Refreshed(PushResult(served, created=False, removed=(), served=served), 0, {}, 0)
        written = Path(folder) / "export"
        before.write(written, tables)
        found = _compare(before, OpenExport(written), indexes, files, loaded)
        latency = check_export(str(written))["latency_ms"]
        joins = {i.name: {"files": [c.path for c in i.counts], "rows": sum(c.rows for c in i.counts)} for i in indexes}
        facts = {
            "at": datetime.now().astimezone().isoformat(timespec="seconds"),
            "by": user_and_host(),
            "from_version": export.name,
            "joins": joins,
            "rows_compared": found.rows,
            "latency_ms": round(latency, 3),
        }
        lineage = {**before.description.get(LINEAGE, {}), "refreshed": facts}
        digest = " ".join(digests.values())
        pushed = push(
            written,
            target,
            keep=loaded.config.push.keep,
            origin=origin,
            refresh=digest,
            replaces=served,
            lineage=lineage,
        )
        return replace(found, pushed=pushed)


def _served(target: Path, export: Path) -> int:
    """Returns the number of the served version, which must be that of an export: the refreshed one is served next."""
    served = served_version(target)
    if served is None or export.resolve() != (target / str(served)).resolve():
        raise UserError(
            f"{export}: not the served version of {target} ({served or 'none'}), and a refreshed model would be served "
            f"in its place. To refresh another version, serve it first: fullpass rollback {target} --to VERSION."
        )
    return served


def _check_joins(model: OpenExport, loaded: Loaded) -> None:
    """Checks that a YAML declares the joins of the model, with the same keys of a row."""
    if not model.lookups:
        raise UserError(f"{model.folder}: the model looks nothing up (data.joins.NAME.serve: lookup).")
    if not isinstance(model.lookups, dict):
        raise UserError(f"{model.folder}: the export does not tell the columns of its tables. Train the model again.")
    joins = {name: join for name, join in loaded.config.data.joins.items() if join.serve == "lookup"}
    for name in sorted({*joins} ^ {*model.lookups}):
        where = "the model does not have" if name in joins else "the YAML does not have any more"
        raise UserError(f"data.joins.{name}: a table to look up that {where}; {_REFRESH}")
    for name, join in joins.items():
        keys = tuple(key["name"] for key in model.lookups[name]["keys"])
        if keys != join.left_columns:
            raise UserError(
                f"data.joins.{name}.on: {', '.join(join.left_columns)}, but the model looks up by {', '.join(keys)}; "
                f"{_REFRESH}"
            )


def _read_tables(model: OpenExport, loaded: Loaded, folder: str) -> list[JoinIndex]:
    data = loaded.config.data
    joins = {name: join for name, join in data.joins.items() if name in model.lookups}
    tables, most_bad = find_tables(joins, loaded.resolve, None), data.bad_rows.max_fraction
    keys = [column for join in joins.values() for column in join.left_columns]
    columns = [column_of(column) for lookup in model.lookups.values() for column in lookup["columns"]]
    wanted = with_keys(columns, keys).values()
    return [build_index(name, join, tables[name], wanted, most_bad, folder) for name, join in joins.items()]


def _table(model: OpenExport, index: JoinIndex) -> JoinedTable:
    keys = [column_of(key) for key in model.lookups[index.name]["keys"]]
    return JoinedTable(index.name, keys, read_table(f"{index.folder}/{LOOKUP}"), model.columns)


def _compare(
    before: OpenExport, after: OpenExport, indexes: Sequence[JoinIndex], files: Sequence[str], loaded: Loaded
) -> Refreshed:
    """Compares both exports on the eval rows, which the code of Ingest joins with the new tables for the old one."""
    parity, comparison = loaded.config.parity, ParityComparison()
    tolerance = Tolerance(parity.rtol, parity.atol)
    least = 0.0 if loaded.config.label.task == "regression" else 1.0  # the scores are probabilities
    compared = partial(compare_rows, row_name="eval row {}".format, tolerance=tolerance, least_deviation=least)
    rows, changed, unmatched = 0, 0, {index.name: 0 for index in indexes}
    keys = column_keys(tuple(before.request))
    for records in example_batches(files, MOST_ROWS, None if parity.rows == "all" else parity.rows):
        given = dense_columns(records, before.columns)
        joined, lost = _joined(given, before.columns, indexes)
        unmatched = {name: count + lost[name] for name, count in unmatched.items()}
        expected = _numpy(before.predict(joined, len(records)))
        raw = {keys[name]: given[name] for name in before.request}
        ways = {
            SERVING_DEFAULT: _numpy(after.loaded.signatures[SERVING_DEFAULT](examples=records)),
            SERVING_RAW: _numpy(after.loaded.signatures[SERVING_RAW](**raw)),
        }
        for way, found in ways.items():
            comparison.add(compared(expected, found, pair=f"joined by Ingest = {way}", before=comparison))
        old = _numpy(before.loaded.signatures[SERVING_RAW](**raw))
        changed += int((old["prediction"] != expected["prediction"]).sum())
        rows += len(records)
    check_parity(comparison.compared)
    for index in indexes:
        if rows and unmatched[index.name] == rows:
            raise UserError(f"data.joins.{index.name}: none of {rows:,} eval rows has a match in the new table.")
    return Refreshed(PushResult(0, created=False, removed=(), served=0), rows, unmatched, changed)


def _joined(
    given: Mapping[str, tf.Tensor], columns: Mapping[str, RawColumn], indexes: Sequence[JoinIndex]
) -> tuple[dict[str, tf.Tensor], Mapping[str, int]]:
    """Returns dense columns with those of the tables joined by the code of Ingest, and the rows without a match."""
    added = {column.name: columns[column.name] for index in indexes for column in index.columns}
    keys = {name for index in indexes for name in index.join.left_columns} - added.keys()
    table = numbered(pa.table({name: _cells(given[name], columns[name]) for name in keys}), 0)
    reading = Reading(SourceFile("the eval rows", None, 0, ""), {})
    batches: Iterable[Rows] = [table]
    for index in indexes:
        batches = index.add_columns(batches, reading, RawText())
    joins = {index.name: index.join for index in indexes}
    arrays = [joined_arrays(added.values(), joins, reading, rows)[0] for rows in batches]
    joined = dict(given)
    for name, column in added.items():
        missing = b"" if column.type == "string" else float("nan")
        cells = [of[name].fill_null(missing).to_numpy(zero_copy_only=False) for of in arrays]
        joined[name] = tf.constant(np.concatenate(cells), DTYPES[column.type])
    return joined, reading.unmatched


def _cells(values: tf.Tensor, column: RawColumn) -> pa.Array:
    cells = values.numpy()
    return pa.array(cells, from_pandas=True) if column.type == "number" else pa.array(list(cells), pa.binary())


def _numpy(outputs: Mapping[str, tf.Tensor]) -> Features:
    return {name: value.numpy() for name, value in outputs.items()}


def words(found: Refreshed, target: Path) -> str:
    """Returns what was pushed, for people."""
    version = found.pushed.version
    if version in rolled_back(target):
        again = f"To serve it: fullpass rollback {target} --to {version}."
        return f"Version {version} has these tables, but was rolled back; nothing was pushed. {again}"
    if not found.pushed.created:
        return f"Version {version} has these tables already; nothing was pushed."
    lost = listed([f"{count:,} without a match in {name}" for name, count in found.unmatched.items()])
    return (
        f"Pushed to {target / str(found.pushed.version)}. Of {found.rows:,} eval rows {found.changed:,} have another "
        f"prediction than before; {lost}."
    )
