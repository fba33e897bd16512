"""`fullpass init`: chooses the label: the column or condition that the user names, or the most likely column."""

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import numpy as np

from fullpass.base.errors import UsageError, UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import columns_of_file
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_computed
from fullpass.pipeline.authoring.profile.detect_source import FoundSource
from fullpass.pipeline.authoring.profile.evaluate_expression import evaluate_arrays, expression_input
from fullpass.pipeline.authoring.profile.label_candidates import (
    LabelGuess,
    label_section,
    label_values,
    most_likely_label,
)
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.config import ColumnType
from fullpass.preprocessing.expressions.expression import (
    Expression,
    ExpressionError,
    Type,
    check_types,
    parse_expression,
)
from fullpass.preprocessing.features.label import Task

_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.+)", re.DOTALL)
_WHY_COMPUTED = {
    "replace": "the label; it ends in a full stop in some of the files",
    "number": "the label, read from text",
}
_MOST_FILES = 20
"""Files beside the data whose columns are looked at."""
_TO_PREDICT = re.compile(r"test|predict|scor|unlabel|holdout|unseen|new", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True)
class Unlabelled:
    """A file with the same columns as the data, but without some.

    Attributes:
        unknown: The columns that it lacks.
    """

    file: str
    unknown: frozenset[str]


@dataclass(frozen=True, eq=False)
class ChosenLabel:
    """The label.

    Attributes:
        reads: Raw columns that it is computed from, with the type that each is read as.
    """

    column: ColumnProfile
    guess: LabelGuess
    target: Target
    derive: YamlLine | None
    reads: Mapping[str, ColumnType]
    unlabelled: Unlabelled | None = None


def choose_label(profile: SourceProfile, label: str | None, task: Task | None) -> ChosenLabel:
    """Returns the label by its name, its expression, a file that lacks it, or the names and positions of all columns.

    Args:
        label: A column; a condition or formula over columns, with or without a name in front (`tipped = tips > 0`); or
            None for the most likely column.

    Raises:
        UserError: There is no such column, no column is clearly the label, or the column cannot be a label.
    """
    _refuse_column_of_some_files(profile, label)
    beside = _find_unlabelled(profile.found)
    why = ""
    if label is None:
        lacking = [c.name for c in profile.columns if beside is not None and c.name in beside.unknown]
        if beside is not None and len(lacking) == 1:
            label, why = lacking[0], f"{beside.file} lacks this column; --label chooses another"
        else:
            label, why = most_likely_label(profile.columns)
    chosen = _choose(profile, label, task)
    if why:
        chosen = replace(chosen, guess=replace(chosen.guess, why=f"{chosen.guess.why}; {why}"))
    if beside is None or not {chosen.column.name, *chosen.reads} & beside.unknown:
        return chosen
    return replace(chosen, unlabelled=beside)


def _refuse_column_of_some_files(profile: SourceProfile, label: str | None) -> None:
    """Raises UserError if the label is a column, or may be the one column, that only some of the files have."""
    partial = {name: why for name, why in profile.unusable if why.endswith("files only")}
    name = label if label in partial else next(iter(partial)) if label is None and len(partial) == 1 else None
    if name is None:
        return
    holder = next(
        f.path for f in profile.found.files if f.size and name in (columns_of_file(f, profile.found.source) or ())
    )
    which = f"--label {name}: it" if label else f"which column is the label? {name} may be it, but it"
    raise UserError(
        f"{which} {partial[name]}. If the other files are rows to predict, give those that have it, such as "
        f"fullpass init {shlex.quote(holder)} --label {shlex.quote(name)}; else name another with --label."
    )


@rule("file of rows to predict")
def _find_unlabelled(found: FoundSource) -> Unlabelled | None:
    """Returns a file beside the data that lacks one of its columns; None if there is none.

    A file with a name such as test may lack several, up to half of them.
    """
    first = found.files[0]
    path = Path(first.path)
    if is_address(first.path) or not path.is_file() or getattr(found.source, "columns", None):
        return None
    ending = "".join(path.suffixes[-2:] if len(path.suffixes) > 1 else path.suffixes)
    own = {PurePath(file.path) for file in found.files}
    beside = sorted(path.parent.glob(f"*{ending}"))
    others = [other for other in beside if other not in own][:_MOST_FILES]
    columns = columns_of_file(first, found.source) or []
    held = {other: _columns(other, found) for other in others}
    for other in sorted(others, key=lambda o: not _TO_PREDICT.search(o.name)):
        lacking = frozenset(columns) - held[other]
        is_by_name = _TO_PREDICT.search(f"{other.parent.name}/{other.name}") is not None
        most = len(columns) // 2 if is_by_name else 1
        if held[other] < set(columns) and len(held[other]) > 1 and 0 < len(lacking) <= most:
            return Unlabelled(other.name, lacking)
    return None


def _columns(file: Path, found: FoundSource) -> frozenset[str]:
    try:
        return frozenset(columns_of_file(SourceFile(str(file), None, file.stat().st_size, ""), found.source) or ())
    except UserError:
        return frozenset()


