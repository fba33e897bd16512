"""Ids of tokens by vocabularies: the tokens of all features of one kind are looked up together."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

from fullpass.base.errors import UserError, prefix_errors
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.token_table import Source, TokenTable
from fullpass.preprocessing.apply.vocabulary import ids_of_slots, source_of
from fullpass.preprocessing.apply.vocabulary_file import category_tokens, read_vocabulary_file
from fullpass.preprocessing.columns.compute_at import compute_at_by_feature
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.features.ids import Vocabulary

Transformed: TypeAlias = tf.Tensor | tf.SparseTensor


@dataclass(frozen=True)
class TokenIds:
    """Tokens on their way to ids.

    feature: the feature or cross. path: its path in the YAML. tokens: string [n], "" for missing. vocabulary: its own,
    which it may share. finish: makes outputs of the ids, int64 [n], and of the greatest id that there may be. many:
    whether a row may have several.
    """

    feature: str
    path: str
    tokens: tf.Tensor
    vocabulary: Vocabulary
    finish: Callable[[tf.Tensor, tf.Tensor | int], Mapping[str, Transformed]]
    many: bool = False


def apply_token_ids(pending: Sequence[TokenIds], columns: Columns) -> dict[str, Transformed]:
    """Returns the outputs of features with vocabularies.

    Features that are computed at one place, from single values or from lists, share a table and all operations.

    Raises:
        UserError: A vocabulary is shared with a feature that has none.
    """
    sources = _sources({one.feature: one for one in pending}, columns)
    places = compute_at_by_feature(columns.config)
    groups: dict[Hashable, list[TokenIds]] = {}
    for one in pending:
        owner = columns.config.vocabulary_owner(one.feature)
        oov_buckets = sources[owner][1]
        groups.setdefault((places[one.feature], one.many, oov_buckets), []).append(one)
    results: dict[str, Transformed] = {}
    for group in groups.values():
        owners = [columns.config.vocabulary_owner(one.feature) for one in group]
        results |= _apply(group, owners, {owner: sources[owner] for owner in owners})
    return results


def _apply(
    group: Sequence[TokenIds], owners: Sequence[str], sources: Mapping[str, tuple[Source, int]]
) -> dict[str, Transformed]:
    of_owner = {owner: number for number, owner in enumerate(sources)}
    oov_buckets = sources[owners[0]][1]
    table = TokenTable([source for source, _ in sources.values()])
    counts = tf.concat(tf.shape_n([one.tokens for one in group], tf.int64), 0)
    tokens = tf.concat([one.tokens for one in group], 0)
    slots = table.find(tokens, [of_owner[owner] for owner in owners], counts if len(sources) > 1 else None)
    ids = tf.split(ids_of_slots(slots, tokens, oov_buckets), counts, num=len(group))
    highest = table.highest_ids(oov_buckets)
    results: dict[str, Transformed] = {}
    for one, owner, found in zip(group, owners, ids, strict=True):
        results |= one.finish(found, highest[of_owner[owner]])
    return results


def _sources(pending: Mapping[str, TokenIds], columns: Columns) -> dict[str, tuple[Source, int]]:
    """Returns the vocabulary of each owner, learned from the tokens of all its users, and its number of OOV buckets."""
    sources: dict[str, tuple[Source, int]] = {}
    for feature, one in pending.items():
        owner = columns.config.vocabulary_owner(feature)
        if owner in sources:
            continue
        with prefix_errors(one.path):
            users = [_user(user, pending) for user in columns.vocabulary_users.get(owner, [owner])]
            vocabulary = _user(owner, pending).vocabulary
            tokens = tf.concat([user.tokens for user in users], 0) if len(users) > 1 else users[0].tokens
            source = source_of(tokens, _with_tokens(vocabulary), vocabulary_name(owner), columns)
            sources[owner] = source, vocabulary.oov_buckets
    return sources


def _user(feature: str, pending: Mapping[str, TokenIds]) -> TokenIds:
    if feature not in pending:
        raise UserError(f"vocabulary.shared_with: {feature!r} is not a category with a vocabulary.")
    return pending[feature]


def _with_tokens(vocabulary: Vocabulary) -> Vocabulary:
    """Returns a vocabulary with the tokens of its file, if it has one."""
    if vocabulary.file is None:
        return vocabulary
    tokens = category_tokens(vocabulary.file, read_vocabulary_file(vocabulary.file))
    return vocabulary.model_copy(update={"tokens": tokens, "file": None})
