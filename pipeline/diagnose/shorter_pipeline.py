"""The pipeline without some of its features: which features others hold, what goes with one, and the shorter YAML."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from fullpass.base.errors import UsageError, UserError, listed
from fullpass.base.files import write_atomically
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.checks.data_rules import unread_derived
from fullpass.pipeline.authoring.checks.join_rules import unread_histories, unread_joins
from fullpass.pipeline.authoring.loading.load import PIPELINE, Loaded, parse_as
from fullpass.pipeline.authoring.loading.problems import Keys, format_path
from fullpass.pipeline.authoring.loading.yaml_tree import without_keys
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.compute_at import crossed_features
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import Feature, TargetFeature
from fullpass.preprocessing.features.ids import Embedding
from fullpass.preprocessing.features.lists import list_options


def choose_weakest(ranked: Sequence[str], count: int, config: PipelineConfig) -> tuple[str, ...]:
    """Returns the last features of a ranking that may go; a held one stays as long as a feature that holds it."""
    chosen: list[str] = []
    holders = holders_of(config)
    for feature in reversed(ranked):
        if len(chosen) < count and holders.get(feature, set()) <= {*chosen}:
            chosen.append(feature)
    return tuple(chosen)


def holders_of(config: PipelineConfig) -> dict[str, set[str]]:
    """Returns feature -> the features that cannot be computed without it."""
    found: dict[str, set[str]] = {}
    for name, feature in config.all_features.items():
        for other in _needed(name, feature, config):
            found.setdefault(other, set()).add(name)
    return found


def _needed(name: str, feature: Feature, config: PipelineConfig) -> Iterator[str]:
    """Yields the features whose vocabulary a feature has, whose ids it attends to, or whose cross it encodes."""
    owner = getattr(getattr(feature, "vocabulary", None), "shared_with", None)
    preprocessing = config.preprocessing_config
    sequence = preprocessing.sequence_of(name)
    options = config.sequences[sequence] if sequence is not None else list_options(feature)
    yield from filter(None, (owner, getattr(options, "attend_to", None)))
    if isinstance(feature, TargetFeature) and feature.cross is not None:
        yield from crossed_features(preprocessing.cross_of(feature), preprocessing)


def crosses_of(features: Collection[str], config: PipelineConfig) -> dict[int, Cross]:
    """Returns the crosses that combine one of some features, by their index."""
    of_cross = [{*crossed_features(cross, config.preprocessing_config)} for cross in config.crosses]
    return {i: cross for i, cross in enumerate(config.crosses) if of_cross[i] & {*features}}


def without_features(loaded: Loaded, features: Collection[str], file: Path) -> Loaded:
    """Returns the pipeline without some features, and without what only they read, share or search.

    The text keeps all other lines and comments.

    Args:
        file: Where the shorter YAML will be.

    Raises:
        UserError: The entries cannot be cut out of the YAML.
        ConfigError: The shorter YAML would have errors.
    """
    shorter = _cut(loaded, set(_removed(loaded, features)), file)
    kept = {*_unread(loaded)}
    while only_theirs := {*_unread(shorter)} - kept:
        shorter = _cut(shorter, only_theirs, file)
    require(shorter)
    return shorter


def _unread(loaded: Loaded) -> Iterator[Keys]:
    """Yields the derived columns, histories and joins that nothing reads."""
    yield from (("data", "derive", name) for name in unread_derived(loaded))
    yield from (("data", "history", name) for name in unread_histories(loaded))
    yield from (("data", "joins", name) for name in unread_joins(loaded))


def _cut(loaded: Loaded, removed: Collection[Keys], file: Path) -> Loaded:
    text = without_keys(loaded.text, removed)
    if text is None:
        raise UserError(
            f"{loaded.file}: {listed(sorted(map(format_path, removed)))} cannot be cut out, because an anchor (&) in "
            "these lines is used in others. Write the others out."
        )
    config, tree = parse_as(file, text, PIPELINE)
    return Loaded(config=config, file=file, text=text, tree=tree)


def _removed(loaded: Loaded, features: Collection[str]) -> Iterator[Keys]:
    config = loaded.config
    crosses = crosses_of(features, config)
    yield from map(config.keys_of, features)
    yield from (("crosses", i) for i in crosses)
    readers: dict[str, list[Keys]] = {}
    holders: list[tuple[Keys, Any]] = [
        (("features", name), feature) for name, feature in config.features.items() if name not in features
    ]
    holders += [(("crosses", i), cross) for i, cross in enumerate(config.crosses) if i not in crosses]
    for keys, holder in holders:
        encoding = getattr(holder, "encoding", None)
        if isinstance(encoding, Embedding) and encoding.shared is not None:
            readers.setdefault(encoding.shared, []).append((*keys, "encoding", "shared"))
    yield from (only for only, *others in readers.values() if not others)
    searched = config.tuning.search if config.tuning else ()
    gone = [path for path in searched if any(path.startswith(f"features.{name}.") for name in features)]
    whole_search = len(gone) == len(searched)
    yield from [("tuning",)] if gone and whole_search else [("tuning", "search", path) for path in gone]


def check_place(loaded: Loaded, file: Path) -> None:
    """Raises UsageError unless this is a new file beside the YAML, so that relative paths in it keep their meaning."""
    if file.absolute().parent != loaded.folder:
        raise UsageError(
            f"--write {file}: is not in the folder of {loaded.file}, to which paths in it are relative. "
            f"Name a file there: {loaded.file.parent / file.name}."
        )
    if file.exists():
        raise UsageError(f"--write {file}: already exists. Name another file, or remove it.")


def write_pipeline(shorter: Loaded) -> None:
    """Writes the text of a pipeline to its file."""
    write_atomically(shorter.file, shorter.text.encode())
