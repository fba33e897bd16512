"""Features that become ids: categories, booleans, dates and text."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from fullpass.preprocessing.dates.date_format import PARTS, date_part_kind
from fullpass.preprocessing.features.base_feature import BaseFeature, WrittenDateFormat
from fullpass.preprocessing.features.ids import Encoding, Hash, Identity, Vocabulary
from fullpass.preprocessing.features.label import FALSE, TRUE
from fullpass.preprocessing.features.lists import Encoder, OptionalList, list_options, refuse_attention, refuse_order
from fullpass.preprocessing.features.output import Output, dense_output, ids_output, transformed_name, weight_name
from fullpass.preprocessing.spec import Count, Flag, Name
from fullpass.preprocessing.token_spelling import as_token, distinct_tokens

_PIECES = {"top_k": 8_000, "min_count": 2}
"""The vocabulary of subwords by default: pieces that occur once are no pieces of other words."""


class CategoryFeature(BaseFeature):
    """One of many values; a list of them with `list`, or several in one cell with `separator`.

    Transformed: int64 ids [batch], or a ragged row of ids in their order, without missing elements. Numbers become text
    (docs/sources.md). Give at most one of vocabulary, hash, identity; a vocabulary is the default.
    """

    example: ClassVar[str] = """\
company: category                  # a vocabulary of train's values, one OOV bucket
payment: {type: category, vocabulary: {tokens: [cash, card], oov_buckets: 2}, encoding: one_hot}
zone: {type: category, identity: {size: 78}, encoding: {embedding: 8}}
genres: {type: category, separator: "|", lowercase: true, hash: {buckets: 500}}
cast: {type: category, separator: "['a', 'b']"}   # text such as ['Ann Lee', "O'Hara"]
tags: {type: category, list: {max_length: 20, weights: scores}}
"""
    computed_by: ClassVar = "category.category"
    column_holds: ClassVar = "token"

    type: Literal["category"]
    separator: Name | None = None
    """Splits a cell into values, without blanks around them and empty ones. An example of a list, `"['a', 'b']"`,
    stands for lists as Python or JSON writes them: items without quotes; a comma in quotes splits none."""
    list: OptionalList = None
    """A list (docs/lists.md); with `separator`, options for the values of a cell."""
    lowercase: Flag = False
    """Lowercase tokens first (UTF-8)."""
    vocabulary: Vocabulary | None = None
    """Learned or given tokens."""
    hash: Hash | None = None
    """Ids without a pass over the data."""
    identity: Identity | None = None
    """Whole numbers as ids."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model (of numbers: after bucketize)."""

    @model_validator(mode="before")
    @classmethod
    def _default_vocabulary(cls, value: Any) -> Any:
        # Runs before the base class turns a bare `category` into a mapping.
        written = {"type": value} if isinstance(value, str) else value
        if isinstance(written, Mapping) and not {"vocabulary", "hash", "identity"} & set(written):
            return {**written, "vocabulary": {}}
        return value

    @field_validator("vocabulary")
    @classmethod
    def _given_tokens(cls, vocabulary: Vocabulary | None) -> Vocabulary | None:
        if vocabulary is None or vocabulary.tokens is None:
            return vocabulary
        try:
            return vocabulary.model_copy(update={"tokens": distinct_tokens(vocabulary.tokens)})
        except ValueError as error:
            raise ValueError(f"tokens: every token must be listed only once; {error}.") from None

    @model_validator(mode="after")
    def _one_mapping(self) -> "CategoryFeature":
        given = [n for n in ("vocabulary", "hash", "identity") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of vocabulary, hash, identity. Received: {', '.join(given) or 'none'}.")
        return self

    @property
    def unseen_ids(self) -> int:
        """Number of ids, from 0, for missing and unknown values."""
        if self.vocabulary is not None:
            return 1 + self.vocabulary.oov_buckets
        return 2 if self.identity is not None else 1

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields its ids; a list of them may be read in order."""
        options = list_options(self)
        output = ids_output(name, self.encoding, self.unseen_ids, options)
        if options is not None:
            candidate = None if options.attend_to is None else transformed_name(options.attend_to)
            output = replace(output, encoder=options.encoder, longest=options.max_length, attend_to=candidate)
        yield output

    def not_crossed(self, name: str) -> str | None:
        """Returns None: it has ids."""
        return None


class BooleanFeature(BaseFeature):
    """Transformed: int64 [batch], encoded one-hot; 0 missing or another text, 1 false, 2 true."""

    example: ClassVar[str] = """\
returning: boolean
member: {type: boolean, "true": [member], "false": [guest, none]}
"""
    computed_by: ClassVar = "category.boolean"
    column_holds: ClassVar = "token"

    type: Literal["boolean"]
    true: tuple[str, ...] = TRUE
    """Texts that mean true, in any case."""
    false: tuple[str, ...] = FALSE
    """Texts that mean false, in any case."""

    def reads(self, text: str) -> bool:
        """Returns whether a text means true or false, as in the transform graph."""
        accepted = {as_token(word.lower()) for word in (*self.true, *self.false)}
        return as_token(text.strip().lower()) in accepted

    @model_validator(mode="after")
    def _disjoint(self) -> "BooleanFeature":
        both = {t.lower() for t in self.true} & {t.lower() for t in self.false}
        if both:
            raise ValueError(f"a text cannot mean both true and false. Received in both: {sorted(both)}.")
        return self

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields its ids."""
        yield ids_output(name, "one_hot", 1)

    def not_crossed(self, name: str) -> str | None:
        """Returns None: it has ids."""
        return None


class DateFeature(BaseFeature):
    """A date or time, or a list of them; each part becomes a feature.

    Parts of a small range become ids (0 missing, then the range in order), or with `cyclic` a float32 pair (sin, cos),
    (0, 0) if missing. `year` and `epoch` become z-scored numbers, the mean if missing. Text in another format is
    missing.
    """

    example: ClassVar[str] = """\
started: date                      # month, day_of_week and hour of an ISO date
booked: {type: date, format: "%d.%m.%Y", parts: [month, weekend, epoch], cyclic: true}
"""
    computed_by: ClassVar = "date.date"

    type: Literal["date"]
    format: WrittenDateFormat = "iso"
    """`%Y-%m-%d %H:%M`, iso, epoch_seconds, epoch_millis or epoch_days (docs/transforms.md)."""
    parts: tuple[str, ...] = Field(default=("month", "day_of_week", "hour"), min_length=1)
    """Parts to extract."""
    cyclic: Flag = False
    """Repeating parts as (sin, cos) instead of ids."""
    list: OptionalList = None
    """A list of any length (docs/lists.md)."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model (of numbers: after bucketize)."""

    @model_validator(mode="after")
    def _pools_ids_only(self) -> "DateFeature":
        refuse_order(self.list, "a date")
        numbers = [part for part in self.parts if PARTS[part].size is None]
        if self.cyclic or numbers:
            refuse_attention(self.list, "a cyclic part" if self.cyclic else f"the part {numbers[0]}")
        return self

    @field_validator("parts")
    @classmethod
    def _known_parts(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        for part in parts:
            if part not in PARTS:
                raise ValueError(f"unknown part {part!r}. Accepted: {', '.join(PARTS)}.")
            if parts.count(part) > 1:
                raise ValueError(f"every part must be listed only once. Received twice: {part!r}.")
        return parts

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields the ids or numbers of each part."""
        for part in self.parts:
            as_ids = date_part_kind(part, cyclic=self.cyclic) == "ids"
            yield ids_output(name, self.encoding, 1, list_options(self), part) if as_ids else dense_output(name, part)

    def not_crossed(self, name: str) -> str | None:
        """Returns its parts, which have ids."""
        return f"{name} is a date. Name one of its parts: {', '.join(f'{name}.{part}' for part in self.parts)}."


class TextFeature(BaseFeature):
    """Text, as ids of its tokens.

    Transformed, by `output`: `ids` is a ragged row of int64 ids in order, or with `max_length` int64 [batch,
    max_length], padded with 0; `bag_of_words` is the distinct ids in ascending order; `tf_idf` adds float32 weights,
    tf(row) * idf(train), in a second pass over the data. Missing text has no tokens.

    `tokenize: subwords` learns `top_k` (8,000) pieces by byte-pair encoding from train's 100,000 most frequent words,
    and splits words into the longest ones from the beginning; a piece inside a word has the prefix `##`.
    `vocabulary.tokens` or `file` may give the pieces, such as BERT's `vocab.txt`.

    Source: tft.ngrams, tft.bag_of_words, tft.tfidf; Sennrich et al. (2016) and WordPiece for subwords.
    """

    example: ClassVar[str] = """\
message: text                      # bag of words, lowercased, the 20,000 most frequent
review: {type: text, ngrams: [1, 2], output: tf_idf, vocabulary: {top_k: 5000, min_count: 5}}
title: {type: text, tokenize: characters, output: ids, max_length: 80, encoding: {embedding: 16}, encoder: gru}
query: {type: text, tokenize: subwords, vocabulary: {top_k: 8000, min_count: 2}}
"""
    computed_by: ClassVar = "text.text"

    type: Literal["text"]
    lowercase: Flag = True
    """Lowercase text first (UTF-8)."""
    strip_punctuation: Flag = True
    """Replace all but letters, marks, numbers and blanks by blanks."""
    tokenize: Literal["whitespace", "words", "characters", "word_characters", "subwords"] = "whitespace"
    """whitespace: runs of non-blank characters. words: the same, but in scripts without blanks (Chinese, Japanese,
    Thai, Lao, Khmer, Burmese) each letter; add ngrams: [1, 2]. characters: all, with blanks. word_characters: those of
    each word, with a blank at both ends; n-grams stay within it. subwords: learned pieces of `words`."""
    pattern: Name | None = None
    """RE2 expression of the token separator, instead of `tokenize`."""
    ngrams: tuple[Count, Count] = (1, 1)
    """Shortest and longest run of adjacent tokens that becomes a token."""
    vocabulary: Vocabulary = Vocabulary(top_k=20_000, min_count=2)
    """Learned or given tokens."""
    output: Literal["ids", "bag_of_words", "tf_idf"] = "bag_of_words"
    """All tokens in order, distinct ones, or these with weights."""
    max_length: Count | None = None
    """Pads or cuts `ids` to this number."""
    encoder: Encoder | None = None
    """Reads `ids` in order; null: the mean of the embeddings."""
    list: OptionalList = None
    """A list of texts; their tokens are concatenated."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model (of numbers: after bucketize)."""

    @model_validator(mode="before")
    @classmethod
    def _default_pieces(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("tokenize") == "subwords" and "vocabulary" not in value:
            return {**value, "vocabulary": _PIECES}
        return value

    @model_validator(mode="after")
    def _fits(self) -> "TextFeature":
        if self.tokenize == "subwords":
            self._fits_subwords()
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError(f"ngrams: [shortest, longest]. Received: {list(self.ngrams)}.")
        if self.max_length is not None and self.output != "ids":
            raise ValueError(f"max_length requires `output: ids`. Received: output: {self.output}.")
        if self.encoder is not None and (self.output != "ids" or self.max_length is None):
            raise ValueError("encoder: requires `output: ids` and `max_length`.")
        refuse_order(self.list, "a text, whose `encoder` is a key of the feature, not of `list`")
        if self.list is not None and self.list.weights is not None:
            raise ValueError(
                "list.weights: not supported for a text, because its tokens are not list elements. Remove it."
            )
        return self

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields the ids of its tokens."""
        tf_idf = self.output == "tf_idf"
        ids = ids_output(name, self.encoding, 0, list_options(self))
        ids = replace(ids, multi=True, weights=weight_name(name) if tf_idf else None, tf_idf=tf_idf)
        yield replace(ids, encoder=self.encoder, longest=self.max_length)

    def _fits_subwords(self) -> None:
        for key, usual in (("pattern", None), ("ngrams", (1, 1))):
            if getattr(self, key) != usual:
                raise ValueError(f"{key}: cannot be used with `tokenize: subwords`. Remove it, or write `words`.")
        if self.vocabulary.coverage is not None:
            raise ValueError("vocabulary.coverage: cannot be used with `tokenize: subwords`. Write `top_k: 8000`.")
        if self.vocabulary.is_learned and self.vocabulary.top_k is None:
            raise ValueError("vocabulary: `tokenize: subwords` needs the number of pieces. Write `top_k: 8000`.")
