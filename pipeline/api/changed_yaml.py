"""A pipeline with other settings or another table than its YAML names, in a file beside it while a run reads it."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import write_atomically
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.authoring.loading.load import PIPELINE, Loaded, parse_as
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys
from fullpass.pipeline.authoring.show_config import yaml_text

_BETWEEN = "__"
"""What stands between the keys of a path in the name of an argument, as in scikit-learn's `set_params`."""


def named_settings(loaded: Loaded, changes: Mapping[str, Any]) -> dict[Keys, Any]:
    """Returns path in the YAML -> value of settings given by name.

    Args:
        changes: The last key of a path, such as `epochs`, or a path with `__` between its keys: `training__epochs`.

    Raises:
        UserError: The YAML accepts no such key, or several.
    """
    return {_path(loaded, name): value for name, value in changes.items()}


def _path(loaded: Loaded, name: str) -> Keys:
    config = loaded.config.model_dump()
    if _BETWEEN in name or name in config:
        return tuple(name.split(_BETWEEN))
    known: dict[str, list[Keys]] = {}
    for keys in _paths(config):
        known.setdefault(str(keys[-1]), []).append(keys)
    found = known.get(name, [])
    if len(found) == 1:
        return found[0]
    named = ", ".join(_BETWEEN.join(map(str, keys)) for keys in found)
    raise UserError(
        f"{name} names {len(found)} settings of {loaded.file}; give one of them: {named}."
        if found
        else f"{loaded.file} has no setting {name}.{did_you_mean(name, known)} Give the last key of its path, or the "
        f"whole path, such as training{_BETWEEN}epochs."
    )


def _paths(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    if keys:
        yield keys
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        yield from _paths(inner, (*keys, key))


@contextmanager
def with_changes(loaded: Loaded, changes: Mapping[Keys, Any]) -> Iterator[Loaded]:
    """Yields the pipeline with other values, in a file beside its YAML that exists until the end.

    The file must lie there, since paths and modules of a pipeline are relative to its folder. Equal changes have a file
    of the same name.

    Raises:
        ConfigError: The YAML does not accept a value, here or in a check of the yielded pipeline.
    """
    if not changes:
        yield loaded
        return
    tree, defaults = copy.deepcopy(loaded.tree.data), loaded.config.model_dump()
    for keys, value in changes.items():
        _set(tree, defaults, keys, value)
    text = yaml_text(tree)
    file = loaded.folder / f".{loaded.file.stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
    try:
        config, parsed = parse_as(file, text, PIPELINE)
        write_atomically(file, text)
        yield replace(loaded, config=config, file=file, text=text, tree=parsed)
    except ConfigError as error:
        # The lines are those of a file that nobody has seen.
        raise ConfigError(loaded.file, [replace(problem, line=None) for problem in error.problems]) from None
    finally:
        file.unlink(missing_ok=True)


def _set(tree: dict[str, Any], defaults: Any, keys: Keys, value: Any) -> None:
    *parents, last = map(str, keys)
    for key in parents:
        defaults = defaults.get(key) if isinstance(defaults, Mapping) else None
        if not isinstance(tree.get(key), dict):  # absent, or a short form such as `fare: number`
            tree[key] = copy.deepcopy(defaults) if isinstance(tree.get(key), str) and defaults else {}
        tree = tree[key]
    tree[last] = value


def table_source(loaded: Loaded, table: Path) -> dict[Keys, Any]:
    """Returns the change that reads a Parquet file as the source of a pipeline.

    Raises:
        UserError: The pipeline has spans or data per split, which one table has not.
    """
    source = loaded.config.data.source
    if source.given_splits or has_spans(loaded.config.data):
        raise UserError(
            f"{loaded.file}: its data has {'a source per split' if source.given_splits else 'spans'}, and a table has "
            "not. Run it without a table, or with a YAML whose data.source is one file."
        )
    kept = source.model_dump(mode="json", include={"missing", "missing_in"})
    return {("data", "source"): {"format": "parquet", "path": str(table), **kept}}
