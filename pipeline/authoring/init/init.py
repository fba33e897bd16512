"""`fullpass init`: writes a pipeline file from data, with a reason for every line.

The file holds only entries that a run accepts: an entry that check refuses becomes a comment.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np

from fullpass.base.errors import UsageError, UserError
from fullpass.components.ingest.joins.config import is_joined
from fullpass.components.ingest.sources.config import ImagesSource
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.checks.data_rules import unread_derived
from fullpass.pipeline.authoring.data_check.data_check import check_sample
from fullpass.pipeline.authoring.defaults import SAMPLE_ROWS, SEARCH_SECONDS
from fullpass.pipeline.authoring.init.combine_columns import combine_columns, propose_sequences
from fullpass.pipeline.authoring.init.propose_features import weighted_pairs, with_fast_encoder
from fullpass.pipeline.authoring.init.propose_forecast import propose_forecast
from fullpass.pipeline.authoring.init.propose_joins import propose_joins, with_column
from fullpass.pipeline.authoring.init.propose_label import ChosenLabel, choose_label, named_columns
from fullpass.pipeline.authoring.init.propose_model import propose_evaluation, propose_model
from fullpass.pipeline.authoring.init.propose_split import other_splits, split_line
from fullpass.pipeline.authoring.init.search.search import search
from fullpass.pipeline.authoring.init.select_columns import SelectedColumns, select_columns
from fullpass.pipeline.authoring.init.yaml_text import Draft, YamlLine, yaml_of
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys, Problem, format_path
from fullpass.pipeline.authoring.profile.column_profile import counted, shown
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile, profile_source
from fullpass.preprocessing.features.label import Task

_BUDGET = 0.001
"""Share of bad rows that a run accepts by default."""
_MOST_BAD_ROWS = 0.01
"""Share of bad rows above which the user must decide."""
_LONGEST_PATH = 42
"""Characters of a path in the first line of the file."""
_LONGEST_NAME = 63
"""Characters of a name: Kubernetes takes no more."""
_NAME = re.compile(r"^name: *(\S+)", re.MULTILINE)
Existing = Literal["refuse", "keep", "replace"]


@dataclass(frozen=True)
class WrittenFile:
    """A pipeline file that `init` wrote.

    Attributes:
        summary: The lines to print for the user.
        profile: The data as it was looked at.
        whys: Feature, or column that none reads -> the reason that stands beside it.
        problems: What `check --data` finds.
    """

    file: str
    text: str
    summary: tuple[str, ...]
    profile: SourceProfile
    whys: Mapping[str, str]
    problems: tuple[Problem, ...]


def init(
    data: str,
    *,
    output: str,
    label: str | None = None,
    task: Task | None = None,
    rows: int = SAMPLE_ROWS,
    bad_rows: float | None = None,
    tables: str | None = None,
    source: Mapping[str, Any] | None = None,
    existing: Existing = "refuse",
    search_seconds: float = SEARCH_SECONDS,
    say: Callable[[str], object] = len,
) -> WrittenFile:
    """Profiles data and writes a pipeline file that passes `load` and `checks.require`.

    Args:
        data: A file, folder, pattern or package:NAME/PATH.
        output: The file to write.
        label: A column, or a condition or formula over columns; None takes the most likely label column.
        task: The task; None infers it from the label's values.
        bad_rows: Share of rows that may be unreadable, to be written as `data.bad_rows`; None accepts 1 %.
        tables: Folder of tables to join with, where a key matches.
        source: Keys of `data.source` that are written as given; the others are guessed to fit them.
        existing: What to do if the file exists: refuse at once, replace it, or keep it if it has the same content.
        search_seconds: About how many processor seconds representations are tried for; 0 tries none.
        say: Takes the line that announces this.

    Raises:
        UserError: The data cannot be read or learned from, too many rows are unreadable, no column is clearly the
            label, or the file already exists.
    """
    file = Path(output)
    if existing == "refuse" and file.exists():
        raise UsageError(f"{output} already exists. Name another file with -o, or remove it.")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{output}: there is no folder {file.parent}. Create it first.")
    profile = profile_source(data, file.absolute().parent, rows=rows, known=named_columns(label), given=source)
    _refuse_bad_rows(data, profile, bad_rows)
    chosen = choose_label(profile, label, task)
    of_label = {chosen.column.name, *chosen.reads, *named_columns(label)}
    joins = propose_joins(profile, tables, of_label, file.absolute().parent, rows=rows)
    own, profile = profile, joins.profile
    selection = select_columns(profile, chosen)
    joined = {line.name for line in joins.lines}
    read = {name for c in selection.features if (name := c.column.name.partition(".")[0]) in joined}
    sequences = propose_sequences(profile.sample, selection)
    taken = [*(c.name for c in profile.columns), chosen.column.name]
    of_rows = replace(selection, features=[c for c in selection.features if not is_joined(c.column.name, joined)])
    derived, combined = combine_columns(own, of_rows, chosen.target, taken)
    features = [*_features(chosen.guess.task, selection, profile.sample.total or profile.sample.seen), *combined]
    lines = _with_unique_names([with_column(line, joined) for line in features])
    found = search(
        own,
        chosen,
        [candidate.column for candidate in selection.features],
        lines,
        seconds=search_seconds,
        taken=[*taken, *(made for line in lines for made in _made_of(line.name, line.value))],
        say=say,
    )
    taken += [line.name for line in (*lines, *found.features)]
    forecast = propose_forecast(own, chosen, seconds=search_seconds, taken=taken)
    name = _pipeline_name(data, file)
    draft = Draft(
        name=name,
        head=_head(data, file, profile),
        source=[YamlLine(key, value, profile.found.why.get(key, "")) for key, value in profile.found.settings.items()],
        derive=[*([chosen.derive] if chosen.derive else []), *derived],
        data=_data_lines(own, chosen, of_rows, bad_rows),
        splits=[
            *other_splits(own, has_epoch=any(c.has_trend for c in selection.features)),
            *(forecast.history if forecast else ()),
        ],
        label=_label_line(chosen, found.features),
        forecast=forecast.label if forecast else None,
        of_forecast=forecast.features if forecast else (),
        unread=forecast.derive if forecast else (),
        features=[*(found.replaced.get(line.name, line) for line in lines), *found.features],
        left_out=[*(with_column(line, joined) for line in selection.left_out), *joins.left_out],
        sequences=sequences,
        rest=[
            *propose_model(profile, chosen, selection, sequences, found.loss),
            propose_evaluation(profile, chosen, selection),
            YamlLine("push", {"to": f"serving/{name}"}, "models of this pipeline alone, which a model server watches"),
        ],
        joins=[line for line in joins.lines if line.name in read],
    )
    draft, problems = write_checked(file, draft, profile.sample, existing)
    summary = _summary(output, profile, chosen, selection, draft, problems, found.told)
    lines = [*draft.left_out, *draft.features, *draft.sequences, *draft.derive, draft.label]
    whys = {line.name: line.why for line in lines}
    return WrittenFile(output, yaml_of(draft), tuple(summary), profile, whys, problems)


def _refuse_bad_rows(data: str, profile: SourceProfile, allowed: float | None) -> None:
    """Raises UserError if more rows than allowed cannot be read: dropping them is the user's decision."""
    sample, share = profile.sample, profile.sample.bad_share
    if share <= (_MOST_BAD_ROWS if allowed is None else allowed):
        return
    total = sample.seen + sample.malformed
    examples = [f"  {row.file}, row {row.row}: {row.reason}: {shown(row.text, 60)}" for row in sample.bad[:3]]
    enough = min(1.0, float(np.ceil(share * 110) / 100))
    raise UserError(
        f"{data}: {sample.malformed:,} of {total:,} rows ({share:.1%}) cannot be read as "
        f"{profile.found.source.format}; nothing is written. Examples:\n"
        + "\n".join(examples)
        + f"\nFix the file. If a run may leave such rows out, give --bad-rows {enough:g}: that writes data.bad_rows: "
        f"{{max_fraction: {enough:g}}}."
    )


