"""Determines the raw columns that a configuration reads, and their types."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from fullpass.base.errors import UserError
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.expressions.expression import Expression, counted_lists, lists_in, parse_expression
from fullpass.preprocessing.expressions.number_text import decimal_sign
from fullpass.preprocessing.expressions.syntax_tree import age_column
from fullpass.preprocessing.features.feature import Feature, NumberFeature, TargetFeature
from fullpass.preprocessing.features.history import history_of, list_group, lists_of
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.lists import list_options, reads_list

RAW_ROW_ID = "fullpass_row"
"""Raw int64 column that ingest adds: the row number, which later findings refer to."""
RAW_TRAIN_ROW = "fullpass_train_row"
"""Raw int64 column that Transform adds to train rows if a feature needs folds: the row number."""
ROW_BITS = 36
"""Lowest bits of a row id: the row in its file."""
SPAN_FILE_BITS = 15
"""Next bits of a row id: the file in its span. The bits above are the span, modulo MOST_SPANS."""
MOST_SPANS = 4096
"""Widest window, in spans: row ids are unique within this number of spans."""


@dataclass(frozen=True)
class RawColumn:
    """A column of the raw examples; always optional, a missing value is an absent feature.

    `number` is one float32, `string` one byte string, `vector` `width` float32s. image: the byte string is an encoded
    image, which TensorFlow must be able to decode. With `many`, any number of numbers or strings: NaN and "" are
    missing elements. separator: splits text into elements. group: the columns of a group have equally many elements in
    a row; its value is the YAML path that declares this. token: the strings are tokens, in records, in requests and for
    every reader of the column; see `token_spelling`. decimal: the sign with which numbers of the source or of a request
    become text.
    """

    name: str
    type: Literal["number", "string", "vector"]
    width: int = 1
    image: bool = False
    many: bool = False
    separator: str | None = None
    group: str | None = None
    token: bool = False
    decimal: str = "."

    @property
    def is_single(self) -> bool:
        """Whether a row holds one value; expressions, slices and splits read only such columns."""
        return self.type != "vector" and not self.many


@dataclass(frozen=True)
class _Use:
    column: str
    wants: str  # number | string | token (text, or a number converted to text) | vector | image (encoded)
    by: str
    width: int = 1
    many: bool = False
    separator: str | None = None
    group: str | None = None
    decimal: str = "."


def raw_columns(config: PreprocessingConfig) -> dict[str, RawColumn]:
    """Returns every raw column that features, label, weight, slices or derived columns read, by name, sorted.

    A column that is read both as a number and as a category is a number; its tokens are the numbers as text. A string
    that anything reads as a category, a key, a class or a slice holds tokens, as does one whose different values are
    counted; a list of a history and the column of its events do so together.

    Raises:
        UserError: A column is read as incompatible types, such as a number and a date.
    """
    uses: dict[str, list[_Use]] = {}
    for use in _uses(config):
        if use.column not in config.derive:
            uses.setdefault(use.column, []).append(use)
    for name in [name for name in uses if history_of(name, config.history)]:
        uses.setdefault(age_column(name), []).append(_Use(age_column(name), "number", "data.history", many=True))
    bases = lists_of(config.history)
    tokens = {use.column for of in uses.values() for use in of if use.wants == "token"}
    tokens |= {column for text in config.derive.values() for column in counted_lists(parse_expression(text))}
    tokens = {bases.get(column, column) for column in tokens}
    found = (_decide(name, _with_uses_of_events(name, uses, config), config) for name in sorted(uses))
    return {
        one.name: replace(one, token=one.type == "string" and not one.image and bases.get(one.name, one.name) in tokens)
        for one in found
    }


def numbers_read_as_tokens(config: PreprocessingConfig) -> dict[str, str]:
    """Returns the number columns that something reads as a category or key, and the path of the first reader."""
    raw, found = raw_columns(config), dict[str, str]()
    for use in _uses(config):
        if use.wants == "token" and use.column in raw and raw[use.column].type == "number":
            found.setdefault(use.column, use.by)
    return found


def serving_columns(config: PreprocessingConfig) -> dict[str, RawColumn]:
    """Returns the raw columns that features need: those that exist in serving, where `request_columns` give them."""
    return columns_behind({use.column for use in _feature_uses(config)}, config)


def columns_behind(columns: Iterable[str], config: PreprocessingConfig) -> dict[str, RawColumn]:
    """Returns the raw columns that columns are computed from; for a list of a history, also the ages of its events."""
    needed = with_source_columns(columns, config.derive)
    needed |= {age_column(name) for name in needed if history_of(name, config.history)}
    return {name: column for name, column in raw_columns(config).items() if name in needed}


def request_columns(config: PreprocessingConfig) -> dict[str, RawColumn]:
    """Returns the raw columns that a request contains: those that features need, with the keys of looked up ones."""
    needed = set(serving_columns(config))
    for join, keys in reversed(config.lookups.items()):
        found = {name for name in needed if name.startswith(f"{join}.")}
        needed = needed - found | (set(keys) if found else set())
    return {name: column for name, column in raw_columns(config).items() if name in needed}


def events_of_serving(config: PreprocessingConfig) -> dict[str, Any]:
    """Returns, as JSON, the histories that features need, and the derived and raw columns that events are made of."""
    served = serving_columns(config)
    histories = {
        n: history for n, history in config.history.items() if any(history_of(c, {n: history}) for c in served)
    }
    bases = set(lists_of(histories).values())
    derived = with_source_columns(bases, config.derive)
    return {
        "histories": {name: history.model_dump(mode="json") for name, history in histories.items()},
        "derive": {name: text for name, text in config.derive.items() if name in derived},
        "columns": [asdict(column) for column in columns_behind(bases, config).values()],
    }


def row_columns(config: PreprocessingConfig) -> tuple[str, ...]:
    """Returns the int64 columns with row numbers: that of ingest, and that of train rows if a feature needs folds."""
    folds = any(isinstance(feature, TargetFeature) for feature in config.features.values())
    return (RAW_ROW_ID, RAW_TRAIN_ROW) if folds else (RAW_ROW_ID,)


def span_in_row_ids(span: int) -> int:
    """Returns the span number as encoded in row ids."""
    return span % MOST_SPANS


def with_source_columns(columns: Iterable[str], derive: Mapping[str, str | Expression]) -> set[str]:
    """Returns columns and, for derived columns, all columns that they are derived from, raw and derived.

    Args:
        derive: Derived column -> its expression, as text or parsed.

    Example:
        >>> sorted(with_source_columns(["big_tipper"], {"big_tipper": "tips > 0.2 * fare"}))
        ['big_tipper', 'fare', 'tips']
    """
    needed, pending = set(columns), list(columns)
    while pending:
        expression = derive.get(pending.pop())
        parsed = parse_expression(expression) if isinstance(expression, str) else expression
        found = parsed.columns - needed if parsed is not None else set()
        needed |= found
        pending += found
    return needed


def derived_dependencies(column: str, derive: Mapping[str, str]) -> dict[str, str]:
    """Returns the derived columns that a column is computed from, including itself, in the order of the YAML.

    Example:
        >>> derived_dependencies("b", {"a": "x + 1", "b": "a * 2", "c": "y"})
        {'a': 'x + 1', 'b': 'a * 2'}
    """
    needed = with_source_columns([column], derive)
    return {name: text for name, text in derive.items() if name in needed}


def feature_columns(name: str, feature: Feature) -> dict[str, str]:
    """Returns column -> type, for all columns that a feature reads; see `BaseFeature.column_types`."""
    return {use.column: use.wants for use in uses_of(name, feature)}


def date_formats(config: PreprocessingConfig) -> dict[str, tuple[str, ...]]:
    """Returns raw or derived column -> the formats in which features read its dates, for columns of dates."""
    found: dict[str, list[str]] = {}
    for name, feature in config.features.items():
        if feature.type in ("date", "duration"):
            for column in feature_columns(name, feature):
                found.setdefault(column, []).append(feature.format)
    return {column: tuple(dict.fromkeys(formats)) for column, formats in found.items()}


def _with_uses_of_events(name: str, uses: Mapping[str, list[_Use]], config: PreprocessingConfig) -> list[_Use]:
    """Returns the uses of a column. A list of a history is read like the column of its events, unless it is a number.

    The lists of a history have equally many elements.
    """
    history = history_of(name, config.history)
    if history is None:
        return uses[name]
    mine = [replace(use, group=list_group(history)) for use in uses[name]]
    if any(use.wants == "number" for use in mine):
        return mine
    of_events = uses.get(lists_of(config.history).get(name, ""), ())
    return [*mine, *(replace(mine[0], wants=use.wants, by=use.by) for use in of_events if not use.many)]


def _decide(name: str, uses: list[_Use], config: PreprocessingConfig) -> RawColumn:
    declared = config.types.get(name) or config.types.get(lists_of(config.history).get(name, ""))
    wants = {use.wants for use in uses} | ({declared} if declared else set())
    firm = wants - {"token", "any"}
    if len(firm) > 1:
        readers = "; ".join(f"{use.by} reads a {use.wants}" for use in uses if use.wants in firm)
        raise UserError(
            f"column {name!r} cannot be a {' and a '.join(sorted(firm))} at once: {readers}. "
            "Derive a second column from it, or change one of these."
        )
    if "vector" in wants:
        return RawColumn(name, "vector", max(use.width for use in uses))
    if "image" in wants:
        return RawColumn(name, "string", image=True)
    kind: Literal["number", "string"]
    if firm:
        kind = "number" if "number" in firm else "string"
    else:
        kind = "string" if "token" in wants else "number"
    found = _list(name, uses, kind) if any(use.many for use in uses) else RawColumn(name, kind)
    return replace(found, decimal="," if any(use.decimal == "," for use in uses) else ".")


def _list(name: str, uses: list[_Use], kind: Literal["number", "string"]) -> RawColumn:
    single = [use.by for use in uses if not use.many]
    if single:
        lists = next(use.by for use in uses if use.many)
        raise UserError(
            f"column {name!r} is a list for {lists} and a single value for {single[0]}. Use it in one way: give the "
            "feature `list: true`, or remove the other."
        )
    separators = {use.separator for use in uses}
    if len(separators) > 1:
        readers = "; ".join(f"{use.by} by {use.separator!r}" for use in uses)
        raise UserError(f"column {name!r} is split in two ways: {readers}. Give one list.separator.")
    group = next((use.group for use in uses if use.group is not None), None)
    return RawColumn(name, kind, many=True, separator=separators.pop(), group=group)


def _uses(config: PreprocessingConfig) -> Iterator[_Use]:
    yield from _feature_uses(config)
    yield from _label_uses(config.label)
    if config.label.weight is not None:
        yield _Use(config.label.weight, "number", "label.weight")
    for column in config.slices:
        yield _Use(column, "token", "evaluation.slices")
    for join, keys in config.lookups.items():
        for column in keys:
            yield _Use(column, "token", f"data.joins.{join}.on")
    for name, text in config.derive.items():
        expression = parse_expression(text)
        lists = lists_in(expression)
        for column in sorted(expression.columns):
            many = column in lists and history_of(column, config.history) is not None
            yield _Use(column, lists[column] if many else "any", f"data.derive.{name}", many=many)


def _feature_uses(config: PreprocessingConfig) -> Iterator[_Use]:
    for name, feature in config.features.items():
        sequence = config.sequence_of(name)
        if sequence is None:
            yield from uses_of(name, feature)
        else:
            by, group = config.path_of(name), f"sequences.{sequence}"
            yield from (replace(use, by=by, group=group if use.many else None) for use in uses_of(name, feature))


def uses_of(name: str, feature: Feature) -> Iterator[_Use]:
    """Yields what a feature reads: each column and its type."""
    by, options, many = f"features.{name}", list_options(feature), reads_list(feature)
    weights = None if options is None else options.weights
    group = by if many and weights is not None else None
    written = feature.format if isinstance(feature, NumberFeature) and feature.format is not None else "1234.5"
    for column, wants in feature.column_types(name).items():
        separator = options.separator if many and options is not None else None
        yield _Use(column, wants, by, feature.vector_size(), many, separator, group, decimal_sign(written))
    if weights is not None:
        yield _Use(weights, "number", f"{by}.list.weights", many=True, group=group)
    for transform in getattr(feature, "transforms", ()):
        key = getattr(transform, "key", None)
        if key is not None:
            yield _Use(key, "token", by)


def _label_uses(label: Label) -> Iterator[_Use]:
    number = label.task == "regression" or isinstance(label.positive, float | int)
    for column in label.added or (label.column,):
        yield _Use(column, "number" if number else "token", "label")
