"""What a feature is: one class per type. The fields are the YAML schema, the docstrings the manual.

The id contract of everything that becomes a category: 0 is missing, then the OOV buckets, then the vocabulary.
Sizes are never written here; they come from the transform graph. An empty text is missing, and so is an infinite
number.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from preprocessing.dates import PARTS, compile_format
from preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, Real, Spec
from preprocessing.transforms import Bucketize, NumberTransform, Pca, VectorTransform, VectorZScore, ZScore


class Embedding(Spec):
    """A trained vector per id."""

    embedding: Literal["auto"] | Annotated[int, Field(strict=True, ge=1)] = "auto"
    """Width of the vector; `auto` takes min(64, round(1.6 * size ** 0.56)), the rule of fast.ai's tabular model."""
    shared: Name | None = None
    """Features that name the same `shared` table use one embedding; their vocabularies must be equal."""


Encoding = Literal["auto", "one_hot"] | Embedding
"""How the model takes ids: `one_hot` (multi-hot where a cell holds several values), `{embedding: 16}`, or `auto`:
one-hot up to 32 ids, an embedding above."""


class StableIds(Spec):
    """Ids of known tokens never change from one model to the next; new tokens come behind them.

    Known are the tokens of the last blessed model. One that is not selected any more (by `top_k`, `min_count` and
    `coverage`, which count selected tokens only) is retired: it keeps its slot, and with that its id, as long as said
    here. Then a new token may take the slot; until one does, the old token has it still. See docs/retraining.md.
    """

    keep_models: Count | None = None
    """For how many blessed models in a row a retired token's slot is kept; 30 if nothing is said."""
    keep_spans: Count | None = None
    """How many spans back, from the newest of the window, a token may have been selected last. Instead of
    `keep_models`."""

    @model_validator(mode="after")
    def _one_unit(self) -> "StableIds":
        if self.keep_models is not None and self.keep_spans is not None:
            raise ValueError("give keep_models or keep_spans, not both.")
        return self

    @property
    def models(self) -> int:
        """Models in a row for which a slot is kept, where spans do not decide."""
        return 30 if self.keep_models is None else self.keep_models


class Vocabulary(Spec):
    """Which tokens get an id of their own; learned ones stand by falling frequency in train.

    Of equally frequent tokens the later in the alphabet stands first. A token with a line break is outside the
    vocabulary: its file has one token per line. An analyzer, unless `tokens` or `file` gives the tokens.
    Source: tft.vocabulary.
    """

    top_k: Count | None = None
    """Keep the most frequent tokens only."""
    min_count: Count = 1
    """Keep tokens seen at least so often in the train split."""
    coverage: Fraction | None = None
    """Keep the most frequent tokens that together make up this share of all values."""
    oov_buckets: Count = 1
    """Ids shared, by hash, among tokens outside the vocabulary."""
    tokens: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The tokens themselves, in id order."""
    file: Name | None = None
    """A text file with one token per line, in id order."""
    stable_ids: StableIds | Flag | None = None
    """Ids of known tokens never change when the pipeline is run again on other data; by default what the top level
    says. true is short for the defaults."""

    @model_validator(mode="after")
    def _one_source(self) -> "Vocabulary":
        defaults = {"top_k": None, "min_count": 1, "coverage": None}
        learned = [name for name, default in defaults.items() if getattr(self, name) != default]
        if self.tokens is not None and self.file is not None:
            raise ValueError("give tokens or file, not both.")
        if learned and (self.tokens is not None or self.file is not None):
            raise ValueError(f"{', '.join(learned)}: not used with a given list; remove it.")
        if self.stable_ids and not self.is_learned:
            raise ValueError("stable_ids: not used with a given list, whose order is yours; remove it.")
        if self.tokens is not None and len(set(self.tokens)) < len(self.tokens):
            twice = next(t for t in self.tokens if self.tokens.count(t) > 1)
            raise ValueError(f"every token must stand once. Received twice: {twice!r}.")
        return self

    @property
    def is_learned(self) -> bool:
        """Whether the tokens are those of train."""
        return self.tokens is None and self.file is None


def stable_ids_of(vocabulary: Vocabulary, default: StableIds | bool) -> StableIds | None:
    """Returns how long a vocabulary keeps slots; None where its ids are given, or go by frequency.

    Args:
        vocabulary: the declaration.
        default: what the top level says.
    """
    said = default if vocabulary.stable_ids is None else vocabulary.stable_ids
    if not said or not vocabulary.is_learned:
        return None
    return StableIds() if isinstance(said, bool) else said


class Hash(Spec):
    """Ids by hash, with no vocabulary and no pass over the data: 0 missing, then 1 + hash(token) mod buckets."""

    buckets: Count
    """Number of hash buckets."""
    key: tuple[NonNegative, NonNegative] | None = None
    """Two integers that key a strong hash (SipHash), where users could choose tokens to collide; else FarmHash."""


class Identity(Spec):
    """The values are whole numbers 0 .. size-1 already: id 0 missing, 1 outside that range, value + 2 inside."""

    size: Count
    """Number of different values."""


Place = Literal["transform", "input", "model"]
"""transform: once, when examples are written. input: on the raw columns, by the input function as training reads them.
model: on the raw columns, in the training step itself."""


class _Feature(Spec):
    type: str
    column: Name | None = None
    """Raw or derived column read; by default the one with the feature's own name."""
    place: Place | None = None
    """Where it is computed, see docs/places.md: transform (once, when examples are written), input (by the input
    function, as training reads), or model (in the training step); by default what `input.place` says. The values are
    the same."""

    @model_validator(mode="before")
    @classmethod
    def _bare_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value


