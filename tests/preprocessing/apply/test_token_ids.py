"""Ids of many features that one table holds, against a count and a dictionary per feature in plain Python."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from fullpass.preprocessing.columns.outputs import vocabulary_name

pytestmark = pytest.mark.integration

ROWS, APPLIED = 60, 20
QUERIES = ["1", "1.0", "12", "1 2", "0 1", " 1", "a", "", None, "new", "größe", "a\nb"]
"""Tokens that look like a vocabulary's number with a token, and tokens that no vocabulary can hold."""


def rows_of(seed, rows):
    random = np.random.default_rng(seed)
    return [QUERIES[i] for i in random.integers(0, len(QUERIES), rows)]


def spelled(token):
    return "1" if token == "1.0" else token


def expected_ids(trained, applied, *, top_k=None, min_count=1, oov_buckets=1, given=None):
    """Returns the ids of `applied`: tokens of `trained` by falling count and, if equal, falling bytes."""
    counts = Counter(spelled(token) for token in trained if token and "\n" not in token)
    ranked = sorted(counts, key=lambda token: (counts[token], token.encode()), reverse=True)
    known = given or [token for token in ranked if counts[token] >= min_count][:top_k]

    def id_of(token):
        if not token:
            return 0
        if spelled(token) in known:
            return 1 + oov_buckets + known.index(spelled(token))
        return 1 + int(tf.strings.to_hash_bucket_fast([spelled(token)], oov_buckets)[0])

    return [id_of(token) for token in applied], known


VOCABULARIES = [
    {},
    {"top_k": 2},
    {"min_count": 6},
    {"oov_buckets": 3},
    {"top_k": 1, "oov_buckets": 3},
    {"tokens": ["12", "a", "1 2"]},
    {"tokens": ["0 1", "größe"], "oov_buckets": 3},
    {"min_count": 9999},
]


def test_every_feature_has_the_ids_of_its_own_vocabulary(assert_transform):
    names = [f"c{i}" for i in range(2 * len(VOCABULARIES))]
    specs = dict(zip(names, VOCABULARIES * 2, strict=True))
    trained = {name: rows_of(i, ROWS) for i, name in enumerate(names)}
    applied = {name: rows_of(1000 + i, APPLIED) for i, name in enumerate(names)}
    expected, known = {}, {}
    for name, spec in specs.items():
        options = {**spec, "given": spec.get("tokens")}
        options.pop("tokens", None)
        expected[f"{name}_xf"], known[name] = expected_ids(trained[name], applied[name], **options)
    analysed = assert_transform(
        {name: {"type": "category", "vocabulary": spec} for name, spec in specs.items()},
        analyze=trained,
        apply=applied,
        expected=expected,
    )
    for name, spec in specs.items():
        size = max(len(known[name]), 1) + 1 + spec.get("oov_buckets", 1)
        assert analysed.size(f"{name}_xf") == size
        if "tokens" not in spec and known[name]:
            assert analysed.vocabulary(vocabulary_name(name)) == known[name]
