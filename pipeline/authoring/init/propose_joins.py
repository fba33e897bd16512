"""Proposes joins of the rows with the tables of a folder whose keys match.

A key is the smallest set of columns that occurs in both, by name, or one text column whose values occur in a column of
the rows. It is proposed if no two rows of the table repeat it, in all rows of the table, and if most rows have a match.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import UsageError, UserError
from fullpass.components.ingest.joins.join_index import keys_of
from fullpass.pipeline.authoring.init.yaml_text import YamlLine, flow
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_column
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile, profile_source
from fullpass.pipeline.authoring.profile.value_counts import count_values

_MATCHED = 0.5
"""Least share of the rows with a match."""
_BY_VALUES = 0.9
"""The same if the key has another name in the table."""
_FEWEST_VALUES = 3
"""Fewest values that rows and table share under different names."""
_MOST_COLUMNS = 3


@dataclass(frozen=True)
class ProposedJoins:
    """Joins, and the profile of the rows with the columns that they add.

    Attributes:
        lines: The joins by name.
        left_out: Tables without a join, with the reason.
    """

    profile: SourceProfile
    lines: list[YamlLine] = field(default_factory=list)
    left_out: list[YamlLine] = field(default_factory=list)


@dataclass(frozen=True)
class _Key:
    """Columns of the rows -> columns of the table, the position of each row's match, int64 [seen], -1 for none."""

    on: Mapping[str, str]
    positions: np.ndarray

    @property
    def matched(self) -> float:
        return float((self.positions >= 0).mean())


def propose_joins(
    profile: SourceProfile, tables: str | None, label: Collection[str], folder: Path, *, rows: int
) -> ProposedJoins:
    """Returns the joins with the files of a folder.

    Args:
        tables: Folder of the tables; None proposes nothing.
        label: Columns that the label is or is computed from. A table with one of them is left out.
        folder: Folder of the YAML to write.

    Raises:
        UsageError: There is no such folder, or it has no file.
    """
    joins = ProposedJoins(profile)
    if tables is None:
        return joins
    files = sorted(path for path in Path(tables).glob("*") if path.is_file() and not path.name.startswith("."))
    if not files:
        raise UsageError(f"--tables {tables}: no folder with files. Name the folder of the tables to join with.")
    own = {Path(file.path).resolve() for file in profile.found.files}
    for path in (path for path in files if path.resolve() not in own):
        name = _name(path, [line.name for line in joins.lines])
        try:
            table = profile_source(str(path), folder, rows=rows)
        except UserError as error:
            joins.left_out.append(YamlLine(path.name, None, f"not joined: {error}"))
            continue
        found = _refused(table, label) or _key(profile, table)
        if isinstance(found, str):
            joins.left_out.append(YamlLine(path.name, None, f"not joined: {found}"))
            continue
        same = all(one == other for one, other in found.on.items())
        on: Any = list(found.on) if same else dict(found.on)
        on = on[0] if same and len(on) == 1 else on
        value = {"source": dict(table.found.settings), "on": on}
        why = f"{found.matched:.1%} of rows have a match; no two of {table.sample.seen:,} rows of the table share a key"
        joins.lines.append(YamlLine(name, value, why))
        joins = replace(joins, profile=_extended(joins.profile, name, table, found))
    return joins


def with_column(line: YamlLine, joins: Collection[str]) -> YamlLine:
    """Returns the line of a feature; that of a joined column NAME.COLUMN is called NAME_COLUMN."""
    if line.value is None or line.name.partition(".")[0] not in joins:
        return line
    value = line.value if isinstance(line.value, dict) else {"type": line.value}
    return replace(line, name=line.name.replace(".", "_", 1), value={**value, "column": value.get("column", line.name)})


def _name(path: Path, taken: Sequence[str]) -> str:
    name = re.sub(r"\W+", "_", path.name.split(".")[0], flags=re.ASCII).strip("_") or "table"
    name = name if not name[0].isdigit() else f"t_{name}"
    return name if name not in taken else f"{name}_{len(taken)}"


