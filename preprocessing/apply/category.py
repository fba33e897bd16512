"""Transforms categories, booleans and crosses into ids, and categories into counts."""

from collections.abc import Mapping
from functools import partial

import tensorflow as tf

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.list_tensors import present_elements, rows_where
from fullpass.preprocessing.apply.lists import kept_elements
from fullpass.preprocessing.apply.number_chains import fill_remaining_with_zero, stateless_chain
from fullpass.preprocessing.apply.token_ids import TokenIds, Transformed
from fullpass.preprocessing.apply.vocabulary import count_table, hash_ids, with_domain
from fullpass.preprocessing.columns.outputs import count_name
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, token_tensor
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import BooleanFeature, CategoryFeature, CountFeature, DateFeature
from fullpass.preprocessing.features.ids import IDENTITY_TOKEN
from fullpass.preprocessing.features.lists import list_options
from fullpass.preprocessing.features.output import transformed_name, weight_name
from fullpass.preprocessing.list_text import list_text
from fullpass.preprocessing.token_spelling import as_token


def category(name: str, feature: CategoryFeature, columns: Columns) -> Mapping[str, Transformed | TokenIds]:
    """Transforms a category: int64 ids [batch], or a sparse row of ids per example for several values.

    Several values may have weights, a sparse row of float32. The ids of vocabularies are still `TokenIds`.
    """
    key = transformed_name(name)
    options = list_options(feature)
    if options is None:
        tokens = _cased(columns.token(feature.column or name).values, feature)
        finish = partial(_single, key)
    else:
        elements = kept_elements(name, _tokens(name, feature, columns), options, columns)
        tokens = elements.values
        finish = partial(elements.rows_of_ids, (key, weight_name(name)), present_elements(tokens))
    if feature.vocabulary is not None:
        return {
            key: TokenIds(name, columns.config.path_of(name), tokens, feature.vocabulary, finish, options is not None)
        }
    return finish(*_hashed_ids(tokens, feature))


def _single(key: str, ids: tf.Tensor, high: tf.Tensor | int) -> dict[str, Transformed]:
    return {key: with_domain(ids, high)}


def _tokens(name: str, feature: CategoryFeature, columns: Columns) -> tf.RaggedTensor:
    """Returns the tokens of each row, "" for missing ones."""
    column = feature.column or name
    if feature.separator is None:
        lists = columns.elements(column, numbers=False)
    else:
        lists = separated_tokens(columns, column, feature.separator)
    return lists.with_values(_cased(lists.values, feature))


def separated_tokens(columns: Columns, column: str, separator: str | None) -> tf.RaggedTensor:
    """Returns the tokens between the separators of each cell, without blanks around them and without empty ones."""
    form, cells = list_text(separator), columns.string(column).values
    for pattern, replacement in form.replacements:
        cells = tf.strings.regex_replace(cells, pattern, replacement)
    tokens = tf.ragged.map_flat_values(tf.strings.strip, tf.strings.split(cells, form.separator))
    return present_tokens(tf.ragged.map_flat_values(columns.tokens, tokens))


