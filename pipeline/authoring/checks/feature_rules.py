"""Checks of features and crosses: names, inputs, vocabularies, shared embeddings, images, where they are computed."""

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.components.ingest.sources.storage import open_raw
from fullpass.components.predict.predicted_columns import score_columns, taken_names
from fullpass.pipeline.authoring.checks.walks import columns_of_features, features_and_crosses, features_of
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys, format_path
from fullpass.preprocessing.apply.vocabulary_file import category_tokens, vocabulary_tokens
from fullpass.preprocessing.columns.compute_at import compute_at_by_feature, string_features
from fullpass.preprocessing.columns.outputs import outputs
from fullpass.preprocessing.columns.raw_columns import uses_of
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.dates.date_format import date_part_kind
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import (
    CategoryFeature,
    DateFeature,
    Feature,
    TargetFeature,
    TextFeature,
)
from fullpass.preprocessing.features.ids import Embedding, Vocabulary
from fullpass.preprocessing.features.image_feature import ImageFeature, Pretrained
from fullpass.preprocessing.features.lists import list_options, reads_list
from fullpass.preprocessing.features.target_feature import encoded_parts
from fullpass.trainer.loss_config import levels_of


def check_output_names(loaded: Loaded) -> Iterator[Finding]:
    """No two transformed features have the same name."""
    owner: dict[str, Keys] = {}
    for name, sequence in loaded.config.sequences.items():
        for twice in sorted(sequence.features(name).keys() & loaded.config.features.keys()):
            yield Finding(("features", twice), f"has the name of a column of sequences.{name}. Rename one.")
    transformed = outputs(loaded.config.preprocessing_config)
    first_cross = len(transformed) - len(loaded.config.crosses)
    for i, output in enumerate(transformed):
        keys: Keys = loaded.config.keys_of(output.feature) if i < first_cross else ("crosses", i - first_cross)
        for name in filter(None, (output.name, output.weights)):
            if name in owner:
                yield Finding(keys, f"produces {name}, as {format_path(owner[name])} does. Rename one.")
            owner[name] = keys


def check_names_of_predictions(loaded: Loaded) -> Iterator[Finding]:
    """No column that the model reads has the name of one that `fullpass predict` adds to the rows."""
    config = loaded.config
    scores = score_columns(config.label.class_names or (), levels_of(config.training.loss))
    for keys, _, sources in columns_of_features(loaded):
        for column in taken_names(sorted(sources - config.data.derive.keys()), scores):
            message = (
                f"reads {column}, but `fullpass predict` adds a column {column} to the rows. Rename it in the data."
            )
            yield Finding(keys, message)


def check_crosses(loaded: Loaded) -> Iterator[Finding]:
    """Inputs of crosses are features that have one id per row."""
    features = loaded.config.features
    crosses = {cross.feature_name for cross in loaded.config.crosses}
    for i, cross in enumerate(loaded.config.crosses):
        for j, name in enumerate(cross.inputs):
            if (problem := _cross_input_problem(name, features, crosses)) is not None:
                yield Finding(("crosses", i, "inputs", j), problem)


def check_target_encodings(loaded: Loaded) -> Iterator[Finding]:
    """The label has a mean, or classes that are known; a cross that is encoded exists."""
    config = loaded.config.preprocessing_config
    for name, feature in features_of(loaded, TargetFeature):
        try:
            encoded_parts(config.label)
            if feature.cross is not None:
                config.cross_of(feature)
        except UserError as error:
            yield Finding(("features", name), str(error))


def check_separators(loaded: Loaded) -> Iterator[Finding]:
    """A category declares its separator beside `list`; only the columns of a sequence have one under `list`."""
    for name, feature in features_of(loaded, CategoryFeature):
        options = list_options(feature)
        if options is not None and options.separator is not None:
            what = "a category takes `separator` beside `list`, not under it. Move it."
            yield Finding(("features", name, "list", "separator"), what)


def check_text_patterns(loaded: Loaded) -> Iterator[Finding]:
    """The separator of tokens is an RE2 expression, and matches what is left of a text."""
    for name, feature in loaded.config.features.items():
        if isinstance(feature, TextFeature) and feature.pattern is not None:
            keys: Keys = ("features", name, "pattern")
            try:
                parted = _matches(_PUNCTUATED, feature.pattern) & ~_matches(_PUNCTUATED_BLANK, feature.pattern)
            except pa.ArrowInvalid as error:
                yield Finding(keys, f"is no RE2 expression: {str(error).partition(': ')[2]}.")
                continue
            if feature.strip_punctuation and parted.any():
                sign = _PUNCTUATED[int(parted.argmax())].strip("ab ")[0]
                yield warning(
                    keys,
                    f"matches {sign!r}, which strip_punctuation replaces by a blank before the text is split. Add "
                    "strip_punctuation: false.",
                )