def _label_line(chosen: ChosenLabel, searched: Sequence[YamlLine]) -> YamlLine:
    """Returns the label, with its classes if a target encoding has a column for each."""
    line = YamlLine("label", dict(chosen.guess.settings), chosen.guess.why)
    encoded = any(isinstance(one.value, dict) and one.value["type"] == "target" for one in searched)
    if chosen.guess.task != "multiclass" or not encoded:
        return line
    return replace(line, value={**line.value, "classes": sorted(chosen.target.texts)})


def _features(task: Task, selection: SelectedColumns, rows: int) -> list[YamlLine]:
    lines = []
    for one in selection.features:
        for line in one.lines:
            if one.column.kind == "text" and task == "multiclass":
                line = weighted_pairs(line)
            if one.column.kind == "image" and one.column.image is not None:
                line = with_fast_encoder(line, rows)
            why = f"{line.why}; CHECK: {one.doubt}; is it known at serving time?" if one.doubt else line.why
            lines.append(replace(line, why=why))
    return lines


def _head(data: str, file: Path, profile: SourceProfile) -> list[str]:
    sample = profile.sample
    which = f"{sample.rows:,} of {sample.of_rows} rows"
    which = f"all {sample.rows:,} rows" if sample.has_every_row else which
    name = data if len(data) <= _LONGEST_PATH else f".../{PurePath(data).name}"
    return [
        f"Written by `fullpass init` from {shown(name, _LONGEST_PATH)}: by {which}; each line has its reason.",
        f"Next: `fullpass check {file.name} --data`, then `fullpass run {file.name}`. All of it is yours to change:",
        "remove the # of a line to use it; ## marks remarks.",
    ]