MissingRule = Literal["mean", "median", "min", "max", "own_bucket"] | Real


class _Quantity(_Feature):
    missing: MissingRule = "mean"
    """mean | median | min | max of train's present values, a constant, or own_bucket (id 0, after bucketize)."""
    indicator: Flag = False
    """Adds a second feature: 1 where the value was missing, else 0."""
    transforms: tuple[NumberTransform, ...] = (ZScore(),)
    """Applied in order; `[]` leaves the number as it is."""
    encoding: Encoding = "auto"
    """For bucketized numbers: how the model takes the ids."""

    @model_validator(mode="before")
    @classmethod
    def _missing_of_buckets(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "missing" not in value and _ends_in_buckets(value.get("transforms")):
            return {**value, "missing": "own_bucket"}
        return value

    @field_validator("transforms")
    @classmethod
    def _buckets_last(cls, transforms: tuple[Any, ...]) -> tuple[Any, ...]:
        for earlier in transforms[:-1]:
            if isinstance(earlier, Bucketize):
                raise ValueError("bucketize must be the last transform: it turns the number into an id.")
        return transforms

    @model_validator(mode="after")
    def _own_bucket_needs_buckets(self) -> "_Quantity":
        if self.missing == "own_bucket" and not self.bucketized:
            raise ValueError("missing: own_bucket needs `bucketize` as the last transform.")
        if self.encoding != "auto" and not self.bucketized:
            raise ValueError("encoding is for ids; a number takes it only after `bucketize`.")
        return self

    @property
    def bucketized(self) -> bool:
        """Whether the transformed feature is an id."""
        return bool(self.transforms) and isinstance(self.transforms[-1], Bucketize)


class NumberFeature(_Quantity):
    """A quantity. Raw: one number per example. Transformed: float32 [batch], or int64 ids after `bucketize`.

    A missing value takes the value `missing` names, computed on the present values of the raw column in train and
    carried through the transforms. After `bucketize` it takes id 0 instead, unless `missing` says otherwise.
    """

    type: Literal["number"]


class DurationFeature(_Quantity):
    """The time from `start` to `end`, both date columns, as a number in `unit`; then as any number feature.

    Missing or unparsable on either side is missing. The difference is taken in whole microseconds and rounded to
    float32 once, at the end.
    """

    type: Literal["duration"]
    start: Name
    """Column with the earlier date."""
    end: Name
    """Column with the later date."""
    format: Name = "iso"
    """As in a date feature; one format for both columns."""
    unit: Literal["seconds", "minutes", "hours", "days"] = "seconds"
    """What the number counts, fractions included."""

    @field_validator("format")
    @classmethod
    def _known_format(cls, text: str) -> str:
        compile_format(text)
        return text


class CategoryFeature(_Feature):
    """One of many values, or several in one cell with `separator`. Transformed: int64 ids by the id contract.

    Single-valued: int64 [batch]. Multi-valued: a ragged row of ids, in the order of the cell; an empty cell is a
    row of no ids. Numbers are taken as text; a whole number is written without a decimal point.
    Give at most one of vocabulary, hash, identity; a vocabulary is the default.
    """

    type: Literal["category"]
    separator: Name | None = None
    """Splits a cell into several values; blanks around each are dropped, empty ones too."""
    lowercase: Flag = False
    """Tokens are lowercased (UTF-8) first."""
    vocabulary: Vocabulary | None = None
    hash: Hash | None = None
    identity: Identity | None = None
    encoding: Encoding = "auto"

    @model_validator(mode="before")
    @classmethod
    def _default_vocabulary(cls, value: Any) -> Any:
        # Runs before the base class turns a bare `category` into a mapping.
        written = {"type": value} if isinstance(value, str) else value
        if isinstance(written, Mapping) and not {"vocabulary", "hash", "identity"} & set(written):
            return {**written, "vocabulary": {}}
        return value

    @model_validator(mode="after")
    def _one_mapping(self) -> "CategoryFeature":
        given = [n for n in ("vocabulary", "hash", "identity") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of vocabulary, hash, identity. Received: {', '.join(given) or 'none'}.")
        return self


class BooleanFeature(_Feature):
    """True or false. Transformed: int64 [batch]; 0 missing or neither, 1 false, 2 true; encoded one-hot."""

    type: Literal["boolean"]
    true: tuple[str, ...] = ("true", "t", "yes", "y", "1", "1.0")
    """Texts that mean true, in any case."""
    false: tuple[str, ...] = ("false", "f", "no", "n", "0", "0.0")
    """Texts that mean false, in any case."""

    @model_validator(mode="after")
    def _disjoint(self) -> "BooleanFeature":
        both = {t.lower() for t in self.true} & {t.lower() for t in self.false}
        if both:
            raise ValueError(f"a text cannot mean both true and false. Received in both: {sorted(both)}.")
        return self


class DateFeature(_Feature):
    """A date or time. Each part becomes a transformed feature of its own.

    Parts in a small range (month, day_of_week, hour ...) become ids (0 missing, then the range in order), or with
    `cyclic` a float32 pair (sin, cos) in which December stands next to January and missing is (0, 0). `year` and
    `epoch` become z-scored numbers, missing as their mean. Text that does not fit the format is missing.
    """

    type: Literal["date"]
    format: Name = "iso"
    """strptime directives (`%Y-%m-%d %H:%M`), or iso, epoch_seconds, epoch_millis, epoch_days."""
    parts: tuple[str, ...] = Field(default=("month", "day_of_week", "hour"), min_length=1)
    """What is taken from the date, each once."""
    cyclic: Flag = False
    """Encode parts that repeat as (sin, cos) instead of ids."""
    encoding: Encoding = "auto"

    @field_validator("format")
    @classmethod
    def _known_format(cls, text: str) -> str:
        compile_format(text)
        return text

    @field_validator("parts")
    @classmethod
    def _known_parts(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        for part in parts:
            if part not in PARTS:
                raise ValueError(f"unknown part {part!r}. Accepted: {', '.join(PARTS)}.")
            if parts.count(part) > 1:
                raise ValueError(f"every part must stand once. Received twice: {part!r}.")
        return parts


class TextFeature(_Feature):
    """Free text. Tokenised, then turned into vocabulary ids.

    Transformed, by `output`: `ids` a ragged row of int64 ids in reading order, or int64 [batch, max_length] padded
    with 0 (missing) and cut where `max_length` is given; `bag_of_words` the distinct ids of the row; `tf_idf` the
    distinct ids with a float32 weight each, tf(row) * idf(train), which takes a second pass over the data. Missing
    text is a row of no tokens. Distinct ids stand in rising order.
    Source: tft.ngrams, tft.bag_of_words, tft.tfidf.
    """

    type: Literal["text"]
    lowercase: Flag = True
    """Text is lowercased (UTF-8) first."""
    strip_punctuation: Flag = True
    """Every character that is no letter, mark, number or blank becomes a blank."""
    tokenize: Literal["whitespace", "characters"] = "whitespace"
    """Words, or every character on its own, blanks too."""
    """What a token is: a run of characters that are not blank, or each character."""
    pattern: Name | None = None
    """An RE2 regular expression of what separates tokens, instead of `tokenize`."""
    ngrams: tuple[Count, Count] = (1, 1)
    """Shortest and longest run of neighbouring tokens that is a token of its own; joined by a blank."""
    vocabulary: Vocabulary = Vocabulary(top_k=20_000, min_count=2)
    output: Literal["ids", "bag_of_words", "tf_idf"] = "bag_of_words"
    """Every token in order, the distinct tokens, or these with weights."""
    max_length: Count | None = None
    """Pads and cuts `ids` to this many."""
    encoding: Encoding = "auto"

    @model_validator(mode="after")
    def _fits(self) -> "TextFeature":
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError(f"ngrams: [shortest, longest]. Received: {list(self.ngrams)}.")
        if self.max_length is not None and self.output != "ids":
            raise ValueError(f"max_length goes with `output: ids`. Received: output: {self.output}.")
        return self


class CountFeature(_Feature):
    """How often the example's value of a category stands in train (count or frequency encoding), as a number.

    Transformed: float32 [batch], after `transforms`. Missing and unseen values count 0. An analyzer.
    Source: tft.vocabulary with its frequencies.
    """

    type: Literal["count"]
    transforms: tuple[NumberTransform, ...] = ()
    """Stateless number transforms, such as log1p."""

    @field_validator("transforms")
    @classmethod
    def _stateless(cls, transforms: tuple[Any, ...]) -> tuple[Any, ...]:
        for transform in transforms:
            if transform.tag not in ("log1p", "sqrt", "power"):
                raise ValueError(f"a count takes log1p, sqrt or power. Received: {transform.tag}.")
        return transforms


class VectorFeature(_Feature):
    """A dense vector: one column that holds `width` numbers per example, or several number columns side by side.

    Transformed: float32 [batch, width], or [batch, dimensions] after pca. A missing component, and every component
    of a row of the wrong length, takes its mean over train.
    """

    type: Literal["vector"]
    columns: tuple[Name, ...] | None = Field(default=None, min_length=2)
    """Number columns that make up the vector, instead of one column of lists."""
    width: Count | None = None
    """Numbers per example in the one column of lists."""
    transforms: tuple[VectorTransform, ...] = (VectorZScore(),)
    """Applied in order; `[]` leaves the vector as it is."""

    @model_validator(mode="after")
    def _one_source(self) -> "VectorFeature":
        if (self.columns is None) == (self.width is None):
            raise ValueError("give columns (several number columns) or width (one column of lists).")
        if self.columns is not None and self.column is not None:
            raise ValueError("give columns or column, not both.")
        for i, transform in enumerate(self.transforms):
            if isinstance(transform, Pca) and transform.dimensions > self.size:
                raise ValueError(f"pca cannot make {transform.dimensions} dimensions of {self.size}.")
            if isinstance(transform, Pca) and i < len(self.transforms) - 1:
                raise ValueError("pca must be the last transform.")
        return self

    @property
    def size(self) -> int:
        """Components before the transforms."""
        return len(self.columns) if self.columns is not None else self.width or 0


class CustomFeature(_Feature):
    """A TensorFlow function of your own, by import path; it may use TFT analyzers.

    Called as `fn(columns)` with a dict of the raw columns named in `columns`: float32 [batch] with NaN for missing
    numbers, string [batch] with "" for missing text. Must return float32 [batch] or [batch, k] (k static), or, with
    `ids`, int64 [batch] in 0 .. ids-1; an id outside becomes 0. It becomes part of the graph, so it must be made of
    TensorFlow operations.
    """

    type: Literal["custom"]
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`package.module:function`."""
    columns: dict[Name, Literal["number", "string"]] = Field(min_length=1)
    """Raw or derived columns the function reads, and the type it wants each in."""
    ids: Count | None = None
    """Number of different ids, if the function returns ids."""
    encoding: Encoding = "auto"


FEATURE_TYPES: Mapping[str, type[_Feature]] = {
    "number": NumberFeature,
    "category": CategoryFeature,
    "boolean": BooleanFeature,
    "date": DateFeature,
    "duration": DurationFeature,
    "text": TextFeature,
    "count": CountFeature,
    "vector": VectorFeature,
    "custom": CustomFeature,
}


def _type_of(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return value.get("type")
    return getattr(value, "type", None)


def _ends_in_buckets(transforms: Any) -> bool:
    if not isinstance(transforms, list | tuple) or not transforms:
        return False
    last = transforms[-1]
    return isinstance(last, Bucketize) or last == "bucketize" or (isinstance(last, Mapping) and "bucketize" in last)


Feature = Annotated[
    Annotated[NumberFeature, Tag("number")]
    | Annotated[CategoryFeature, Tag("category")]
    | Annotated[BooleanFeature, Tag("boolean")]
    | Annotated[DateFeature, Tag("date")]
    | Annotated[DurationFeature, Tag("duration")]
    | Annotated[TextFeature, Tag("text")]
    | Annotated[CountFeature, Tag("count")]
    | Annotated[VectorFeature, Tag("vector")]
    | Annotated[CustomFeature, Tag("custom")],
    Discriminator(_type_of),
]


class Cross(Spec):
    """A category made of the combination of two or more features; missing where any of them is missing.

    Inputs are names of single-valued features: categories by token, booleans, bucketized numbers and custom ids by
    id, date parts as `feature.part`. Ids by the contract: `hash_buckets` hashes combinations (0 missing, then the
    buckets); `vocabulary` keeps the combinations seen in train. Transformed: int64 [batch].
    """

    separator: ClassVar[str] = "\x1f"

    inputs: tuple[Name, ...] = Field(min_length=2)
    """Names of features, or `feature.part` of dates."""
    name: Name | None = None
    """Name of the crossed feature; by default the inputs joined by `_x_`."""
    hash_buckets: Count | None = None
    """Number of hash buckets; 1000 unless `vocabulary` is given."""
    vocabulary: Vocabulary | None = None
    encoding: Encoding = "auto"

    @model_validator(mode="before")
    @classmethod
    def _default_buckets(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not {"hash_buckets", "vocabulary"} & set(value):
            return {**value, "hash_buckets": 1000}
        return value

    @model_validator(mode="after")
    def _one_mapping(self) -> "Cross":
        if self.hash_buckets is not None and self.vocabulary is not None:
            raise ValueError("give hash_buckets or vocabulary, not both.")
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"every input must stand once. Received: {list(self.inputs)}.")
        return self

    @property
    def feature_name(self) -> str:
        """The name under which the crossed feature is known."""
        return self.name or "_x_".join(self.inputs)


def transformed_name(feature: str, part: str | None = None) -> str:
    """Returns the name of a transformed feature: `fare` -> `fare_xf`, (`started_at`, `hour`) -> `started_at.hour_xf`.

    The only place that makes these names.
    """
    return f"{feature}.{part}_xf" if part else f"{feature}_xf"


Features = Annotated[dict[Name, Feature], Field(min_length=1)]
