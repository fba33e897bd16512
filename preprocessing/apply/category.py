"""Transforms categories, booleans and crosses into ids, and categories into counts."""

from collections.abc import Mapping

import tensorflow as tf

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.list_tensors import present_elements
from fullpass.preprocessing.apply.lists import kept_elements
from fullpass.preprocessing.apply.number_chains import fill_remaining_with_zero, stateless_chain
from fullpass.preprocessing.apply.vocabulary import Table, count_table, encode_tokens, hash_ids, make_table, with_domain
from fullpass.preprocessing.apply.vocabulary_file import category_tokens, read_vocabulary_file
from fullpass.preprocessing.columns.outputs import count_name, vocabulary_name, weight_name
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, as_tokens
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    CountFeature,
    DateFeature,
    transformed_name,
)
from fullpass.preprocessing.features.ids import IDENTITY_TOKEN, Vocabulary
from fullpass.preprocessing.features.lists import ListOf, list_options
from fullpass.preprocessing.token_spelling import as_token


def category(name: str, feature: CategoryFeature, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Transforms a category: int64 ids [batch], or a sparse row of ids per example for several values."""
    if list_options(feature) is not None:
        return _categories(name, feature, columns)
    column = columns.token(feature.column or name)
    ids, size = _ids(name, feature, _cased(column.values, feature), column.present, columns)
    return {transformed_name(name): with_domain(ids, size)}


def _categories(name: str, feature: CategoryFeature, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Transforms the values of a list or a cell: a sparse row of ids, and with `weights` a sparse row of float32."""
    elements = kept_elements(name, _tokens(name, feature, columns), list_options(feature) or ListOf(), columns)
    present = present_elements(elements.values)
    ids, size = _ids(name, feature, elements.values, present, columns)
    return elements.rows_of_ids((transformed_name(name), weight_name(name)), ids, present, size)


def _tokens(name: str, feature: CategoryFeature, columns: Columns) -> tf.RaggedTensor:
    """Returns the tokens of each row, "" for missing ones."""
    column = feature.column or name
    if feature.separator is None:
        lists = columns.elements(column, numbers=False)
        return lists.with_values(_cased(lists.values, feature))
    return separated_tokens(_cased(columns.string(column).values, feature), feature.separator)


def separated_tokens(cells: tf.Tensor, separator: str | None) -> tf.RaggedTensor:
    """Returns the tokens between the separators of each cell, without blanks around them and without empty ones."""
    tokens = tf.ragged.map_flat_values(tf.strings.strip, tf.strings.split(cells, separator))
    return present_tokens(tf.ragged.map_flat_values(as_tokens, tokens))


def present_tokens(tokens: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the rows without empty tokens."""
    return tf.ragged.boolean_mask(tokens, tf.not_equal(tokens, ""))


def _cased(values: tf.Tensor, feature: CategoryFeature) -> tf.Tensor:
    return tf.strings.lower(values, encoding="utf-8") if feature.lowercase else values


def _ids(
    name: str, feature: CategoryFeature, tokens: tf.Tensor, present: tf.Tensor, columns: Columns
) -> tuple[tf.Tensor, tf.Tensor | int]:
    """Returns the ids of the feature's mapping, and the number of different ids."""
    if feature.vocabulary is not None:
        table, oov_buckets = _table(name, tf.boolean_mask(tokens, present), feature.vocabulary, columns)
        return encode_tokens(tokens, present, table, oov_buckets=oov_buckets)
    if feature.hash is not None:
        ids = hash_ids(tokens, feature.hash.buckets, key=feature.hash.key)
        return tf.where(present, ids, 0), feature.hash.buckets + 1
    size = feature.identity.size if feature.identity is not None else 0
    return tf.where(present, _identity(tokens, size), 0), size + 2


def _table(name: str, tokens: tf.Tensor, vocabulary: Vocabulary, columns: Columns) -> tuple[Table, int]:
    """Returns the table of a feature's vocabulary and its number of OOV buckets; a shared table is created once."""
    owner = columns.config.vocabulary_owner(name)
    users = columns.vocabulary_users[owner]
    if len(users) == 1:
        return make_table(tokens, _with_tokens(vocabulary), vocabulary_name(name), columns), vocabulary.oov_buckets
    declared = columns.config.features[owner]
    if not isinstance(declared, CategoryFeature) or declared.vocabulary is None:
        raise UserError(f"vocabulary.shared_with: {owner!r} is not a category with a vocabulary.")
    if owner not in columns.tables:
        of_all = tf.concat([_present_tokens(user, columns) for user in users], 0)
        columns.tables[owner] = make_table(of_all, _with_tokens(declared.vocabulary), vocabulary_name(owner), columns)
    return columns.tables[owner], declared.vocabulary.oov_buckets


def _with_tokens(vocabulary: Vocabulary) -> Vocabulary:
    """Returns a vocabulary with the tokens of its file, if it has one."""
    if vocabulary.file is None:
        return vocabulary
    tokens = category_tokens(vocabulary.file, read_vocabulary_file(vocabulary.file))
    return vocabulary.model_copy(update={"tokens": tokens, "file": None})


def _present_tokens(name: str, columns: Columns) -> tf.Tensor:
    """Returns the present tokens of a category's column: string [n]."""
    feature = columns.config.features[name]
    if not isinstance(feature, CategoryFeature):
        raise UserError(f"vocabulary.shared_with: only categories share a vocabulary; {name!r} is not a category.")
    options = list_options(feature)
    if options is None:
        column = columns.token(feature.column or name)
        return _cased(tf.boolean_mask(column.values, column.present), feature)
    tokens = kept_elements(name, _tokens(name, feature, columns), options, columns).values
    return tf.boolean_mask(tokens, present_elements(tokens))


def _identity(tokens: tf.Tensor, size: int) -> tf.Tensor:
    integer = tf.strings.regex_full_match(tokens, IDENTITY_TOKEN)
    value = tf.strings.to_number(tf.where(integer, tokens, "-1"), tf.int64)
    return tf.where((value >= 0) & (value < size), value + 2, 1)


def boolean(name: str, feature: BooleanFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a boolean: int64 [batch], 0 missing or neither, 1 false, 2 true."""
    column = columns.string(feature.column or name)
    return {transformed_name(name): with_domain(boolean_ids(column, feature.true, feature.false), 3)}


def boolean_ids(column: StringColumn, true: tuple[str, ...], false: tuple[str, ...]) -> tf.Tensor:
    """Returns 0 for neither, 1 for a text in `false`, 2 for a text in `true`, ignoring case: int64 [batch]."""
    text = as_tokens(tf.strings.lower(tf.strings.strip(column.values), encoding="utf-8"))
    ids = tf.where(_is_one_of(text, true), 2, tf.where(_is_one_of(text, false), 1, 0))
    return tf.cast(tf.where(column.present, ids, 0), tf.int64)


def _is_one_of(text: tf.Tensor, accepted: tuple[str, ...]) -> tf.Tensor:
    if not accepted:
        return tf.zeros_like(text, tf.bool)
    return tf.reduce_any(tf.equal(text[:, tf.newaxis], tf.constant([[as_token(a.lower()) for a in accepted]])), axis=1)


def count(name: str, feature: CountFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a category into its row count in the train split: float32 [batch], after the declared transforms."""
    column = columns.token(feature.column or name)
    table = count_table(tf.boolean_mask(column.values, column.present), count_name(name))
    counts = tf.cast(tf.where(column.present, table(column.values), 0), tf.float32)
    chain = stateless_chain([[spec] for spec in feature.transforms])
    return {transformed_name(name): fill_remaining_with_zero(chain(counts[:, tf.newaxis]))[:, 0]}


def cross(
    declared: Cross,
    config: PreprocessingConfig,
    columns: Columns,
    transformed: Mapping[str, tf.Tensor | tf.SparseTensor],
) -> dict[str, tf.Tensor]:
    """Transforms a combination of features: int64 ids [batch]; missing where any of the features is missing.

    Args:
        transformed: Contains the ids of the features that are crossed by id.
    """
    parts = [_crossed(name, config, columns, transformed) for name in declared.inputs]
    tokens = tf.strings.join([part.values for part in parts], declared.separator)
    present = tf.reduce_all(tf.stack([part.present for part in parts]), axis=0)
    if declared.vocabulary is not None:
        name = vocabulary_name(declared.feature_name)
        table = make_table(tf.boolean_mask(tokens, present), declared.vocabulary, name, columns)
        ids, size = encode_tokens(tokens, present, table, oov_buckets=declared.vocabulary.oov_buckets)
    else:
        buckets = declared.hash_buckets or 1
        ids, size = tf.where(present, hash_ids(tokens, buckets), 0), buckets + 1
    return {transformed_name(declared.feature_name): with_domain(ids, size)}


def _crossed(
    name: str, config: PreprocessingConfig, columns: Columns, transformed: Mapping[str, tf.Tensor | tf.SparseTensor]
) -> StringColumn:
    """Returns a feature's part of the combination: its token if it is a category, else its id."""
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