def _pipeline_name(data: str, file: Path) -> str:
    """Returns a name by the data that no other pipeline file beside has: root and served folder are named by it."""
    others = (other for other in file.absolute().parent.glob("*.y*ml") if other != file.absolute())
    taken = {found[1] for other in others if (found := _NAME.search(other.read_text("utf-8", "replace")))}
    stem = PurePath(data.rstrip("/*")).name.split(".")[0] or file.stem
    names = chain([stem, f"{stem}-{file.stem}"], (f"{stem}-{number}" for number in count(2)))
    return next(name for name in map(_slug, names) if name not in taken)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[-_LONGEST_NAME:].strip("-") or "pipeline"


def _data_lines(
    profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns, bad_rows: float | None
) -> list[YamlLine]:
    names = [*(c.column.name for c in selection.features), chosen.column.name, *chosen.reads, *selection.types]
    lines = []
    if selection.types:
        lines.append(YamlLine("types", dict(selection.types), "read only by expressions, which need the type"))
    if not profile.found.source.given_splits:
        of_label = {chosen.column.name, *chosen.reads} - {c.column.name for c in selection.features}
        lines.append(split_line(profile, names, of_label))
    share = profile.sample.bad_share
    if share > _BUDGET / 2:
        limit = float(np.ceil(share * 200) / 100) if bad_rows is None else bad_rows
        why = f"{share:.2%} of rows cannot be read; the run would stop at 0.10%"
        lines.append(YamlLine("bad_rows", {"max_fraction": limit}, why))
    return lines


def _with_unique_names(features: Sequence[YamlLine]) -> list[YamlLine]:
    """Returns features renamed to avoid collisions with parts: `at.hour` is also the hour of the date `at`."""
    taken: set[str] = set()
    lines = []
    for line in features:
        name, value = line.name, line.value
        while _made_of(name, value) & taken:
            reads = "column" not in value and value["type"] != "duration" if isinstance(value, dict) else True
            if reads:
                value = {**(value if isinstance(value, dict) else {"type": value}), "column": line.name}
            name += "_"
        taken |= _made_of(name, value)
        lines.append(YamlLine(name, value, line.why))
    return lines


def _made_of(name: str, value: Any) -> set[str]:
    parts = value.get("parts", ()) if isinstance(value, dict) else ()
    missing = [f"{name}.missing"] if isinstance(value, dict) and value.get("indicator") else []
    return {*(f"{name}.{part}" for part in parts), *missing} | (set() if parts else {name})


def _summary(
    output: str,
    profile: SourceProfile,
    chosen: ChosenLabel,
    selection: SelectedColumns,
    draft: Draft,
    problems: Sequence[Problem],
    told: Sequence[str],
) -> list[str]:
    counts = counted(len(draft.features), "feature")
    if draft.sequences:
        counts += f", {counted(len(draft.sequences), 'sequence')}"
    lines = [
        f"{output}: {counts}, from {profile.sample.rows:,} rows looked at",
        f"label: {chosen.column.name} ({chosen.guess.task}; {chosen.guess.why})",
    ]
    if draft.forecast is not None:
        ahead = draft.forecast.value["forecast"]["ahead"]
        lines.append(f"series: to forecast {chosen.column.name} {ahead} ahead, see the second line `label` of the file")
    if profile.sample.malformed:
        lines.append(f"bad rows: {profile.sample.bad_share:.2%} of rows cannot be read; a run sets them aside")
    if "missing_in" in profile.found.settings:
        lines.append(f"missing: {profile.found.why['missing_in']}")
    lines += [f"left out: {line.name} ({line.why})" for line in draft.left_out]
    lines += [f"check: {c.column.name}: {c.doubt}; is it known at serving time?" for c in selection.features if c.doubt]
    lines += [f"tried, does not pay: {'; '.join(told)}"] if told else []
    lines += [f"a run would stop: {p.path}: {p.message}" for p in problems if p.severity == "error"]
    lines += [f"check: {p.path}: {p.message}" for p in problems if "beyond chance" in p.message]
    return [*lines, f"Next: fullpass check {output} --data"]