_PUNCTUATED = [f"a{around}b" for sign in string.punctuation for around in (sign, sign * 2, f" {sign} ", f"{sign} ")]
_PUNCTUATED_BLANK = [re.sub(r"[^ab]", " ", text) for text in _PUNCTUATED]


def _matches(texts: Sequence[str], pattern: str) -> np.ndarray:
    return pc.match_substring_regex(pa.array(texts), pattern).to_numpy(zero_copy_only=False)


def check_vocabulary_files(loaded: Loaded) -> Iterator[Finding]:
    """Vocabulary files exist and hold tokens."""
    for keys, item in features_and_crosses(loaded):
        vocabulary = getattr(item, "vocabulary", None)
        if isinstance(vocabulary, Vocabulary) and vocabulary.file is not None:
            if (problem := _vocabulary_problem(loaded.resolve(vocabulary.file), item)) is not None:
                yield Finding((*keys, "vocabulary", "file"), problem)


def check_shared_embeddings(loaded: Loaded) -> Iterator[Finding]:
    """A shared embedding table has several readers, and an id has the same meaning for all of them."""
    tables: dict[str, list[tuple[Keys, Embedding, Any]]] = {}
    for keys, item in features_and_crosses(loaded):
        encoding = getattr(item, "encoding", None)
        if isinstance(encoding, Embedding) and encoding.shared is not None:
            tables.setdefault(encoding.shared, []).append((keys, encoding, _ids_of(str(keys[-1]), item)))
    for table, ((first, encoding, ids), *others) in tables.items():
        keys = (*first, "encoding", "shared")
        if not others:
            hint = did_you_mean(table, [other for other in tables if other != table])
            yield Finding(keys, f"no other feature shares {table}.{hint} Name it in a second feature, or remove it.")
        for keys, other_encoding, other_ids in others:
            if other_ids != ids:
                yield Finding(
                    (*keys, "encoding", "shared"),
                    f"{format_path(first)} assigns ids in another way, so one row of {table} would stand for "
                    "different things. Give both the same vocabulary.tokens, vocabulary.file, hash or identity.",
                )
            elif other_encoding.embedding != encoding.embedding:
                yield Finding(
                    (*keys, "encoding", "embedding"),
                    f"{format_path(first)} shares the table {table} with another width. Give both the same.",
                )


def check_shared_vocabularies(loaded: Loaded) -> Iterator[Finding]:
    """A shared vocabulary is owned by a category, and attention has a candidate feature with the same vocabulary."""
    config = loaded.config.preprocessing_config
    categories = {name: f for name, f in config.features.items() if isinstance(f, CategoryFeature)}
    for name, feature in config.features.items():
        owner = config.shared_with(name)
        if owner is not None:
            keys: Keys = (*loaded.config.keys_of(name), "vocabulary", "shared_with")
            if (problem := _owner_problem(name, owner, categories)) is not None:
                yield Finding(keys, problem)
        options = list_options(feature)
        if options is not None and options.attend_to is not None:
            if (problem := _candidate_problem(config, options.attend_to, [name])) is not None:
                yield Finding(("features", name, "list", "attend_to"), problem)
    for name, sequence in config.sequences.items():
        if sequence.attend_to is not None:
            problem = _candidate_problem(config, sequence.attend_to, list(sequence.features(name)))
            if problem is not None:
                yield Finding(("sequences", name, "attend_to"), problem)


def _candidate_problem(config: PreprocessingConfig, candidate: str, lists: Sequence[str]) -> str | None:
    """Returns why a candidate cannot attend to the elements of lists; None if exactly one list has its vocabulary."""
    categories = {name: f for name, f in config.features.items() if isinstance(f, CategoryFeature)}
    if candidate not in categories or list_options(categories[candidate]) is not None:
        return f"{candidate} is no category with one value per row.{did_you_mean(candidate, categories)}"
    owner = config.vocabulary_owner(candidate)
    sharing = [name for name in lists if config.vocabulary_owner(name) == owner]
    if len(sharing) == 1:
        return None
    if sharing:
        return f"{' and '.join(sharing)} have its vocabulary, but only one may. Remove shared_with from the others."
    where = config.path_of(lists[0]) if len(lists) == 1 else "the column that holds the same kind of values"
    return (
        f"{candidate} has its own vocabulary, so the same id means different values in both. Write "
        f"vocabulary: {{shared_with: {candidate}}} in {where}."
    )


