"""Checks of the section `data:` except its source: splits, derived columns, and whether the columns exist."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from fullpass.base.errors import UserError, absent_column, escaped
from fullpass.components.ingest.config import ColumnSplit, StratifiedSplit, TimeSplit
from fullpass.components.ingest.joins.config import is_joined
from fullpass.components.ingest.sources.config import ServingLogSource
from fullpass.components.ingest.splitting.assign import columns_of_split, raw_split_columns
from fullpass.components.serving_log.columns import ID
from fullpass.pipeline.authoring.checks.source_rules import columns_present
from fullpass.pipeline.authoring.derived_columns import derived_types, known_raw_columns, parsed, raw_types, type_error
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import (
    RAW_ROW_ID,
    RAW_TRAIN_ROW,
    RawColumn,
    feature_columns,
    raw_columns,
    with_source_columns,
)
from fullpass.preprocessing.dates.read_dates import instant
from fullpass.preprocessing.expressions.expression import Expression, ExpressionError, Type
from fullpass.preprocessing.features.history import history_of
from fullpass.preprocessing.token_spelling import as_token

_NAME = re.compile(r"`(?P<quoted>[^`]+)`|(?P<plain>[^\W\d][\w.]*)")
_PATH: Keys = ("data", "source", "path")
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]+")
_USUAL_NAMES = {"validation": "eval", "valid": "eval", "val": "eval", "dev": "eval", "training": "train"}


def check_split_names(loaded: Loaded) -> Iterator[Finding]:
    """A train and an eval split exist, and split names are distinct and valid as folder names."""
    names = loaded.config.data.split_names
    keys = _split_keys(loaded)
    for needed in ("train", "eval"):
        if needed not in names:
            other = next((n for n in names if _USUAL_NAMES.get(n.lower()) == needed), None)
            fix = f"Rename {other} to {needed}." if other else "Add it."
            yield Finding(keys, f"no {needed} split. Received: {', '.join(names)}. {fix}")
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Finding(keys, f"two splits are named {name}. Give `rest` a name of its own.")
        if not _SPLIT_NAME.fullmatch(name):
            yield Finding((*keys, name), "a split's name is made of letters, digits, _ and -.")


def check_split_by_time(loaded: Loaded) -> Iterator[Finding]:
    """The limits of a split by time are valid dates in ascending order."""
    split = loaded.config.data.split
    if not isinstance(split, TimeSplit):
        return
    earlier: int | None = None
    for name, text in split.until.items():
        keys: Keys = ("data", "split", "until", name)
        moment = instant(text, split.format)
        if moment is None:
            yield Finding(keys, f'"{text}" is no date of the format {split.format}.')
        elif earlier is not None and moment <= earlier:
            yield Finding(keys, f'"{text}" is not later than the limit above it. Write the splits in order of time.')
        earlier = moment if moment is not None else earlier


def check_split_by_column(loaded: Loaded) -> Iterator[Finding]:
    """Splits read raw columns, and no value belongs to two splits."""
    split = loaded.config.data.split
    for column in raw_split_columns(split):
        if column in loaded.config.data.derive:
            message = f"{column} is derived, but rows are split before columns are derived. Name a raw column."
            yield Finding(("data", "split", "column"), message)
    if not isinstance(split, ColumnSplit):
        return
    owner: dict[str, str] = {}
    for name, values in split.values.items():
        for value in (values,) if isinstance(values, str) else values:
            token = as_token(value, loaded.config.data.source.raw_text.decimal)
            if token in owner:
                keys: Keys = ("data", "split", "values", name)
                yield Finding(
                    keys, f'"{value}" already belongs to {owner[token]}. A value can belong to one split only.'
                )
            owner[token] = name


def check_whole_numbers(loaded: Loaded) -> Iterator[Finding]:
    """Whole numbers of the YAML that are compared with those of a decimal comma have no decimals."""
    config = loaded.config
    decimal = config.data.source.raw_text.decimal
    label = config.label
    given: dict[Keys, Iterable[str]] = {
        ("label", "positive"): (str(label.positive),),
        ("label", "classes"): label.classes or (),
        ("label", "class_weights"): label.class_weights if isinstance(label.class_weights, dict) else (),
    }
    for name, feature in config.all_features.items():
        vocabulary, path = getattr(feature, "vocabulary", None), config.keys_of(name)
        given[*path, "vocabulary", "tokens"] = getattr(vocabulary, "tokens", None) or ()
        given |= {(*path, words): getattr(feature, words, ()) for words in ("true", "false", "order")}
    for keys, texts in given.items():
        for text in texts:
            if (token := as_token(text, decimal)) not in (text, as_token(text)):
                yield Finding(
                    keys, f'"{text}" is read as {token} from the data, which has a decimal comma. Write "{token}".'
                )


def check_stratified(loaded: Loaded) -> Iterator[Finding]:
    """A stratified split uses a column that holds one class per row."""
    split, label = loaded.config.data.split, loaded.config.label
    if not isinstance(split, StratifiedSplit):
        return
    refused = {
        "regression": "is a number, not one of several classes. Name a column, such as one derived from it: "
        f'derive: {{{label.name}_group: "where({label.name} > 10, 1, 0)"}}.',
        "multilabel": "holds several classes per row, but stratification needs one. Name a column.",
    }
    if split.column is None and label.task in refused:
        yield Finding(("data", "split"), f"stratified uses the label, but {label.name} {refused[label.task]}")
    column = split.column or label.name
    raw = known_raw_columns(loaded.config).get(column)
    if raw is not None and not raw.is_single:
        yield Finding(("data", "split"), f"stratified needs one value per row; {column} holds {_several(raw)}.")


def check_derive(loaded: Loaded) -> Iterator[Finding]:
    """Derived columns parse, read only columns above them, have fitting types and new names, and are used."""
    config = loaded.config
    expressions, errors = parsed(config.data.derive)
    types, type_errors = derived_types(config)
    present = columns_present(loaded) or ()
    several = {
        name: raw
        for name, raw in known_raw_columns(config).items()
        if not raw.is_single and history_of(name, config.data.history) is None
    }
    above: set[str] = set()
    for name, error in errors.items():
        yield Finding(("data", "derive", name), str(error))
    for name, error in type_errors.items():
        yield Finding(("data", "derive", name), f"{error}{_type_hint(loaded, expressions[name], error, types)}")
    for name in config.data.derive:
        keys: Keys = ("data", "derive", name)
        if name in (RAW_ROW_ID, RAW_TRAIN_ROW) or name in present:
            yield Finding(keys, "is a column of the data. Give the derived column a new name.")
        for column in sorted(expressions[name].columns if name in expressions else ()):
            if column in several:
                what = _several(several[column])
                yield Finding(keys, f"{column} holds {what}; expressions are over columns with one value per row.")
            elif column == name:
                yield Finding(keys, "reads itself. Give the derived column a new name.")
            elif name in with_source_columns([column], expressions):
                yield Finding(keys, f"is computed from itself, by way of {column}.")
            elif column in config.data.derive and column not in above:
                yield Finding(keys, f"reads {column}, which is defined below it. Move {column} up.")
        above.add(name)
    for name in unread_derived(loaded):
        yield warning(("data", "derive", name), "no feature, label or weight reads it.")


def _several(raw: RawColumn) -> str:
    return "a list" if raw.many else "a vector"


def check_column_types(loaded: Loaded) -> Iterator[Finding]:
    """No column is read as two conflicting types, and derived columns have the type that their features read."""
    config = loaded.config
    expressions, errors = parsed(config.data.derive)
    if not errors:
        try:
            raw_columns(config.preprocessing_config)
        except UserError as error:
            yield Finding(("features",), str(error))
    types, _ = derived_types(config)
    for name, feature in config.all_features.items():
        for column, wants in feature_columns(name, feature).items():
            is_text = types.get(column) == "string"
            wants_text = wants == "string" and feature.type != "boolean"
            if column in types and (is_text if wants in ("number", "vector") else wants_text and not is_text):
                yield Finding(
                    config.keys_of(name),
                    f"reads {column} as a {wants}; `{config.data.derive[column]}` gives a {types[column]}.",
                )


def check_columns_of_files(loaded: Loaded) -> Iterator[Finding]:
    """Every raw column that the file names exists once in the data, judged by the columns of the first file."""
    data, found = loaded.config.data, columns_present(loaded)
    if found is None:
        return
    present = Counter(found)
    settings = ((("data", "source", "missing_in"), data.source.missing_in), (("data", "types"), data.types))
    named: list[tuple[Keys, str]] = [((*keys, column), column) for keys, columns in settings for column in columns]
    if not isinstance(data.source, ServingLogSource):  # which has none of them
        named += [(("data", "personal", number), column) for number, column in enumerate(data.personal)]
    for keys, column in (*columns_read(loaded), *named):
        if column not in present and column not in data.derive:
            yield Finding(keys, absent_column(column, present, "the data"))
        elif present[column] > 1 and not is_joined(column, [*data.joins, *data.history]):
            yield Finding(keys, f'the data has {present[column]} columns "{escaped(column)}". Rename one.')


def check_logged_columns(loaded: Loaded) -> Iterator[Finding]:
    """Nothing reads data of persons from a request log, which does not hold it."""
    data = loaded.config.data
    for keys, column in columns_read(loaded) if isinstance(data.source, ServingLogSource) else ():
        if column in data.personal:
            yield Finding(
                keys,
                f"reads {column}, which the request log does not hold, since data.personal names it. Join it by "
                f"{ID.name} from a table that has it (data.joins), or remove it.",
            )


def _split_keys(loaded: Loaded) -> Keys:
    if loaded.config.data.source.given_splits:
        return _PATH
    fields = type(loaded.config.data.split).model_fields
    return ("data", "split", next(key for key in ("ratios", "until", "values") if key in fields))


def columns_read(loaded: Loaded) -> Iterator[tuple[Keys, str]]:
    """Yields every column the file reads, with the path of a key that reads it."""
    config = loaded.config
    for name, feature in config.all_features.items():
        yield from ((config.keys_of(name), column) for column in feature_columns(name, feature))
    expressions, _ = parsed(config.data.derive)
    for name, expression in expressions.items():
        yield from ((("data", "derive", name), column) for column in sorted(expression.columns))
    yield ("label", "name"), config.label.name
    if config.label.shifted is not None:
        yield from ((("label", "forecast", "entity"), column) for column in config.label.shifted.keys)
        yield ("label", "forecast", "at"), config.label.shifted.at
    for name, join in config.data.joins.items():
        yield from ((("data", "joins", name, "on"), column) for column in join.keys)
        if join.as_of is not None:
            yield ("data", "joins", name, "as_of", "left"), join.as_of.left
    for name, history in config.data.history.items():
        for key, columns in (("entity", history.keys), ("at", (history.at,)), ("columns", history.columns)):
            yield from ((("data", "history", name, key), column) for column in columns)
    if config.data.span is not None:
        yield ("data", "span", "column"), config.data.span.column
    if config.label.weight is not None:
        yield ("label", "weight"), config.label.weight
    for i, columns in enumerate(config.evaluation.slices):
        yield from ((("evaluation", "slices", i, j), column) for j, column in enumerate(columns))
    if not config.data.source.given_splits:
        yield from ((("data", "split", "column"), column) for column in columns_of_split(config.data.split))


def _type_hint(loaded: Loaded, expression: Expression, error: ExpressionError, derived: Mapping[str, Type]) -> str:
    """Returns a hint to declare the column that an error points at, if that mends it and nothing else decides its type.

    Args:
        derived: Types of the derived columns.
    """
    found = _NAME.match(expression.text, error.position)
    pointed_at = {found["quoted"] or found["plain"]} & expression.columns if found else set()
    data = loaded.config.data
    raw = known_raw_columns(loaded.config)
    firm = {column for keys, column in columns_read(loaded) if keys[0] in ("features", "sequences")}
    undeclared: dict[str, Type] = {
        name: "number" if raw[name].type == "string" else "string"
        for name in sorted(pointed_at or expression.columns)
        if name in raw and name not in data.types and (raw[name].type == "string" or name not in firm)
    }
    left = type_error(expression, {**raw_types(loaded.config), **derived, **undeclared})
    if left is not None and left.position == error.position:
        return ""
    declared = ", ".join(f"{name}: {type_}" for name, type_ in undeclared.items())
    return f"\n  If the data has another type, declare it: types: {{{declared}}}" if declared else ""


def unread_derived(loaded: Loaded) -> list[str]:
    """Returns the derived columns that neither a feature nor label, weight, split or slice is computed from."""
    config = loaded.config
    expressions, _ = parsed(config.data.derive)
    readers = [column for keys, column in columns_read(loaded) if keys[:2] != ("data", "derive")]
    used = with_source_columns(readers, expressions)
    return [name for name in config.data.derive if name not in used]
