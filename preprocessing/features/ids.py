"""Mappings from tokens to ids (vocabularies, hashes, identities), stable ids, and encodings of ids in the model.

The id contract: 0 is missing, then the OOV buckets, then the vocabulary. Sizes are never declared here; they come from
the transform graph.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, Spec

IDENTITY_TOKEN = r"-?[0-9]{1,18}"
"""Regular expression of the tokens that `Identity` reads as numbers."""


class Embedding(Spec):
    """A trained vector per id."""

    embedding: Literal["auto"] | Annotated[int, Field(strict=True, ge=1)] = "auto"
    """Width; auto: min(64, round(1.6 * size ** 0.56))."""
    shared: Name | None = None
    """Name of a table that features of equal vocabularies share."""


Encoding = Literal["auto", "one_hot"] | Embedding
"""Encoding of ids in the model: `one_hot` (multi-hot if a cell holds several values), `{embedding: 16}`, or `auto`:
one-hot up to 32 ids, an embedding above."""


_KEPT_MODELS = 30
"""Default of `keep_models`: a month of nightly runs."""


class StableIds(Spec):
    """Ids of known tokens never change from one model to the next (docs/retraining.md)."""

    keep_models: Count | None = None
    """Consecutive blessed models for which a token that is no longer selected keeps its id; 30 by default."""
    keep_spans: Count | None = None
    """Instead of `keep_models`: spans for which it keeps its id."""

    @model_validator(mode="after")
    def _one_unit(self) -> "StableIds":
        if self.keep_models is not None and self.keep_spans is not None:
            raise ValueError("give keep_models or keep_spans, not both.")
        return self

    @property
    def models(self) -> int:
        """Number of consecutive models for which a slot is kept; unused with `keep_spans`."""
        return _KEPT_MODELS if self.keep_models is None else self.keep_models


class Vocabulary(Spec):
    """Tokens with ids of their own; learned ones are ordered by descending frequency in train.

    Equal frequencies are in reverse alphabetical order. A token with a line break is in none. An analyzer, unless
    `tokens` or `file` gives the tokens. Source: tft.vocabulary.
    """

    top_k: Count | None = None
    """Keep only this many of the most frequent tokens."""
    min_count: Count = 1
    """Keep tokens that occur at least this often in train."""
    coverage: Fraction | None = None
    """Keep the most frequent tokens with this share of all values."""
    oov_buckets: Count = 1
    """Ids that all other tokens share, by hash."""
    tokens: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The tokens in id order."""
    file: Name | None = None
    """Text file with one token per line, in id order."""
    shared_with: Name | None = None
    """Category whose vocabulary, settings and embedding it shares; the tokens are those of both columns."""
    stable_ids: StableIds | Flag | None = None
    """Ids never change on other data; null: the top-level `stable_ids`."""

    @model_validator(mode="after")
    def _one_source(self) -> "Vocabulary":
        defaults = {"top_k": None, "min_count": 1, "coverage": None}
        learned = [name for name, default in defaults.items() if getattr(self, name) != default]
        if self.shared_with is not None and self != Vocabulary.model_construct(shared_with=self.shared_with):
            raise ValueError(
                "shared_with: accepts no other settings beside it; the settings of the named category apply."
            )
        if self.tokens is not None and self.file is not None:
            raise ValueError("give tokens or file, not both.")
        if learned and (self.tokens is not None or self.file is not None):
            raise ValueError(f"{', '.join(learned)}: not used with a given list; remove it.")
        if self.stable_ids and not self.is_learned:
            raise ValueError("stable_ids: not used with a given list, whose order determines the ids; remove it.")
        if self.tokens is not None and len(set(self.tokens)) < len(self.tokens):
            twice = next(t for t in self.tokens if self.tokens.count(t) > 1)
            raise ValueError(f"every token must be listed only once. Received twice: {twice!r}.")
        return self

    @property
    def is_learned(self) -> bool:
        """Whether the tokens are learned from the train split."""
        return self.tokens is None and self.file is None


def stable_ids_of(vocabulary: Vocabulary, default: StableIds | bool) -> StableIds | None:
    """Returns how long a vocabulary keeps slots; None if its tokens are given, or its ids follow frequency."""
    chosen = default if vocabulary.stable_ids is None else vocabulary.stable_ids
    if not chosen or not vocabulary.is_learned:
        return None
    return StableIds() if isinstance(chosen, bool) else chosen


class Hash(Spec):
    """Ids without a pass over the data: 0 missing, else 1 + hash(token) mod buckets."""

    buckets: Count
    """Number of hash buckets."""
    key: tuple[NonNegative, NonNegative] | None = None
    """Two integers that key SipHash, against chosen collisions; null: FarmHash."""


class Identity(Spec):
    """Values are whole numbers 0 .. size-1: id 0 is missing, 1 outside that range, value + 2 inside."""

    size: Count
    """Number of different values."""

    def has_id(self, token: str) -> bool:
        """Returns whether a token has an id of its own, as in the transform graph."""
        return re.fullmatch(IDENTITY_TOKEN, token) is not None and 0 <= int(token) < self.size