def _refused(table: SourceProfile, label: Collection[str]) -> str:
    if held := sorted({column.name for column in table.columns} & {*label}):
        return f"it has {held[0]}, which the label is made of"
    return "" if table.sample.whole else "it is too large to measure that its key is unique"


def _key(profile: SourceProfile, table: SourceProfile) -> _Key | str:
    """Returns the key of the best join, or why there is none."""
    repeated = ""
    for on in _candidates(profile, table):
        left = _tokens(profile, list(on))
        right = _tokens(table, list(on.values()))
        known = right[~pd.isna(right)]
        if not pd.Series(known).is_unique:
            repeated = repeated or flow(list(on.values()))
            continue
        places = pd.Index(right).get_indexer(left) if len(known) == len(right) else _places(left, right)
        key = _Key(on, np.where(pd.isna(left), -1, places))
        by_name = all(one == other for one, other in on.items())
        if key.matched >= (_MATCHED if by_name else _BY_VALUES):
            return key
    if repeated:
        return f"rows of the table repeat the key {repeated}; on, with duplicates: first or last, would choose"
    return "no column of it identifies its rows and occurs in the data"


def _places(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    present = np.flatnonzero(~pd.isna(right))
    found = pd.Index(right[present]).get_indexer(left)
    return np.where(found < 0, -1, present[found])


def _candidates(profile: SourceProfile, table: SourceProfile) -> Iterator[dict[str, str]]:
    """Yields keys by name, the smallest first and of these the ones with most values; then keys by values."""
    ours = {column.name: column for column in profile.columns if _may_be_key(column)}
    theirs = {column.name: column for column in table.columns if _may_be_key(column)}
    shared = sorted(ours.keys() & theirs.keys(), key=lambda name: -theirs[name].values.distinct)
    for size in range(1, _MOST_COLUMNS + 1):
        yield from ({name: name for name in names} for names in combinations(shared, size))
    by_values = []
    for (one, left), (other, right) in ((a, b) for a in ours.items() for b in theirs.items()):
        both = {*left.values.texts} & {*right.values.texts}
        is_text = max(left.values.number_share, right.values.number_share) < _MATCHED  # numbers agree by accident
        if one != other and is_text and len(both) >= _FEWEST_VALUES:
            by_values.append((-len(both), one, other))
    yield from ({one: other} for _, one, other in sorted(by_values))


def _may_be_key(column: ColumnProfile) -> bool:
    """Returns whether values of a column may name rows: not fractions, true and false, images or lists."""
    fractions = column.numbers is not None and not column.numbers.whole
    return column.values.distinct > 2 and not fractions and column.like is None and column.image is None


def _tokens(profile: SourceProfile, names: list[str]) -> np.ndarray:
    """Returns the key of every row seen as Ingest compares it, object [seen]; None for missing."""
    table = pa.table({name: profile.sample.seen_columns[name] for name in names})
    return keys_of(table, names, profile.found.source.raw_text).texts.to_numpy(zero_copy_only=False)


def _extended(profile: SourceProfile, name: str, table: SourceProfile, key: _Key) -> SourceProfile:
    """Returns the profile of the rows with the columns of a table, but those that the rows have already."""
    sample, source = profile.sample, table.found.source
    positions = pa.array(key.positions, mask=key.positions < 0)
    added, columns = {}, []
    for column in table.columns:
        cells = table.sample.seen_columns.get(column.name)
        if column.name in key.on.values() or cells is None or not pa.types.is_string(cells.type):
            continue
        joined, own = cells.take(positions), sample.seen_columns.get(column.name)
        if own is not None and own.type == joined.type and pc.all(pc.equal(own, joined)).as_py():  # where both have it
            continue
        added[f"{name}.{column.name}"] = joined
        values = count_values(joined.take(sample.picked)).without(source.missing_of(column.name))
        values = replace(values, decimal=getattr(source, "decimal", "."))
        columns.append(profile_column(f"{name}.{column.name}", values))
    wider = replace(sample, seen_columns={**sample.seen_columns, **added})
    return replace(profile, sample=wider, columns=[*profile.columns, *columns])