def write_checked(file: Path, draft: Draft, sample: Sample, existing: Existing) -> tuple[Draft, tuple[Problem, ...]]:
    """Writes the file by the rules of `check` and `check --data`; an error in a feature or slice removes it.

    Returns:
        The draft as written, and the warnings of the data, and its errors that no removal mends.

    Raises:
        UserError: A run would refuse the file for another reason, or the file exists with another content; nothing is
            written.
    """
    pending = file.absolute().with_name(f".{file.name}-{os.getpid()}.yaml")
    try:
        while True:
            pending.write_text(yaml_of(draft), encoding="utf-8")
            refused = False
            try:
                loaded = load(pending)
                require(loaded)
                if unread := unread_derived(loaded):
                    draft = _with_unread(draft, unread)
                    continue
                images = isinstance(loaded.config.data.source, ImagesSource)
                problems = () if images else check_sample(loaded, sample, leaks=False)  # `select_columns` judged them
            except ConfigError as error:
                problems, refused = error.problems, True
            errors = [p for p in problems if p.severity == "error"]
            mended = next((found for error in errors if (found := _without(draft, error)) is not None), None)
            if mended is None and refused:
                told = "\n".join(f"  {p.path}: {p.message}" for p in errors)
                raise UserError(f"{file}: not written, because a run would refuse it:\n{told}")
            if mended is None and existing == "keep" and file.exists():
                if file.read_bytes() == pending.read_bytes():
                    return draft, problems
                raise UserError(
                    f"{file} exists, and is not what init writes now: it was changed by hand, or the data or the "
                    "arguments have changed. Load it as it is (fullpass.load), name another file with output=, or "
                    "replace it with overwrite=True."
                )
            if mended is None:
                pending.replace(file)
                return draft, problems
            draft = mended
    finally:
        pending.unlink(missing_ok=True)


def _with_unread(draft: Draft, names: Collection[str]) -> Draft:
    """Returns the draft with derived columns that only left out features read as comments."""
    unread = [line for line in draft.derive if line.name in names]
    return replace(draft, derive=[line for line in draft.derive if line not in unread], unread=[*draft.unread, *unread])


def _without(draft: Draft, error: Problem) -> Draft | None:
    """Returns the draft without the entry that an error is about; None if it is about no entry that can be removed."""
    feature = next((line for line in draft.features if _is_at(error.path, ("features", line.name))), None)
    join = next((line for line in draft.joins if _is_at(error.path, ("data", "joins", line.name))), None)
    sequence = next((line for line in draft.sequences if _is_at(error.path, ("sequences", line.name))), None)
    why = f"a run would refuse it: {error.message}"
    if feature is not None and len(draft.features) > 1:
        left_out = [*draft.left_out, replace(feature, why=why)]
        return replace(draft, features=_others(draft.features, feature), left_out=left_out)
    if join is not None:
        return replace(draft, joins=_others(draft.joins, join))
    if sequence is not None:
        left_out = [*draft.left_out, YamlLine(sequence.name, None, why)]
        return replace(draft, sequences=_others(draft.sequences, sequence), left_out=left_out)
    for line in draft.rest:
        slices = line.value.get("slices", []) if line.name == "evaluation" else []
        kept = [s for i, s in enumerate(slices) if not _is_at(error.path, ("evaluation", "slices", i))]
        if len(kept) < len(slices):
            value = {key: kept if key == "slices" else entry for key, entry in line.value.items()}
            evaluation = replace(line, value={key: entry for key, entry in value.items() if entry != []})
            return replace(draft, rest=[evaluation if other is line else other for other in draft.rest])
    return None


def _others(lines: Sequence[YamlLine], removed: YamlLine) -> list[YamlLine]:
    return [line for line in lines if line is not removed]


def _is_at(path: str, keys: Keys) -> bool:
    above = format_path(keys)
    return path == above or path.startswith((f"{above}.", f"{above}["))
