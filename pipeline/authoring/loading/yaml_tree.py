"""Reads YAML text into plain data with the line of every key, and removes entries; syntax errors become Problems.

The language is YAML 1.2, core schema: `no` and `2013-07-01` are text, `true` is a boolean, and keys are always text."""

import copy
import math
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path

_MOST_NODES = 200_000
"""Largest number of nodes: aliases of aliases multiply, and each of them is read anew."""
_MOST_CHARACTERS = 1_000_000
"""Largest number of characters: a longer file is data that was named by mistake."""
_MOST_LEVELS = 100
"""Largest number of nesting levels. How deep Python itself can read differs between its versions."""
_DEEP = re.compile(rf"(?:[\[{{]\s*){{{_MOST_LEVELS}}}")
"""Brackets in brackets; the parser would look for the end of each of them before it gives up."""
_TOO_DEEP = Problem("", 1, f"nested too deeply, over {_MOST_LEVELS} levels, or aliases multiply too often, to be read.")
_EXCERPT = 100
"""Number of characters of a line that are shown around a mistake, so that they fit a terminal."""
_TAG = "tag:yaml.org,2002:"
_INT64_MAX = 2**63 - 1
_BASES = {"0x": 16, "0o": 8, "0b": 2}
# Part of the parser's message -> advice. The first match is shown.
_ADVICE = (
    ("'\\t' that cannot start", "a tab. YAML is indented by blanks only"),
    ("mapping values", 'a ":" where no key can stand. Put text that holds ": " in quotes, or fix the indentation'),
    ("end of stream", "a quote that is never closed"),
    ("expected ',' or ']'", "brackets that are not closed, lack a comma, or hold text with a comma but no quotes"),
    ("expected ',' or '}'", "braces that are not closed, lack a comma, or hold text with a comma but no quotes"),
    ("expected <block end>", "this indentation fits no level above it. Items of one level begin in the same column"),
    ("could not find expected ':'", 'a key without ":"'),
    ("undefined alias", "no anchor of this name is defined above. Put text that begins with * in quotes"),
    ("cannot start any token", "text may not begin with this character. Put it in quotes"),
    ("unknown escape", "in double quotes a backslash begins an escape. Use single quotes"),
    ("expected the node content", "a value or a closing bracket is missing"),
    ("another document", "a second document begins here (---). A file holds one"),
)


