"""The page of the data before training: each column with its picture, reading and doubts, splits and sources compared.

It shows what `init`, `check --data` and the data gate compute, and computes nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from markupsafe import Markup

from fullpass.base.errors import UserError
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.data_gate.page import Gate, Moved, gate_section
from fullpass.components.ingest.splitting.assign import columns_of_split
from fullpass.components.pages.notebook_html import ShownPage
from fullpass.components.pages.render import render_page
from fullpass.components.pages.vega import small_chart
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.data_check.data_check import DataReport
from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, sampled_data
from fullpass.pipeline.authoring.data_page.against import other_data
from fullpass.pipeline.authoring.data_page.cells import Cells, reading_of
from fullpass.pipeline.authoring.data_page.pictures import line_of_label, picture
from fullpass.pipeline.authoring.data_page.sides import Side, compare_sides
from fullpass.pipeline.authoring.init.init import WrittenFile
from fullpass.pipeline.authoring.init.yaml_text import flow
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import Problem, format_path
from fullpass.pipeline.authoring.profile.column_profile import (
    ColumnProfile,
    hardly_repeats,
    profile_column,
    profile_list_column,
    shown,
)
from fullpass.pipeline.authoring.profile.leaks import indicators_of_label, strongest_aspect
from fullpass.pipeline.authoring.profile.number_profile import profile_numbers
from fullpass.pipeline.authoring.profile.strength import Strength, Target
from fullpass.preprocessing.columns.raw_columns import columns_behind, serving_columns
from fullpass.preprocessing.features.feature import Feature
from fullpass.preprocessing.values.list_values import is_list

_EXAMPLES = 3
"""Values that the line of a text or an id names."""
_ALL = "all rows"
_TELLS = {
    "binary": "AUC",
    "multiclass": "share of the errors of the commonest class that it corrects",
    "regression": "R² of ranks",
}
"""Task -> the measure of `Strength`."""


@dataclass(frozen=True)
class ShownColumn:
    """A column of the page.

    Attributes:
        kind, why: What its values look like, and why.
        values: Its values in a few words.
        missing: Share of the rows without a value, of each source.
        distinct: Number of different values; None for lists and images.
        tells: How well it predicts the label alone, 0 to 1; None if that is not measured.
        doubt: Why it may hold the label; empty if there is no doubt.
        readers: What reads it: an entry of the YAML, and its reason if that is known.
        differs: The largest difference between the sides beyond chance, as a multiple of its limit; None if it is not
            compared.
        spec: Its picture as a Vega-Lite specification; None without one.
    """

    name: str
    kind: str
    why: str
    values: str
    missing: tuple[float, ...]
    distinct: int | None
    tells: float | None = None
    doubt: str = ""
    readers: tuple[tuple[str, str], ...] = ()
    differs: float | None = None
    is_label: bool = False
    spec: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def chart(self) -> Markup:
        """The picture; empty without one."""
        return Markup("") if self.spec is None else small_chart(self.spec, label=f"distribution of {self.name}")


@dataclass(frozen=True)
class DataPage(ShownPage):
    """The data of a pipeline before training, or compared with other data.

    Attributes:
        source: What was looked at, for people.
        sides: Name -> rows that were looked at: of each split, or of each source.
        problems: What `check --data` finds.
        columns: The label, then the others in the order of the data; of two sources, the largest difference first.
        verdicts: What differs between train and each other split, or between the sources.
        line: What the line over the bars is; empty without one.
        against: The other source; empty if splits are compared.
    """

    name: str
    source: str
    sides: Mapping[str, int]
    problems: tuple[Problem, ...]
    columns: tuple[ShownColumn, ...]
    verdicts: tuple[GateVerdict, ...]
    task: str
    line: str = ""
    against: str = ""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name}: {self.source}{f', against {self.against}' if self.against else ''}"

    @property
    def differences(self) -> list[str]:
        """What differs beyond its limit, one line each, the most serious first."""
        found = [f"differs: {finding.text}" for verdict in self.verdicts for finding in verdict.findings]
        return found or ([f"against {self.against}: no column differs beyond its limit."] if self.against else [])

    @property
    def page(self) -> str:
        gates = [gate_section(verdict) for verdict in self.verdicts if verdict.findings or self.against]
        gates = [replace(gate, moved=() if self.against else self._drifted(gate)) for gate in gates]
        return render_page("data.html", data=self, gates=gates, tells=_TELLS.get(self.task, ""))

    def _drifted(self, gate: Gate) -> tuple[Moved, ...]:
        """Returns the charts of the columns that findings name; of two sources, the table has all."""
        named = {finding.subject for finding in gate.verdict.findings}
        return tuple(moved for moved in gate.moved if moved.series in named)

    def record(self) -> dict[str, Any]:
        fields = {name: value for name, value in asdict(self).items() if name != "verdicts"}
        return {**fields, "verdicts": [verdict.to_json() for verdict in self.verdicts]}


def data_page(
    report: DataReport,
    against: tuple[str, SampledData] | None = None,
    *,
    profiles: Mapping[str, ColumnProfile] | None = None,
    whys: Mapping[str, str] | None = None,
) -> DataPage:
    """Returns the page of a checked sample.

    Args:
        report: From `check_data` with `every_column`.
        against: Name and rows of other data, which the same file reads.
        profiles: Column -> its profile, if it is known already.
        whys: Feature or column -> why it is read as it is, if that is known.

    Raises:
        UserError: No row was looked at.
    """
    sampled = report.sampled
    if sampled is None:
        raise UserError("\n".join(problem.located(problem.path) for problem in report.problems))
    config, label = sampled.config, sampled.config.label
    target = None if label.forecast is not None else sampled.target
    known = _profiles(sampled, profiles or {})
    features = _features(sampled, known)
    readings = {name: reading_of(known[name], feature) for name, feature in features.items()}
    here = {name: how.cells(sampled.values[name]) for name, how in readings.items() if how and name in sampled.values}
    notes: list[str] = []
    if against is None:
        sides, rows, verdicts = _splits_compared(sampled, here)
    else:
        name, other = against
        there = {
            n: how.cells(other.values[n]) for n, how in readings.items() if how and n in here and n in other.values
        }
        sides, rows = {"this data": here, name: there}, {"this data": sampled.sample.rows, name: other.sample.rows}
        verdicts = [compare_sides(("this data", here), (name, there), config.gates, label=label.name)]
        notes += _columns_of_one(known, other, name)
    over, strengths = _over(verdicts, label.name), _strengths(sampled, known, features, target)
    columns = []
    for name, column in known.items():
        tells, doubt = strengths.get(name, (None, ""))
        shown_column = _column(sampled, column, sides, target, whys or {})
        columns.append(replace(shown_column, tells=tells, doubt=doubt, differs=over.get(name)))
    columns.sort(key=lambda c: -(c.differs or 0.0) if against else not c.is_label)
    return DataPage(
        name=config.name,
        source=f"{sampled.sample.rows:,} of {sampled.sample.of_rows} rows",
        sides=rows,
        problems=report.problems,
        columns=tuple(columns),
        verdicts=tuple(verdicts),
        task=label.task,
        line=line_of_label(target) if target is not None and against is None else "",
        against=against[0] if against else "",
        notes=tuple(notes),
    )


def _splits_compared(sampled: SampledData, here: Side) -> tuple[dict[str, Side], dict[str, int], list[GateVerdict]]:
    """Returns the only side whose columns are shown, the rows of each split, and what differs from train in each."""
    splits = _splits(sampled, here)
    others = [(name, side) for name, side in splits.items() if name != "train"]
    verdicts = [
        compare_sides(
            ("train", splits["train"]),
            other,
            sampled.config.gates,
            label=sampled.config.label.name,
            ignored=("new_columns", "dropped_columns"),  # of a few rows a small split has none
            looks=len(others),
        )
        for other in (others if "train" in splits else ())
    ]
    rows = {name: max((c.values.rows for c in side.values()), default=0) for name, side in splits.items()}
    return {_ALL: here}, rows, verdicts


def page_of_init(written: WrittenFile) -> DataPage:
    """Returns the page of the data that `init` looked at, with its reasons."""
    sampled = sampled_data(load(written.file), written.profile.sample)
    profiles = {column.name: column for column in written.profile.columns}
    return data_page(DataReport(written.problems, sampled), profiles=profiles, whys=written.whys)


def page_of_report(report: DataReport, against: str | None, *, rows: int, name: str | None = None) -> DataPage:
    """Returns the page of the checked data of a file.

    Args:
        report: As in `data_page`.
        against: As in `other_data`; None compares the splits.
        name: What the other data is called; None: by the end of `against`.

    Raises:
        UserError: No row was looked at, or there is no such other data.
    """
    if against is None or report.sampled is None:
        return data_page(report)
    return data_page(report, (name or PurePath(against).name, other_data(report.sampled.loaded, against, rows=rows)))


def _profiles(sampled: SampledData, known: Mapping[str, ColumnProfile]) -> dict[str, ColumnProfile]:
    """Returns the profile of each column of the data, and of each derived one."""
    sample = sampled.sample
    names = dict.fromkeys((*sample.seen_columns, *sample.images, *sample.unreadable, *sampled.values))
    return {name: known.get(name) or _profile(sampled, name) for name in names}


def _profile(sampled: SampledData, name: str) -> ColumnProfile:
    sample = sampled.sample
    if name in sample.images:
        return ColumnProfile(name, "image", "encoded images")
    if name in sampled.values:
        return profile_column(name, sampled.values[name])
    if name in sample.columns and is_list(sample.columns[name].type):
        return profile_list_column(name, sample.columns[name])
    return ColumnProfile(name, "unreadable", f"{sample.unreadable.get(name, 'a type')}, which no feature reads")


def _features(sampled: SampledData, known: Mapping[str, ColumnProfile]) -> dict[str, Feature | None]:
    """Returns the first feature that reads each column."""
    first: dict[str, Feature | None] = {}
    for _, feature, column, _ in sampled.features():
        first.setdefault(column, feature)
    return {name: first.get(name) for name in known}


def _splits(sampled: SampledData, here: Side) -> dict[str, Side]:
    """Returns the cells of each split without the columns that part them; none if these are not in the sample."""
    indices = sampled.split_indices
    if indices is None:
        return {}
    of = {name: indices == index for index, name in enumerate(sampled.config.data.split_names)}
    here = {name: cells for name, cells in here.items() if name not in columns_of_split(sampled.config.data.split)}
    return {split: {name: cells.of(rows) for name, cells in here.items()} for split, rows in of.items() if rows.any()}


def _columns_of_one(known: Mapping[str, ColumnProfile], other: SampledData, name: str) -> Iterator[str]:
    held = {*other.sample.seen_columns, *other.sample.images, *other.sample.unreadable, *other.values}
    if only := [column for column in known if column not in held]:
        yield f"Only this data has: {', '.join(only)}."
    if only := sorted(held - known.keys()):
        yield f"Only {name} has: {', '.join(only)}."


def _over(verdicts: Sequence[GateVerdict], label: str) -> dict[str, float]:
    """Returns the largest difference of each column, as a multiple of its limit."""
    found: dict[str, float] = {}
    for verdict in verdicts:
        pairs = [(one.series, one.over) for one in verdict.compared]
        pairs += [(finding.subject, finding.over) for finding in verdict.findings]
        for series, over in pairs:
            name = label if series == f"label {label}" else series
            found[name] = max(found.get(name, 0.0), over)
    return found


def _column(
    sampled: SampledData,
    column: ColumnProfile,
    sides: Mapping[str, Side],
    target: Target | None,
    whys: Mapping[str, str],
) -> ShownColumn:
    name, label = column.name, sampled.config.label.name
    values = sampled.values.get(name)
    shown_sides = {side: cells[name] for side, cells in sides.items() if name in cells}
    if not shown_sides and column.elements is not None and (how := reading_of(column.elements)):
        shown_sides = {"elements": how.cells(column.elements.values)}
    is_own = name == label or len(sides) > 1 or "elements" in shown_sides
    hides = not shown_sides or (values is not None and column.kind in ("id", "category") and hardly_repeats(values))
    missing = values.missing_share if values is not None else _missing_lists(sampled, name)
    return ShownColumn(
        name=name,
        kind=column.kind.replace("_", " "),
        why=column.why,
        values=_words(column, shown_sides.get(next(iter(sides)))),
        missing=(missing, *(cells.values.missing_share for cells in list(shown_sides.values())[1:])),
        distinct=values.distinct if values is not None else None,
        readers=tuple(_readers(sampled, name, whys)) or (("not read", whys.get(name, "")),),
        is_label=name == label,
        spec=None if hides else picture(shown_sides, None if is_own else target),
    )


def _missing_lists(sampled: SampledData, name: str) -> float:
    array = sampled.sample.columns.get(name)
    return array.null_count / len(array) if array is not None and len(array) else 0.0


def _readers(sampled: SampledData, column: str, whys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the entries of the YAML that read a column, each with its reason."""
    tree = sampled.loaded.tree.data
    for keys in dict.fromkeys(keys for keys, read in columns_read(sampled.loaded) if read == column):
        if keys[0] == "features" or keys[:2] == ("data", "derive"):
            entry: Any = tree
            for key in keys:
                entry = entry[key]
            yield f"{keys[-1]}: {flow(entry)}", whys.get(str(keys[-1]), "")
        else:
            yield format_path(keys), whys.get("label", "") if keys == ("label", "name") else ""


