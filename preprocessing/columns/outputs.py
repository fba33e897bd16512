"""The outputs of the transform graph: one entry per transformed feature, available before any data is read.

The trainer builds its inputs from these entries. Widths and sizes are not included; they come from the transform graph.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import CategoryFeature, Feature
from fullpass.preprocessing.features.output import Output, transformed_name, weight_name

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
    of_crosses = [output for cross in config.crosses for output in cross.outputs()]
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


def _outputs_of(name: str, feature: Feature, config: PreprocessingConfig) -> Iterator[Output]:
    sequence = config.sequence_of(name)
    if sequence is None:
        yield from feature.outputs(name)
    else:
        yield from _outputs_of_sequence(name, feature, sequence, config)


def _outputs_of_sequence(name: str, feature: Any, sequence: str, config: PreprocessingConfig) -> Iterator[Output]:
    """Yields the outputs of a column of a sequence: rows of ids, and for numbers their values as weights."""
    declared = config.sequences[sequence]
    candidate = declared.attend_to
    attends = candidate is not None and config.vocabulary_owner(candidate) == config.vocabulary_owner(name)
    for output in feature.outputs(name):
        as_number = output.kind == "dense"
        yield replace(
            output,
            kind="ids",
            multi=True,
            encoding=feature.encoding,
            weights=weight_name(name, output.part) if as_number else None,
            unseen=1 if as_number else output.unseen,
            pooling=declared.pooling,
            encoder=declared.reader,
            longest=declared.max_length,
            attend_to=transformed_name(candidate) if attends and candidate is not None else None,
            sequence=sequence,
        )


def _with_table(output: Output, config: PreprocessingConfig, users: Mapping[str, Sequence[str]]) -> Output:
    """Returns an output with the embedding and encoding of the category that it shares a vocabulary with."""
    owner = config.vocabulary_owner(output.feature)
    if len(users[owner]) < 2 or output.kind != "ids":
        return output
    of_owner = config.features[owner]
    if not isinstance(of_owner, CategoryFeature):
        return output
    table = transformed_name(owner)
    return replace(output, encoding=of_owner.encoding, unseen=of_owner.unseen_ids, table=table)


def input_name(feature: str) -> str:
    """Returns the name of the Keras input of a transformed feature: its own, without the `/` that Keras forbids."""
    return feature.replace("/", "\N{DIVISION SLASH}")


def feature_names(features: Sequence[Output]) -> list[str]:
    """Returns every transformed feature that a model reads, weights of ids included."""
    return [name for output in features for name in (output.name, output.weights) if name is not None]