@dataclass(frozen=True)
class Tree:
    """A YAML document: plain dicts, lists and scalars, and the line of every path in it."""

    data: Any
    lines: Mapping[Keys, int]
    problems: tuple[Problem, ...] = ()

    def line(self, keys: Keys) -> int:
        """Returns the line of `keys`, or of the nearest key around it in the file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def read_yaml(text: str) -> Tree:
    """Returns the tree of `text`; its `data` is None if the text is empty or not valid YAML."""
    if len(text) > _MOST_CHARACTERS:
        problem = f"{len(text):,} characters; at most {_MOST_CHARACTERS:,} are read. Is it a pipeline file?"
        return Tree(None, {}, (Problem("", 1, problem),))
    if _DEEP.search(text):
        return Tree(None, {}, (_TOO_DEEP,))
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    try:
        root = yaml.compose(text)
        if root is None:
            return Tree(None, {})
        return _Reading().tree(root)
    except MarkedYAMLError as error:
        return Tree(None, {}, (_syntax_problem(error, text.splitlines()),))
    except YAMLError as error:
        return Tree(None, {}, (_character_problem(error, text),))
    except RecursionError:
        return Tree(None, {}, (_TOO_DEEP,))


class _Reading:
    """Converts the nodes of one document to data, and collects lines and problems."""

    def __init__(self) -> None:
        self._lines: dict[Keys, int] = {}
        self._problems: list[Problem] = []
        self._open: set[int] = set()
        self._nodes = 0

    def tree(self, root: Node) -> Tree:
        return Tree(self._value(root, (), root.start_mark.line + 1), self._lines, tuple(self._problems))

    def _value(self, node: Node, keys: Keys, line: int) -> Any:
        self._lines[keys] = line
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(keys) > _MOST_LEVELS:
            raise RecursionError
        if id(node) in self._open:
            self._problem(keys, "an alias of something that holds it.")
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node, keys)
        if str(node.tag) not in (f"{_TAG}map", f"{_TAG}seq"):
            self._problem(keys, f"tags such as {_short(node.tag)} are not used here; remove it.")
        self._open.add(id(node))
        value = (
            self._mapping(node, keys)
            if isinstance(node, MappingNode)
            else [self._value(item, (*keys, i), item.start_mark.line + 1) for i, item in enumerate(node.value)]
        )
        self._open.discard(id(node))
        return value

    def _scalar(self, node: ScalarNode, keys: Keys) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        if kind == "timestamp":
            return node.value
        if kind not in ("str", "null", "bool", "int", "float"):
            self._problem(keys, f"tags such as {_short(node.tag)} are not used here; remove it.")
            return node.value
        value = _convert(kind, node.value)
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(keys, f"{node.value} is no finite number.")
            return 0.0 if math.isnan(value) else math.copysign(sys.float_info.max, value)
        if isinstance(value, int) and not -_INT64_MAX - 1 <= value <= _INT64_MAX:
            self._problem(
                keys, f"{node.value} does not fit into 64 bits: whole numbers up to {_INT64_MAX} are accepted."
            )
            return max(-_INT64_MAX - 1, min(value, _INT64_MAX))
        return value

    def _mapping(self, node: MappingNode, keys: Keys) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        merges: list[int] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if str(key.tag) == f"{_TAG}merge":
                merges.append(line)
                if len(merges) > 1:
                    message = f"<< is given twice, first in line {merges[0]}. Write one: `<<: [*first, *second]`."
                    self._problem(keys, message, line)
                for part in self._merged(value, keys, line):
                    merged = {**part, **merged}
            elif not isinstance(key, ScalarNode):
                self._problem(keys, _no_key(key), line)
            elif key.value in own:
                first = self._lines[*keys, key.value]
                self._problem((*keys, key.value), f"is given twice, first in line {first}. Remove or rename one.", line)
            else:
                own[key.value] = self._value(value, (*keys, key.value), line)
        return {**{k: v for k, v in merged.items() if k not in own}, **own} if merged else own

    def _merged(self, node: Node, keys: Keys, line: int) -> Iterator[dict[str, Any]]:
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            if isinstance(part, MappingNode) and id(part) not in self._open:
                outer, self._lines = self._lines, {}
                value = self._value(part, keys, line)
                for merged_keys, merged_line in self._lines.items():
                    outer.setdefault(merged_keys, merged_line)
                self._lines = outer
                yield value
            else:
                self._problem(keys, "<< takes an alias of a mapping, such as `<<: *defaults`.", line)

    def _problem(self, keys: Keys, message: str, line: int | None = None) -> None:
        self._problems.append(Problem(format_path(keys), line or self._lines[keys], message))


def _convert(kind: str, text: str) -> Any:
    try:
        if kind == "int":
            digits = text.replace("_", "").lower()
            return int(digits, _BASES.get(digits.lstrip("+-")[:2], 10))
        if kind == "float":
            return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return None if kind == "null" else text


def _no_key(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping cannot be a key. {{...}} is not filled in here; put text that begins with { in quotes."
    return "a list cannot be a key; a key is text."


def _short(tag: Any) -> str:
    return str(tag).replace(_TAG, "!!")


def _syntax_problem(error: MarkedYAMLError, lines: list[str]) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem("", 1, f"not valid YAML: {error.problem}.")
    said = str(error.problem)
    advice = next((text for part, text in _ADVICE if part in said), said)
    at = mark.line
    if error.context_mark is not None and ("never closed" in advice or "not closed" in advice):
        at = error.context_mark.line
        mark = error.context_mark
    shown = _excerpt(lines[at], mark.column) if at < len(lines) else ""
    return Problem("", at + 1, f"not valid YAML, column {mark.column + 1}: {advice}.{shown}")


def _excerpt(line: str, column: int) -> str:
    """Returns the part of a line around a column, with a caret under it."""
    start = max(0, column - _EXCERPT // 2)
    part = line[start : start + _EXCERPT].replace("\t", " ")
    return f"\n    {part}\n    {' ' * (column - start)}^" if part.strip() else ""


def _character_problem(error: YAMLError, text: str) -> Problem:
    position = getattr(error, "position", 0)
    line = text.count("\n", 0, position) + 1
    code = getattr(error, "character", 0)
    name = f"U+{code:04X}" if isinstance(code, int) else repr(code)
    return Problem("", line, f"not valid YAML: character {name} is not allowed. Write it as an escape in quotes.")


_Entry = tuple[Keys, Node, Node]
"""The path of an entry, the node with which it begins, and its value."""


def without_keys(text: str, removed: Collection[Keys]) -> str | None:
    """Returns valid YAML without some entries of mappings and lists; a mapping or list that would be empty goes too.

    Returns:
        None if the entries cannot be cut out, because an anchor in one of them is used elsewhere, for example.

    Example:
        >>> without_keys("features:\\n  # amounts\\n  fare: number\\n  tip: number\\n", [("features", "tip")])
        'features:\\n  # amounts\\n  fare: number\\n'
    """
    tree = read_yaml(text)
    removed = _with_emptied(tree.data, set(removed))
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    for first, last in sorted(_cuts(yaml.compose(text), (), removed, text), reverse=True):
        text = text[:first] + text[last:]
    shorter = read_yaml(text)
    return text if not shorter.problems and shorter.data == _pruned(tree.data, removed) else None


def _with_emptied(data: Any, removed: set[Keys]) -> set[Keys]:
    """Returns the removed paths, and those of the collections that lose all of their entries."""
    for parent in sorted({keys[:-1] for keys in removed if len(keys) > 1}, key=len, reverse=True):
        entries = _at(data, parent)
        names = entries if isinstance(entries, dict) else range(len(entries))
        if all((*parent, name) in removed for name in names):
            removed = _with_emptied(data, {keys for keys in removed if keys[:-1] != parent} | {parent})
    return removed


def _at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data[key]
    return data


def _pruned(data: Any, removed: Collection[Keys]) -> Any:
    data = copy.deepcopy(data)
    # From the end, so that the indices of a list stay true.
    for *parents, last in sorted(removed, key=lambda keys: [(isinstance(k, int), k) for k in keys], reverse=True):
        del _at(data, tuple(parents))[last]
    return data


def _cuts(node: Node, keys: Keys, removed: Collection[Keys], text: str) -> Iterator[tuple[int, int]]:
    if not isinstance(node, CollectionNode):
        return
    entries = list(_entries(node, keys))
    gone = [path in removed for path, _, _ in entries]
    last_kept = max((i for i, is_gone in enumerate(gone) if not is_gone), default=-1)
    for i, (path, begin, value) in enumerate(entries):
        if not gone[i]:
            yield from _cuts(value, path, removed, text)
        elif not node.flow_style:
            first = text.rfind("\n", 0, begin.start_mark.index) + 1
            yield first, (text.find("\n", max(first, _end(value) - 1)) + 1) or len(text)
        elif i < last_kept:
            yield begin.start_mark.index, entries[i + 1][1].start_mark.index
        elif i == last_kept + 1 and i > 0:
            yield _end(entries[i - 1][2]), _end(entries[-1][2])


def _entries(node: CollectionNode, keys: Keys) -> Iterator[_Entry]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield (*keys, key.value), key, value
    else:
        for i, item in enumerate(node.value):
            yield (*keys, i), item, item


def _end(node: Node) -> int:
    """Returns the index behind the last character of a node; that of a block in YAML's own marks is behind comments."""
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, MappingNode) else last)
