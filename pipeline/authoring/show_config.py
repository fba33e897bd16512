"""Writes a config as YAML with every default filled in; loading it again gives an equal config."""

import io
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from fullpass.pipeline.config import PipelineConfig

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w .-]*")
_WIDTH = 110
_FLOW_LENGTH = 80


class _Representer(RoundTripRepresenter):
    """Writes None as `null`, while ruamel's default representer leaves the value empty."""

    def represent_null(self, _: None) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_null)


def resolved_yaml(config: PipelineConfig) -> str:
    """Returns `config` as YAML, with sections in their usual order and short values on one line.

    Example:
        >>> print(resolved_yaml(load("examples/taxi/pipeline.yaml").config).splitlines()[0])
        name: taxi
    """
    tree = config.model_dump()
    if config.data.source.given_splits:
        # A source with files per split refuses a `split` section.
        del tree["data"]["split"]
    tree["model"] = {"kind": config.model.kind, **tree["model"]}
    tree["data"]["source"] = {"format": config.data.source.format, **tree["data"]["source"]}
    return yaml_text(tree)


def yaml_text(tree: Mapping[str, Any]) -> str:
    """Returns plain data as YAML in block style, with short values on one line."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.width = _WIDTH
    text = io.StringIO()
    yaml.dump(_styled(tree), text)
    return text.getvalue()


def _styled(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = CommentedMap((_key(key), _styled(inner)) for key, inner in value.items())
        if _is_short(value):
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list | tuple):
        items = CommentedSeq(_styled(inner) for inner in value)
        if _is_short(value):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str) and value.startswith(("?", ":")):
        return DoubleQuotedScalarString(value)  # as in `_key`
    return value


def _key(name: str) -> str:
    # ruamel writes text such as `?a` or `:a` unquoted and cannot read it again.
    return name if _PLAIN_KEY.fullmatch(name) else DoubleQuotedScalarString(name)


def _is_short(value: dict[str, Any] | list[Any] | tuple[Any, ...]) -> bool:
    inner = list(value.values()) if isinstance(value, dict) else list(value)
    flat = not any(isinstance(item, dict) and item for item in inner)
    return not value or (flat and len(repr(value)) <= _FLOW_LENGTH)
