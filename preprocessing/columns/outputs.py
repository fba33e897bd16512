"""The outputs of the transform graph: one entry per transformed feature, available before any data is read.

The trainer builds its inputs from these entries. Widths and sizes are not included; they come from the transform graph.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.dates.date_format import PARTS
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    CustomFeature,
    DateFeature,
    DurationFeature,
    Feature,
    ImageFeature,
    NumberFeature,
    TextFeature,
    transformed_name,
)
from fullpass.preprocessing.features.ids import Encoding
from fullpass.preprocessing.features.lists import Encoder, ListOf, Pooling, list_options

LABEL = "label"
"""Transformed label: float32 [batch] (binary 0/1, regression), int64 [batch] (multiclass, class ids from 0) or float32
[batch, classes] (multilabel, 0/1). An example without a usable label has label 0 and weight 0.

Class ids have a domain in the transformed schema. `num_buckets_for_transformed_feature` therefore returns the number of
classes of a multiclass label and of a multilabel label with learned classes. The latter is a row of any length of int64
ids. The trainer converts it to [batch, classes] of 0 and 1 with
`tf.reduce_max(tf.one_hot(ids.to_tensor(-1), classes), axis=1)`.
"""
EXAMPLE_WEIGHT = "example_weight"
"""float32 [batch]: the declared weight, 1 if none is declared, 0 if the label is missing."""
LABEL_VOCABULARY = "label"
"""Name of the vocabulary of a multiclass or multilabel label with learned classes: `vocabulary_by_name` returns the
classes in id order."""
SPAN = "span"
"""int64 [batch]: the span of the row, modulo 4,096; an output of `transform_features` only, for model metrics."""
ROW_ID = "row_id"
"""int64 [batch]: the row number from ingest, -1 if the example did not come from ingest."""
UNKNOWN_TOKENS = (
    "tft.compute_and_apply_vocabulary and tft.apply_vocabulary give their `default_value`, -1 if it is not set, to "
    "missing and unknown tokens; one unknown token at serving is enough. Pass num_oov_buckets=1, or a default_value of "
    "at least 0, such as the size of the vocabulary, for an id of its own."
)
"""The cause of ids below 0 that a function of the user's returns, and the fix; for error messages."""


@dataclass(frozen=True)
class Output:
    """One transformed feature.

    kind: `dense` is float32 [batch] or [batch, width]; `ids` is int64, [batch] or, if `multi`, a row of ids with 0 as
    padding only: of any length (a VarLenFeature, without zeros except in sequences), or [batch, max_length]. The
    transformed schema has the domain of every `ids`. `image` is pixels [batch, height, width, channels], declared by
    `image`: uint8 in training, int64 in TF Transform. weights: name of the transformed feature with a float32 weight
    per id, if any, which is of any length too. tf_idf: whether these are by tf-idf. unseen: number of ids, from 0, for
    missing and unknown values; 0 if that number is unknown. pooling: pooling of the ids of a row, if configured.
    encoder: encoder that reads at most `longest` ids in order instead. attend_to: the transformed feature with the id
    that they are compared with. table: name of the embedding, if its vocabulary is shared. sequence: the sequence that
    contains it as a column. Its rows then hold 0 for missing values too, which makes all columns of a sequence equally
    long; a number is the id 2, a missing number the id 1, and the number is the weight of the id.
    """

    name: str
    feature: str
    kind: Literal["dense", "ids", "image"]
    multi: bool = False
    encoding: Encoding = "auto"
    weights: str | None = None
    unseen: int = 0
    image: ImageFeature | None = None
    pooling: Pooling | None = None
    encoder: Encoder | None = None
    longest: int | None = None
    attend_to: str | None = None
    table: str | None = None
    sequence: str | None = None
    tf_idf: bool = False


def outputs(config: PreprocessingConfig) -> tuple[Output, ...]:
    """Returns the transformed features of `config`, in the order of the YAML, crosses last.

    Empty if a user-defined function replaces the transforms: then only the transform graph has the names.
    """
    if config.function is not None:
        return ()
    users = config.vocabulary_users()
    of_features = [
        _with_table(output, config, users)
        for name, feature in config.features.items()
        for output in _outputs_of(name, feature, config)
    ]
    of_crosses = [
        Output(
            transformed_name(c.feature_name),
            c.feature_name,
            "ids",
            encoding=c.encoding,
            unseen=1 + (c.vocabulary.oov_buckets if c.vocabulary is not None else 0),
        )
        for c in config.crosses
    ]
    return (*of_features, *of_crosses)


def most_pixels(features: Iterable[Output]) -> int:
    """Returns the number of pixels of the largest image among transformed features, 0 without images."""
    return max((output.image.size[0] * output.image.size[1] for output in features if output.image), default=0)


def vocabulary_name(feature: str) -> str:
    """Returns the name of the vocabulary that a feature or cross learns, for `TFTransformOutput.vocabulary_by_name`.

    Given vocabularies, booleans, hashes and identities have no vocabulary file. The vocabulary of a tf_idf or
    bag_of_words feature is that of its n-grams.
    """
    return f"vocabulary_{_file_name(feature)}"


def count_name(feature: str) -> str:
    """Returns the name of the file in which a count feature keeps the count of each value in the train split."""
    return f"count_{_file_name(feature)}"


def target_name(feature: str) -> str:
    """Returns the name of the file in which a target feature keeps the encoding of each value."""
    return f"target_{_file_name(feature)}"


