"""Finds the local files and folders that match a pattern. Each folder is listed once, for any pattern.

Python's glob walks a tree once per way in which several `**/` can share its folders. This takes minutes for a dozen of
them.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

_ANY_DEPTH = "**"


def match_paths(pattern: str) -> list[str]:
    """Returns the sorted paths that match a pattern, like `glob.glob(pattern, recursive=True)`.

    `**` matches any number of folders. Hidden files and folders match only a name pattern that starts with a dot. A
    link to a folder above it is not followed.
    """
    parts = with_single_stars(pattern).split("/")
    level = next((n for n, part in enumerate(parts) if glob.has_magic(part)), None)
    if level is None:
        return [pattern] if os.path.lexists(pattern) else []
    start = "".join(f"{part}/" for part in parts[:level])
    return sorted(_below(start, parts[level:]))


def with_single_stars(pattern: str) -> str:
    """Returns a pattern in which several `**/` in a row, which match what one does, are one."""
    return re.sub(r"(?<![^/])(\*\*/)+", "**/", pattern)


def _below(start: str, parts: Sequence[str]) -> Iterator[str]:
    """Yields the paths below a folder whose names match `parts`.

    A state is a folder and the indices of the parts that the next name may match. There are several indices if `**` is
    among the parts.
    """
    pending = [(start, _with_skipped({0}, parts), frozenset([os.path.realpath(start or ".")]))]
    while pending:
        folder, states, above = pending.pop()
        for entry in _entries(folder, [parts[state] for state in states]):
            path, is_folder = f"{folder}{entry.name}", entry.is_dir()
            reached = _with_skipped(_next(entry.name, states, parts, is_folder=is_folder), parts)
            if len(parts) in reached:
                yield path
            if is_folder and len(parts) - 1 in reached and not parts[-1]:
                yield f"{path}/"
            deeper = reached - {len(parts)}
            real = os.path.realpath(path) if deeper and is_folder and entry.is_symlink() else None
            if deeper and is_folder and real not in above:
                pending.append((f"{path}/", deeper, above | {real} if real else above))


def _entries(folder: str, parts: Sequence[str]) -> Iterator[os.DirEntry[str] | Path]:
    """Yields the entries of a folder. If all parts are plain names, yields only these; the folder may be unreadable."""
    if not any(map(glob.has_magic, parts)):
        yield from (Path(folder, part) for part in parts if part and os.path.lexists(f"{folder}{part}"))
        return
    try:
        with os.scandir(folder or ".") as entries:
            yield from list(entries)
    except OSError:  # a missing or unreadable folder has no entries
        return


def _next(name: str, states: frozenset[int], parts: Sequence[str], *, is_folder: bool) -> set[int]:
    """Returns the indices of the parts that the next name may match."""
    states_after = set()
    for state in states:
        if parts[state] == _ANY_DEPTH:
            last = state == len(parts) - 1
            if not name.startswith(".") and (is_folder or last):
                states_after |= {state, len(parts)} if last else {state}
        elif (parts[state].startswith(".") or not name.startswith(".")) and fnmatchcase(name, parts[state]):
            states_after.add(state + 1)
    return states_after


def _with_skipped(states: set[int], parts: Sequence[str]) -> frozenset[int]:
    """Returns the states, and the states after each `**`, which may stand for no folder."""
    skipped = {state + 1 for state in states if state < len(parts) - 1 and parts[state] == _ANY_DEPTH}
    return frozenset(states | skipped)