def _words(column: ColumnProfile, cells: Cells | None) -> str:
    """Returns the values of a column in a few words."""
    values = column.values
    examples = ", ".join(shown(text, 40) for text in values.texts[:_EXAMPLES])
    if cells is None or cells.reading.what == "token":
        return examples if column.kind in ("id", "image_path", "text") else ""
    numbers = profile_numbers(cells.values.per_row(cells.numbers)) if cells.numbers is not None else None
    if numbers is None:
        return ""
    if cells.reading.what == "date":
        first, last = (np.datetime64(int(moment), "s") for moment in (numbers.low, numbers.high))
        return f"{first} to {last}".replace("T00:00:00", "").replace("T", " ")
    told = f"{numbers.low:.6g} to {numbers.high:.6g}, median {numbers.median:.6g}"
    return f"{told} characters, such as {shown(values.texts[0], 60)}" if cells.reading.what == "length" else told


def _strengths(
    sampled: SampledData,
    known: Mapping[str, ColumnProfile],
    features: Mapping[str, Feature | None],
    target: Target | None,
) -> dict[str, tuple[float | None, str]]:
    """Returns how well each column tells the label alone, and why it may hold it; empty without a label."""
    if target is None:
        return {}
    others = {name: sampled.values[name] for name in known if name in sampled.values and name != target.name}
    preprocessing = sampled.config.preprocessing_config
    # The formula of the label reads these columns, and no feature does, so they leak nothing.
    of_label = columns_behind([target.name], preprocessing).keys() - serving_columns(preprocessing).keys()
    indicators = indicators_of_label({n: values for n, values in others.items() if n not in of_label}, target)
    found = {}
    for name in others:
        strength = sampled.strengths[name] if features[name] else strongest_aspect(known[name], target)
        doubt = indicators[name].why if name in indicators else "" if name in of_label else _doubt(strength)
        found[name] = (None if strength is None else strength.value, doubt)
    return found


def _doubt(strength: Strength | None) -> str:
    if strength is None or not strength.is_suspect:
        return ""
    what = "may hold the label" if strength.is_leak else "a strong predictor"
    return f"{what}: {strength.shown} {strength.by}; is it known at serving time?"