def present_tokens(tokens: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the rows without empty tokens."""
    return rows_where(tokens, present_elements(tokens.values))


def _cased(values: tf.Tensor, feature: CategoryFeature) -> tf.Tensor:
    return tf.strings.lower(values, encoding="utf-8") if feature.lowercase else values


def _hashed_ids(tokens: tf.Tensor, feature: CategoryFeature) -> tuple[tf.Tensor, int]:
    """Returns the ids of a category without a vocabulary, and the greatest id that there may be."""
    if feature.hash is not None:
        ids, high = hash_ids(tokens, feature.hash.buckets, key=feature.hash.key), feature.hash.buckets
    else:
        known = feature.identity.size if feature.identity is not None else 0
        ids, high = _identity(tokens, known), known + 1
    return tf.where(tf.equal(tokens, ""), tf.constant(0, tf.int64), ids), high


def _identity(tokens: tf.Tensor, size: int) -> tf.Tensor:
    integer = tf.strings.regex_full_match(tokens, IDENTITY_TOKEN)
    value = tf.strings.to_number(tf.where(integer, tokens, "-1"), tf.int64)
    return tf.where((value >= 0) & (value < size), value + 2, 1)


_ALL_ROWS, _VALUE = "*", "="


def boolean(name: str, feature: BooleanFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a boolean: int64 [batch], 0 missing or neither, 1 false, 2 true."""
    column = columns.string(feature.column or name)
    return {transformed_name(name): with_domain(boolean_ids(column, feature.true, feature.false), 2)}


def boolean_ids(column: StringColumn, true: tuple[str, ...], false: tuple[str, ...]) -> tf.Tensor:
    """Returns 0 for neither, 1 for a text in `false`, 2 for a text in `true`, ignoring case: int64 [batch]."""
    text = token_tensor(tf.strings.lower(tf.strings.strip(column.values), encoding="utf-8"))
    ids = tf.where(_is_one_of(text, true), 2, tf.where(_is_one_of(text, false), 1, 0))
    return tf.cast(tf.where(column.present, ids, 0), tf.int64)


def _is_one_of(text: tf.Tensor, accepted: tuple[str, ...]) -> tf.Tensor:
    if not accepted:
        return tf.zeros_like(text, tf.bool)
    return tf.reduce_any(tf.equal(text[:, tf.newaxis], tf.constant([[as_token(a.lower()) for a in accepted]])), axis=1)


def count(name: str, feature: CountFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a category into its row count in the train split: float32 [batch], after the declared transforms."""
    column = columns.token(feature.column or name)
    counted = tf.boolean_mask(column.values, column.present)
    # The number of all rows is counted as one more value, so the values begin with a letter that it lacks.
    rows = tf.fill(tf.shape(column.values), _ALL_ROWS) if feature.share else column.values[:0]
    spelled = (lambda values: tf.strings.join([_VALUE, values])) if feature.share else tf.identity
    table = count_table(tf.concat([spelled(counted), rows], 0), count_name(name))
    counts = tf.where(column.present, table(spelled(column.values)), 0)
    if feature.share:
        number, of_all = (tf.cast(one, tf.float64) for one in (counts, table(tf.constant([_ALL_ROWS]))))
        counts = tf.math.divide_no_nan(number, of_all)
    counts = tf.cast(counts, tf.float32)
    chain = stateless_chain([[spec] for spec in feature.transforms])
    return {transformed_name(name): fill_remaining_with_zero(chain(counts[:, tf.newaxis]))[:, 0]}


def cross(
    path: str, declared: Cross, columns: Columns, transformed: Mapping[str, Transformed]
) -> Mapping[str, Transformed | TokenIds]:
    """Transforms a combination of features: int64 ids [batch]; missing where any of the features is missing.

    Args:
        path: Its path in the YAML.
        transformed: Contains the ids of the features that are crossed by id.
    """
    tokens, present = crossed_tokens(declared, columns, transformed)
    key = transformed_name(declared.feature_name)
    if declared.vocabulary is not None:
        return {key: TokenIds(declared.feature_name, path, tokens, declared.vocabulary, partial(_single, key))}
    buckets = declared.hash_buckets or 1
    return _single(key, tf.where(present, hash_ids(tokens, buckets), tf.constant(0, tf.int64)), buckets)


def crossed_tokens(declared: Cross, columns: Columns, transformed: Mapping[str, Transformed]) -> StringColumn:
    """Returns the combinations of the features of a cross, missing where any of them is missing."""
    parts = [_crossed(name, columns, transformed) for name in declared.inputs]
    present = tf.reduce_all(tf.stack([part.present for part in parts]), axis=0)
    return StringColumn(tf.where(present, tf.strings.join([p.values for p in parts], declared.separator), ""), present)


def _crossed(name: str, columns: Columns, transformed: Mapping[str, Transformed]) -> StringColumn:
    """Returns a feature's part of the combination: its token if it is a category, else its id."""
    config = columns.config
    feature = config.features.get(name)
    if isinstance(feature, CategoryFeature) and list_options(feature) is None:
        column = columns.token(feature.column or name)
        return StringColumn(_cased(column.values, feature), column.present)
    ids = transformed.get(_key_of_ids(name, config))
    if not isinstance(ids, tf.Tensor) or ids.dtype != tf.int64 or ids.shape.rank != 1:
        raise UserError(
            f"inputs: {name!r} cannot be crossed. Accepted: single-valued categories, booleans, numbers with "
            f"bucketize, and date parts as feature.part.{did_you_mean(name, config.features)}"
        )
    return StringColumn(tf.strings.as_string(ids), ids > 0)


def _key_of_ids(name: str, config: PreprocessingConfig) -> str:
    owner, _, part = name.rpartition(".")
    if isinstance(config.features.get(owner), DateFeature):
        return transformed_name(owner, part)
    return transformed_name(name)