def _choose(profile: SourceProfile, label: str, task: Task | None) -> ChosenLabel:
    column = profile.column(label)
    if column is None:
        return _computed(profile, label, task)
    names = [c.name for c in profile.columns]
    if column.kind == "written_number":
        return _of_expression(profile, f"{column.name}_number", number_expression(column), task)
    if (same := _same_in_all_splits(profile, column)) is not None:
        return _of_expression(profile, unique("label", names), same, task)
    guess = label_section(column, task)
    return ChosenLabel(column, guess, label_values(column, guess), None, {})


@rule("full stops behind labels")
def _same_in_all_splits(profile: SourceProfile, column: ColumnProfile) -> str | None:
    """Returns the expression that makes labels of given splits equal, if they differ by a full stop in every row."""
    values = column.values
    if column.kind not in ("category", "boolean") or "train" not in profile.sample.splits:
        return None
    texts = {
        s: {values.texts[c] for c in set(values.codes[rows]) if c >= 0} for s, rows in profile.sample.splits.items()
    }
    train = texts.pop("train")
    for split, others in texts.items():
        if others and train and not others & train:
            if {text.rstrip(".") for text in others} != {text.rstrip(".") for text in train}:
                raise UserError(
                    f"label {column.name!r}: no value of {split} ({', '.join(sorted(others)[:4])}) is one of train "
                    f"({', '.join(sorted(train)[:4])}). Use the same values in both, or give other files."
                )
            return f'replace({quoted(column.name)}, ".", "")'
    return None


def named_columns(label: str | None) -> frozenset[str]:
    """Returns the column names that the user's label may refer to; a line that holds one of them is a header."""
    if label is None:
        return frozenset()
    named = _NAMED.fullmatch(label)
    try:
        return frozenset({label, *parse_expression(named.group(2).strip() if named else label).columns})
    except ExpressionError:
        return frozenset({label})


def number_expression(column: ColumnProfile) -> str:
    """Returns the expression that reads a number from text, such as "$1,250"."""
    like = column.like or ("1234,5" if column.values.decimal == "," else None)
    if like is None:
        return f"number({quoted(column.name)})"
    quote = "'" if '"' in like and "'" not in like else '"'
    written = like.replace('"', r"\"") if quote == '"' else like
    return f"number({quoted(column.name)}, {quote}{written}{quote})"


def quoted(name: str) -> str:
    """Returns a column name as written in an expression.

    Raises:
        UserError: The name contains a backtick or a line break, which no expression can quote.
    """
    if _PLAIN_NAME.fullmatch(name):
        try:
            if parse_expression(name).columns == {name}:
                return name
        except ExpressionError:
            pass
    if "`" in name or not name.isprintable():
        raise UserError(f"column {name!r} cannot be written in an expression; rename it.")
    return f"`{name}`"


def evaluated(expression: Expression, profile: SourceProfile, types: Mapping[str, Type]) -> np.ndarray:
    """Returns a derived column of the sample, [rows]."""
    cells = {c.name: expression_input(c.values, types[c.name]) for c in profile.columns if c.name in expression.columns}
    return evaluate_arrays(expression, cells, profile.sample.rows)


def _computed(profile: SourceProfile, text: str, task: Task | None) -> ChosenLabel:
    names = [column.name for column in profile.columns]
    named = _NAMED.fullmatch(text)
    name, formula = (named.group(1), named.group(2).strip()) if named else (unique("label", names), text)
    hint = did_you_mean(text, names)
    if not hint and "columns" in profile.found.settings and "columns" not in profile.found.given:
        why = profile.found.why["columns"]
        hint = f" {why[0].upper()}{why[1:]}. Name them by --source 'columns=[a, b, ...]'."
    unknown = UsageError(f"--label {text}: no such column.{hint} Columns: {', '.join(names)}.")
    try:
        expression = parse_expression(formula)
    except ExpressionError as error:
        raise (UsageError(f"--label: {error}") if re.search(r"[<>=+*/()]", text) else unknown) from error
    if expression.columns == {formula} or not expression.columns:
        raise unknown
    if name in names:
        raise UsageError(f"--label: {name} is a column already. Give the computed label another name.")
    return _of_expression(profile, name, formula, task)


def _of_expression(profile: SourceProfile, name: str, formula: str, task: Task | None) -> ChosenLabel:
    expression = parse_expression(formula)
    # As in expressions: a raw column is a number if every value is one, else a string.
    types: dict[str, Type] = {
        c.name: "number" if c.values.present and c.values.number_share == 1 else "string"
        for c in profile.columns
        if c.values.rows
    }
    check_types(expression, types)
    column = profile_computed(name, evaluated(expression, profile, types))
    guess = label_section(column, task)
    reads: dict[str, ColumnType] = {n: "string" if types[n] == "string" else "number" for n in expression.columns}
    line = YamlLine(name, formula, _WHY_COMPUTED.get(formula.split("(")[0], "the label; serving does not need it"))
    return ChosenLabel(column, guess, label_values(column, guess), line, reads)


def unique(name: str, taken: Sequence[str]) -> str:
    """Returns a name that is not taken: the name itself, or the name with a number appended."""
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in taken)