def _owner_problem(name: str, owner: str, categories: Mapping[str, CategoryFeature]) -> str | None:
    """Returns why a feature cannot use the vocabulary of `owner`, or None if it can."""
    if name not in categories:
        return f"is for categories, and {name} is none."
    if owner == name:
        return f"{name} is this feature itself. Name another category, or remove shared_with."
    if owner not in categories:
        return f"{owner} is no category.{did_you_mean(owner, categories)}"
    vocabulary = categories[owner].vocabulary
    if vocabulary is None or vocabulary.shared_with is not None:
        return f"{owner} has no vocabulary of its own to share."
    if not vocabulary.is_learned:
        return (
            f"the tokens of {owner} are given, not learned. Give {name} the same tokens, and both the same "
            "encoding.shared."
        )
    if categories[owner].lowercase != categories[name].lowercase:
        return (
            f"only one of {name} and {owner} has lowercase: true, so one value would have two tokens. Set both to "
            "the same."
        )
    return None


def check_own_preprocessing(loaded: Loaded) -> Iterator[Finding]:
    """Beside a user's preprocessing function, features only name columns and types, and there are no crosses."""
    config = loaded.config
    if config.preprocessing is None:
        return
    why = "not used: `preprocessing` replaces the transforms of all features."
    if config.crosses:
        yield Finding(("crosses",), f"{why} Compute crosses in that function.")
    for name, feature in config.all_features.items():
        for key in sorted(feature.model_fields_set - {"type"}):
            keys: Keys = (*config.keys_of(name), key)
            if keys in loaded.tree.lines and not _shapes_column(name, feature, key):
                hint = "set input.compute_at" if key == "compute_at" else "compute it in that function"
                yield Finding(keys, f"{why} Remove it here, and {hint}.")


def _shapes_column(name: str, feature: Feature, key: str) -> bool:
    """Returns whether an option of a feature says how its column is read, rather than what is made of it."""
    rest = feature.model_dump(exclude_unset=True, exclude={key})
    try:
        return [*uses_of(name, type(feature).model_validate(rest))] != [*uses_of(name, feature)]
    except ValidationError:
        return True


def _cross_input_problem(name: str, features: Mapping[str, Feature], crosses: set[str]) -> str | None:
    if name in features:
        return _not_one_id(name, features[name])
    feature, _, part = name.rpartition(".")
    date = features.get(feature)
    if isinstance(date, DateFeature):
        if date.list is not None:
            return f"{feature} holds several dates per row; a cross takes one value per row."
        if part not in date.parts:
            return (
                f"{feature} has no part {part!r}.{did_you_mean(part, date.parts)} Its parts: {', '.join(date.parts)}."
            )
        kind = date_part_kind(part, cyclic=date.cyclic)
        hint = "; remove `cyclic`, or add the date a second time without it." if kind == "cyclic" else "."
        return None if kind == "ids" else f"{name} is a number, not an id{hint}"
    if name in crosses:
        return f"{name} is a cross itself. List all inputs in one cross."
    usable = [*features, *(f"{n}.{p}" for n, f in features.items() if isinstance(f, DateFeature) for p in f.parts)]
    return f'no feature "{name}".{did_you_mean(name, usable)} Features: {", ".join(features)}.'


def _not_one_id(name: str, feature: Feature) -> str | None:
    """Returns why a feature cannot be crossed, or None if it has one id per row."""
    if list_options(feature) is not None:
        return f"{name} holds several values per row; a cross takes one value per row."
    return feature.not_crossed(name)


def _vocabulary_problem(path: str, item: Feature | Cross) -> str | None:
    try:
        with open_raw(path) as file:
            lines = vocabulary_tokens(path, file.read())
        if isinstance(item, CategoryFeature):
            category_tokens(path, lines)
    except FileNotFoundError:
        return f"no such file: {path}."
    except (OSError, UserError) as error:
        return str(error)
    return None


