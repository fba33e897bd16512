"""Writes settings into a pipeline YAML and changes no other character.

The parser gives the position of each value, and only that text is replaced. Dumping a parsed YAML would keep comments,
but neither the indentation nor the line breaks of long values.
"""

import difflib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load


def apply(file: Path, changes: Mapping[str, Any]) -> str:
    """Writes settings into a pipeline YAML, atomically.

    Args:
        file: The YAML.
        changes: YAML path, as `section.key.key` -> value. Missing sections are added.

    Returns:
        The unified diff.

    Raises:
        UserError: The result would not be a valid pipeline; the file stays unchanged.
    """
    target = file.resolve()
    before = target.read_text(encoding="utf-8")
    after = changed(before, changes)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as written:
            written.write(after)
        os.chmod(temporary, target.stat().st_mode)
        load(temporary)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(*lines, str(file), str(file), n=1))


def changed(text: str, changes: Mapping[str, Any]) -> str:
    """Returns the text of a YAML with new values at some paths and no other change.

    Raises:
        UserError: A path leads through a value that is not a mapping, or to an alias.
    """
    for path, value in changes.items():
        text = _changed(text, _keys(path), f"{value}", path)
    return text


def _changed(text: str, keys: Sequence[str], value: str, path: str) -> str:
    yaml = YAML(typ="safe", pure=True)
    node: Node = yaml.compose(text)
    for depth, key in enumerate(keys):
        if not isinstance(node, MappingNode):
            if not text[node.start_mark.index : node.end_mark.index].strip():
                return _replaced(text, node.start_mark.index, node.start_mark.index, f" {_flow(keys[depth:], value)}")
            raise UserError(
                f"{path} cannot be set: {keys[depth - 1]} is no mapping in the YAML. Write it as one first."
            )
        found = next(((k, v) for k, v in node.value if k.value == key), None)
        if found is None:
            return _inserted(text, node, keys[depth:], value, top=depth == 0)
        if text[found[0].end_mark.index :].lstrip(" :").startswith("*"):
            raise UserError(f"{path} cannot be set: the YAML gives an alias at {key}. Write it out first.")
        node = found[1]
    return _replaced(text, node.start_mark.index, node.end_mark.index, value)


def _inserted(text: str, mapping: MappingNode, keys: Sequence[str], value: str, *, top: bool) -> str:
    """Returns the text with new keys of a mapping: at the end of the file, in its braces, or as its first lines."""
    if mapping.flow_style:
        start = mapping.start_mark.index + 1
        inner = _flow(keys, value)[1:-1]
        return _replaced(text, start, start, f"{inner}, " if mapping.value else inner)
    column = mapping.start_mark.column
    if top:
        return f"{text.rstrip()}\n\n{_block(keys, value, 0)}"
    start = mapping.start_mark.index - column
    return _replaced(text, start, start, _block(keys, value, column))


def _keys(path: str) -> Sequence[str]:
    """Returns the keys of a path; the name of a feature may contain dots."""
    first, _, rest = path.partition(".")
    if first == "features":
        name, _, last = rest.rpartition(".")
        return [first, name, last]
    return path.split(".")


def _flow(keys: Sequence[str], value: str) -> str:
    for key in reversed(keys):
        value = f"{{{key}: {value}}}"
    return value


def _block(keys: Sequence[str], value: str, column: int) -> str:
    lines = [f"{' ' * (column + 2 * depth)}{key}:" for depth, key in enumerate(keys)]
    return "\n".join(lines) + f" {value}\n"


def _replaced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]
