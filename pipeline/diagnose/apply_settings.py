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
        first, _, rest = path.partition(".")
        # The name of a feature may contain dots.
        keys = [first, *rest.rsplit(".", 1)] if first == "features" else path.split(".")
        start, end, new = _edit(text, keys, str(value), path)
        text = text[:start] + new + text[end:]
    return text


def _edit(text: str, keys: Sequence[str], value: str, path: str) -> tuple[int, int, str]:
    """Returns which part of the text to replace, from where to where, and its new content."""
    node: Node = YAML(typ="safe", pure=True).compose(text)
    for depth, key in enumerate(keys):
        start, end = node.start_mark.index, node.end_mark.index
        if not isinstance(node, MappingNode):
            if text[start:end].strip():
                raise UserError(
                    f"{path} cannot be set: {keys[depth - 1]} is no mapping in the YAML. Write it as one first."
                )
            return start, start, f" {_flow(keys[depth:], value)}"
        found = next(((k, v) for k, v in node.value if k.value == key), None)
        if found is None:
            return _insertion(text, node, keys[depth:], value, top=depth == 0)
        if text[found[0].end_mark.index :].lstrip(" :").startswith("*"):
            raise UserError(f"{path} cannot be set: the YAML gives an alias at {key}. Write it out first.")
        node = found[1]
    return node.start_mark.index, node.end_mark.index, value


def _insertion(text: str, mapping: MappingNode, keys: Sequence[str], value: str, *, top: bool) -> tuple[int, int, str]:
    """Returns where new keys of a mapping are inserted: at the end of the file, in its braces, or as first lines."""
    start, column = mapping.start_mark.index, mapping.start_mark.column
    if mapping.flow_style:
        inner = _flow(keys, value)[1:-1]
        return start + 1, start + 1, f"{inner}, " if mapping.value else inner
    column = 0 if top else column
    lines = "\n".join(f"{' ' * (column + 2 * depth)}{key}:" for depth, key in enumerate(keys)) + f" {value}\n"
    return (len(text.rstrip()), len(text), f"\n\n{lines}") if top else (start - column, start - column, lines)


def _flow(keys: Sequence[str], value: str) -> str:
    for key in reversed(keys):
        value = f"{{{key}: {value}}}"
    return value