def _ids_of(name: str, item: Feature | Cross) -> Any:
    """Returns what determines the meaning of each id: all settings, and the column if ids are learned from it."""
    settings = item.model_dump(exclude={"encoding", "missing", "indicator", "name", "compute_at"})
    vocabulary = getattr(item, "vocabulary", None)
    learned = vocabulary is not None and vocabulary.tokens is None and vocabulary.file is None
    if isinstance(item, CategoryFeature) and not learned:
        return {key: settings[key] for key in ("type", "vocabulary", "hash", "identity")}
    return settings | {"column": getattr(item, "column", None) or name}


def check_pretrained(loaded: Loaded) -> Iterator[Finding]:
    """The weights of pretrained encoders are existing local files: every build reads them for a digest."""
    for name, feature in features_of(loaded, ImageFeature):
        encoder = feature.encoder
        if isinstance(encoder, Pretrained):
            path = loaded.resolve(encoder.weights)
            where: Keys = ("features", name, "encoder", "pretrained", "weights")
            if is_address(path):
                yield Finding(
                    where, f"{path} is an address. Accepted: a local file. Copy the weights to one and give its path."
                )
            elif not Path(path).is_file():
                yield Finding(
                    where,
                    f"no file {path}. Create it on a machine that can download the weights: "
                    f"keras.applications.{encoder.architecture}(include_top=False).save_weights(FILE).",
                )


def check_mixup(loaded: Loaded) -> Iterator[Finding]:
    """Mixup needs a model that reads only images decoded before the model, since nothing else can be blended."""
    images = dict(features_of(loaded, ImageFeature))
    blended = {name: feature for name, feature in images.items() if feature.augment and feature.augment.mixup}
    config = loaded.config
    others = [
        *(name for name in config.features if name not in images),
        *(cross.feature_name for cross in config.crosses),
        *(f"sequences.{name}" for name in config.sequences),
    ]
    for name, feature in blended.items():
        keys: Keys = ("features", name, "augment", "mixup")
        if others:
            yield Finding(
                keys,
                f"blends whole examples, but {', '.join(others[:3])} cannot be blended: a category has nothing between "
                "two values. Remove mixup; flip, crop, cutout and the others remain.",
            )
        if feature.compute_at == "model":
            yield Finding(keys, "blends pixels, but the image is decoded in the model. Use compute_at: input.")
        if len({images_of.augment.mixup for images_of in blended.values() if images_of.augment}) > 1:
            yield Finding(keys, "blends whole examples, so mixup must be the same for all images.")


def check_text_in_the_model(loaded: Loaded) -> Iterator[Finding]:
    """Features that read text are not computed on a GPU or TPU."""
    config = loaded.config
    by_keys: dict[Keys, list[str]] = {}
    preprocessing = config.preprocessing_config
    in_model = [name for name, where in compute_at_by_feature(preprocessing).items() if where == "model"]
    try:
        on_text = string_features(preprocessing, in_model)
    except UserError:
        return  # check_derive or check_column_types reports the error
    for name in in_model:
        if name in on_text:
            by_keys.setdefault(_keys_of_compute_at(loaded, name), []).append(name)
    for keys, names in by_keys.items():
        which = f"{', '.join(names)}: computed in the model with text, which"
        if config.training.distribution == "tpu":
            yield Finding(keys, f"{which} a TPU cannot work on. Choose compute_at: input or transform.")
        elif config.training.xla is True:
            yield Finding(keys, f"{which} XLA cannot compile. Choose compute_at: input or transform, or leave out xla.")
        else:
            yield warning(
                keys,
                f"{which} only a CPU works on: with a GPU every training step waits for the host. `compute_at: input` "
                "computes it ahead of the step.",
            )


def check_lists_in_the_model(loaded: Loaded) -> Iterator[Finding]:
    """List features are not computed in the model, because its raw columns have a fixed width."""
    config = loaded.config
    features = config.all_features
    for name, where in compute_at_by_feature(config.preprocessing_config).items():
        if where == "model" and reads_list(features.get(name)):
            yield Finding(
                _keys_of_compute_at(loaded, name),
                f"{name} is a list, which is computed when examples are written or as training reads them. Give it "
                "compute_at: input, or transform.",
            )


def _keys_of_compute_at(loaded: Loaded, name: str) -> Keys:
    """Returns the path of the key that decides where a feature or cross is computed."""
    for i, cross in enumerate(loaded.config.crosses):
        if cross.feature_name == name:
            return ("crosses", i)
    own = loaded.config.all_features[name].compute_at is not None
    return (*loaded.config.keys_of(name)[:2], "compute_at") if own else ("input", "compute_at")
