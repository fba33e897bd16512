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
    """Width of the vector; `auto` is min(64, round(1.6 * size ** 0.56)), the rule of fast.ai's tabular model."""
    shared: Name | None = None
    """Features that name the same `shared` table use one embedding; their vocabularies must be equal."""


Encoding = Literal["auto", "one_hot"] | Embedding
"""Encoding of ids in the model: `one_hot` (multi-hot if a cell holds several values), `{embedding: 16}`, or `auto`:
one-hot up to 32 ids, an embedding above."""


class StableIds(Spec):
    """Ids of known tokens never change from one model to the next; new tokens get the ids after them.

    The known tokens are those of the last blessed model. `top_k`, `min_count` and `coverage` count selected tokens
    only. A token that they no longer select is retired: it keeps its slot, and therefore its id, for `keep_models` or
    `keep_spans`. After that a new token may take the slot; until one does, the old token keeps it. See
    docs/retraining.md.
    """

    keep_models: Count | None = None
    """Number of consecutive blessed models for which a retired token keeps its slot; 30 by default."""
    keep_spans: Count | None = None
    """Number of most recent spans, counted back from the newest span of the window. A token keeps its slot if it was
    selected in one of them. Instead of `keep_models`."""

    @model_validator(mode="after")
    def _one_unit(self) -> "StableIds":
        if self.keep_models is not None and self.keep_spans is not None:
            raise ValueError("give keep_models or keep_spans, not both.")
        return self

    @property
    def models(self) -> int:
        """Number of consecutive models for which a slot is kept; unused with `keep_spans`."""
        return 30 if self.keep_models is None else self.keep_models


class Vocabulary(Spec):
    """The tokens that get their own ids; learned tokens are ordered by descending frequency in the train split.

    Equally frequent tokens are in reverse alphabetical order. A token with a line break is outside the vocabulary,
    because the vocabulary file has one token per line. An analyzer, unless `tokens` or `file` gives the tokens.
    Source: tft.vocabulary.
    """

    top_k: Count | None = None
    """Keep the most frequent tokens only."""
    min_count: Count = 1
    """Keep tokens that occur at least this often in the train split."""
    coverage: Fraction | None = None
    """Keep the most frequent tokens that together make up this share of all values."""
    oov_buckets: Count = 1
    """Number of ids that tokens outside the vocabulary share, by hash."""
    tokens: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The tokens themselves, in id order."""
    file: Name | None = None
    """A text file with one token per line, in id order."""
    shared_with: Name | None = None
    """A category that shares its vocabulary with this feature: the tokens are those of both columns in the train split,
    ids have the same meaning in both, and embeddings are shared. All other settings come from that category."""
    stable_ids: StableIds | Flag | None = None
    """Ids of known tokens never change when the pipeline is run again on other data; by default the top-level
    `stable_ids`. true is short for the defaults."""

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
    """Returns how long a vocabulary keeps slots; None if its tokens are given, or its ids follow frequency.

    Args:
        vocabulary: The declaration.
        default: The top-level `stable_ids`.
    """
    chosen = default if vocabulary.stable_ids is None else vocabulary.stable_ids
    if not chosen or not vocabulary.is_learned:
        return None
    return StableIds() if isinstance(chosen, bool) else chosen


class Hash(Spec):
    """Ids by hash, with no vocabulary and no pass over the data: 0 missing, then 1 + hash(token) mod buckets."""

    buckets: Count
    """Number of hash buckets."""
    key: tuple[NonNegative, NonNegative] | None = None
    """Two integers that key a strong hash (SipHash), if users could choose colliding tokens; otherwise FarmHash."""


class Identity(Spec):
    """The values are already whole numbers 0 .. size-1: id 0 is missing, 1 outside that range, value + 2 inside."""

    size: Count
    """Number of different values."""

    def has_id(self, token: str) -> bool:
        """Returns whether a token has an id of its own, as in the transform graph."""
        return re.fullmatch(IDENTITY_TOKEN, token) is not None and 0 <= int(token) < self.size