def _file_name(text: str) -> str:
    """Returns a unique name of letters, digits and underscores; TF Transform replaces other characters."""
    safe = re.sub(r"[^A-Za-z0-9_]", "_", text)[:100]
    return safe if safe == text else f"{safe}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def date_part_kind(part: str, *, cyclic: bool) -> Literal["dense", "ids", "cyclic"]:
    """Returns the representation of a date part: a z-scored number, an id, or a (sin, cos) pair."""
    if PARTS[part].size is None:
        return "dense"
    return "cyclic" if cyclic and PARTS[part].period is not None else "ids"


def _outputs_of(name: str, feature: Feature, config: PreprocessingConfig) -> Iterator[Output]:
    sequence = config.sequence_of(name)
    if sequence is not None:
        yield from _outputs_of_sequence(name, feature, sequence, config)
        return
    key = transformed_name(name)
    options = list_options(feature)

    def ids(encoding: Encoding, unseen: int, part: str | None = None) -> Output:
        weights = weight_name(name, part) if options is not None and options.weights is not None else None
        pooling = None if options is None else options.pooling
        named = transformed_name(name, part)
        return Output(named, name, "ids", options is not None, encoding, weights, unseen, pooling=pooling)

    if isinstance(feature, NumberFeature | DurationFeature):
        yield ids(feature.encoding, 1) if feature.bucketized else Output(key, name, "dense")
        if feature.indicator:
            yield Output(transformed_name(name, "missing"), name, "dense")
    elif isinstance(feature, DateFeature):
        for part in feature.parts:
            as_ids = date_part_kind(part, cyclic=feature.cyclic) == "ids"
            yield ids(feature.encoding, 1, part) if as_ids else Output(transformed_name(name, part), name, "dense")
    elif isinstance(feature, CategoryFeature):
        output = ids(feature.encoding, _unseen_ids(feature))
        yield _in_order(output, options) if options is not None else output
    elif isinstance(feature, BooleanFeature):
        yield Output(key, name, "ids", encoding="one_hot", unseen=1)
    elif isinstance(feature, TextFeature):
        tf_idf = feature.output == "tf_idf"
        weights = weight_name(name) if tf_idf else None
        output = replace(ids(feature.encoding, 0), multi=True, weights=weights, tf_idf=tf_idf)
        yield replace(output, encoder=feature.encoder, longest=feature.max_length)
    elif isinstance(feature, ImageFeature):
        yield Output(key, name, "image", image=feature)
    elif isinstance(feature, CustomFeature) and feature.ids is not None:
        yield Output(key, name, "ids", encoding=feature.encoding)
    else:
        yield Output(key, name, "dense")


def _outputs_of_sequence(name: str, feature: Any, sequence: str, config: PreprocessingConfig) -> Iterator[Output]:
    """Yields the outputs of a column of a sequence: rows of ids, and for numbers their values as weights."""
    declared = config.sequences[sequence]
    candidate = declared.attend_to
    attends = candidate is not None and config.vocabulary_owner(candidate) == config.vocabulary_owner(name)
    for part in feature.parts if isinstance(feature, DateFeature) else (None,):
        key = transformed_name(name, part)
        as_number = is_number_of_sequence(feature, part)
        yield Output(
            key,
            name,
            "ids",
            multi=True,
            encoding=feature.encoding,
            weights=weight_name(name, part) if as_number else None,
            unseen=_unseen_ids(feature) if isinstance(feature, CategoryFeature) else 1,
            pooling=declared.pooling,
            encoder=declared.reader,
            longest=declared.max_length,
            attend_to=transformed_name(candidate) if attends and candidate is not None else None,
            sequence=sequence,
        )


def is_number_of_sequence(feature: Feature, part: str | None) -> bool:
    """Returns whether a column of a sequence, or a part of its dates, is a number instead of an id."""
    if isinstance(feature, DateFeature):
        return date_part_kind(part or "", cyclic=False) == "dense"
    return isinstance(feature, NumberFeature) and not feature.bucketized


def _in_order(output: Output, options: ListOf) -> Output:
    candidate = None if options.attend_to is None else transformed_name(options.attend_to)
    return replace(output, encoder=options.encoder, longest=options.max_length, attend_to=candidate)


def _with_table(output: Output, config: PreprocessingConfig, users: Mapping[str, Sequence[str]]) -> Output:
    """Returns an output with the embedding and encoding of the category that it shares a vocabulary with."""
    owner = config.vocabulary_owner(output.feature)
    if len(users[owner]) < 2 or output.kind != "ids":
        return output
    of_owner = config.features[owner]
    if not isinstance(of_owner, CategoryFeature):
        return output
    table = transformed_name(owner)
    return replace(output, encoding=of_owner.encoding, unseen=_unseen_ids(of_owner), table=table)


def weight_name(name: str, part: str | None = None) -> str:
    """Returns the name of the transformed feature with the weights of the ids of a feature, or of a date part."""
    return transformed_name(name, "weight" if part is None else f"{part}.weight")


def _unseen_ids(feature: CategoryFeature) -> int:
    if feature.vocabulary is not None:
        return 1 + feature.vocabulary.oov_buckets
    return 2 if feature.identity is not None else 1


def input_name(feature: str) -> str:
    """Returns the name of the Keras input of a transformed feature: its own, without the `/` that Keras forbids."""
    return feature.replace("/", "\N{DIVISION SLASH}")


def feature_names(features: Sequence[Output]) -> list[str]:
    """Returns every transformed feature that a model reads, weights of ids included."""
    return [name for output in features for name in (output.name, output.weights) if name is not None]
