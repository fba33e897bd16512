"""The differences between two configurations, by the paths of the YAML.

Two YAMLs that mean the same do not differ: defaults, short forms, comments and order do not count. A change is shown as
people write it, without defaults.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fullpass.pipeline.authoring.loading.problems import format_path
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.printing import shortened

_KINDS = ("type", "kind", "method", "format")
"""Keys that decide which other keys a mapping has; mappings of different kinds are shown as a whole."""
_ABSENT = object()
_LONGEST = 60


@dataclass(frozen=True)
class Change:
    """A difference of two configurations.

    Attributes:
        old, new: The values as JSON data; None if the path is absent there, as `present` says.
        present: Whether the path is in the old and in the new configuration.
    """

    path: str
    old: Any
    new: Any
    present: tuple[bool, bool] = (True, True)

    @property
    def texts(self) -> tuple[str, str]:
        """The old and the new value as YAML on one line; empty where the path is absent."""
        old, new = (_text(one) if there else "" for one, there in zip((self.old, self.new), self.present, strict=True))
        return old, new

    def __str__(self) -> str:
        """Returns `training.epochs 10 -> 20`, `+ features.age number` or `- features.age`, with long values cut."""
        old, new = (shortened(text, _LONGEST) for text in self.texts)
        if not self.present[0]:
            return f"+ {self.path} {new}"
        return f"{self.path} {old} -> {new}" if self.present[1] else f"- {self.path}"


@dataclass(frozen=True)
class Settings:
    """The settings of a YAML as JSON data: complete, with all defaults, and as they are written.

    Attributes:
        complete: None if this release does not accept the YAML.
    """

    complete: Any
    written: Any

    @classmethod
    @lru_cache(maxsize=256)  # most runs of a root have the same few YAMLs
    def read(cls, yaml: str) -> "Settings":
        """Returns the settings of the text of a YAML, which may be that of another release."""
        tree = read_yaml(yaml).data
        written = json.loads(json.dumps(tree or {}, default=str))
        try:
            return cls(PipelineConfig.model_validate(tree).model_dump(mode="json"), written)
        except ValueError:
            return cls(None, written)

    @property
    def flat(self) -> dict[str, str]:
        """The settings as they are written, by path: each value as YAML on one line."""
        return dict(_leaves((), self.written)) if self.written else {}


def differences(old: Settings, new: Settings) -> tuple[Change, ...]:
    """Returns the differences of two configurations in the order of the new YAML, removed paths last.

    If this release does not accept one of them, both are compared as they are written.
    """
    written = (old.written, new.written)
    complete = (old.complete, new.complete)
    return tuple(_differences((), written if None in complete else complete, written))


def _differences(path: tuple[str, ...], complete: Sequence[Any], written: Sequence[Any]) -> Iterator[Change]:
    if complete[0] == complete[1]:
        return
    old, new = (_named(value) for value in complete)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and all(old.get(key) == new.get(key) for key in _KINDS):
        named = [_named(value) for value in written]
        for name in dict.fromkeys([*new, *old]):
            inner, shown = (
                [one.get(name, _ABSENT) if isinstance(one, Mapping) else _ABSENT for one in pair]
                for pair in ((old, new), named)
            )
            yield from _differences((*path, name), inner, shown)
        return
    before, now = (whole if part is _ABSENT else part for whole, part in zip(complete, written, strict=True))
    present = (before is not _ABSENT, now is not _ABSENT)
    yield Change(format_path(path), before if present[0] else None, now if present[1] else None, present)


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, str]]:
    named = _named(value)
    if not (isinstance(named, Mapping) and named):
        yield format_path(path), _text(value)
        return
    for name, inner in named.items():
        yield from _leaves((*path, name), inner)


def _named(value: Any) -> Any:
    """Returns a list of named parts, such as crosses, as a mapping by name; any other value as it is."""
    if not (isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value)):
        return value
    names = [one.get("name") or " x ".join(map(str, one.get("inputs") or ())) for one in value]
    return dict(zip(names, value, strict=True)) if all(names) and len(set(names)) == len(names) else value


def _text(value: Any) -> str:
    """Returns a value as YAML on one line; a mapping that only says its type is the type."""
    if isinstance(value, Mapping) and len(value) == 1 and value.keys() <= {*_KINDS}:
        return str(next(iter(value.values())))
    return _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return value if isinstance(value, str) else json.dumps(value)
