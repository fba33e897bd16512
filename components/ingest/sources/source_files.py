"""Finds the inputs of a source, and computes a fingerprint that changes when they change."""

import glob
import hashlib
import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address, local_path
from fullpass.components.ingest.sources.source_config import (
    BigQuerySource,
    ImagesSource,
    ModuleSource,
    Paths,
    ProtoSource,
    Source,
    SqlSource,
    TextSource,
    TfdsSource,
)
from fullpass.components.ingest.sources.storage import Found, digest_of, find, is_folder, version_of

_PACKAGE = "package:"
_RELATIVE_DATABASE = re.compile(r"((?:sqlite|duckdb)(?:\+\w+)?:///)((?![/:]).+)")
_DATABASE_FILE = re.compile(r"(?:sqlite|duckdb)(?:\+\w+)?:///(/[^?]+)")
_VARYING = re.compile(
    r"\b(now|today|random|rand|uuid|gen_random_uuid|current_\w+|localtime\w*|getenv)\b", re.IGNORECASE
)
"""Functions whose results change though the database does not."""
_OWN_TABLE = re.compile(r"^\s*(SEQ_SCAN|TABLE_SCAN|INDEX_SCAN|DUMMY_SCAN|EMPTY_RESULT|CTE_SCAN|DELIM_SCAN)\s*$")
"""Operators of DuckDB's plans that read nothing outside the database."""
_DATASET_INFO = "dataset_info.json"
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")

Resolve = Callable[[str], str]


@dataclass(frozen=True)
class SourceFile:
    """One file, folder of images, query or function to read.

    Attributes:
        path: the path of the file, or, for other sources, the query or function; also used in messages.
        split: the split of all its rows, or None if each row is assigned to a split.
        size: number of bytes; 0 if unknown.
        version: text that changes when the data changes.
        address: location, if it is not `path`: the URL of a database or the folder of a dataset. Or another input of
            the reader: the path of the message descriptors, or the folders that a manifest may use, one per line.
        rest: whether rows without a span belong to the current span.
        state: size and version of the file, or of all files of the folder, as `storage.state_of` returns them; it is
            compared after reading. Empty if unknown.
    """

    path: str
    split: str | None
    size: int
    version: str
    address: str = ""
    rest: bool = False
    state: str = ""


def resolve_path(path: str, directory: Path) -> str:
    """Returns an absolute path, pattern or address.

    `package:NAME/PATH` is found in the installed package without importing it; other relative paths start at
    `directory`.

    Raises:
        UserError: The package is not installed.
    """
    if path.startswith(_PACKAGE):
        package, _, inside = path.removeprefix(_PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(f"{path}: the Python package {package!r} is not installed. Install it, or give a path.")
        return str(Path(spec.submodule_search_locations[0]) / inside)
    if is_address(path):
        return local_path(path)
    return str((directory / path).absolute())


def place_pattern(written: str, resolve: Resolve) -> tuple[str, str]:
    """Returns the folder at which a relative path or pattern starts, and the rest; only the rest may contain a pattern.

    Args:
        written: the path as in the YAML.
        resolve: makes a path of the YAML absolute.

    Example:
        >>> place_pattern("day-{SPAN}/*.csv", lambda path: resolve_path(path, Path("/data/[new]")))
        ('/data/[new]/', 'day-{SPAN}/*.csv')
    """
    resolved = resolve(written)
    if is_address(written) or PurePath(written).is_absolute():
        return "", resolved
    folder = f"{resolve(written.partition('/')[0] if written.startswith(_PACKAGE) else '.')}/"
    return (folder, resolved.removeprefix(folder)) if resolved.startswith(folder) else ("", resolved)


def find_inputs(source: Source, resolve: Resolve) -> tuple[SourceFile, ...]:
    """Returns all inputs of a source.

    Args:
        source: the section of the YAML.
        resolve: makes a path of the YAML absolute.

    Raises:
        UserError: Files are missing, or named twice.
    """
    if isinstance(source, SqlSource):
        return tuple(_queries(source, resolve))
    if isinstance(source, BigQuerySource):
        return tuple(SourceFile(query, split, 0, _unknown_version()) for split, query in entries(source.query))
    if isinstance(source, TfdsSource):
        return tuple(_prepared(source, resolve))
    if isinstance(source, ModuleSource):
        return tuple(_functions(source))
    if isinstance(source, ImagesSource | TextSource) and reads_folders(source):
        return tuple(_folders(source.path, resolve, _IMAGES if isinstance(source, ImagesSource) else source.endings))
    files = find_files(source.path, resolve, endings=source.endings)
    if isinstance(source, ImagesSource):
        # The state of a manifest contains that of its images, which only its reader knows.
        return tuple(replace(file, address="\n".join(map(resolve, source.folders)), state="") for file in files)
    return _described(files, source, resolve) if isinstance(source, ProtoSource) else files


def reads_folders(source: object) -> bool:
    """Returns whether the source reads whole folders."""
    if isinstance(source, ImagesSource):
        return source.labels == "folders"
    return isinstance(source, TextSource) and source.rows == "files"


def find_files(paths: Paths, resolve: Resolve, *, endings: Sequence[str] = ()) -> tuple[SourceFile, ...]:
    """Returns the files of `paths`, with patterns and folders expanded, in sorted order per entry.

    Args:
        paths: paths as in the YAML.
        resolve: makes a path of the YAML absolute.
        endings: suffixes of the files that are searched for in a folder.

    Raises:
        UserError: An entry matches no file, is a folder without any, or two entries match the same file.
    """
    files: dict[str, SourceFile] = {}
    for split, written in entries(paths):
        for file in _matches(written, *place_pattern(written, resolve), endings):
            real = file.path if is_address(file.path) else os.path.realpath(file.path)
            if real in files:
                other = "" if files[real].path == file.path else f", also as {files[real].path}, which is the same file"
                raise UserError(f"data.source.path: {file.path} is named twice{other}. Every file must be read once.")
            files[real] = SourceFile(file.path, split, file.size, file.version, state=file.state)
    return tuple(files.values())


def fingerprint(files: Sequence[SourceFile]) -> str:
    """Returns 16 hex digits that change when a file is added, removed, resized or rewritten."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(repr((file.path, file.split, file.size, file.version, file.address)).encode())
    return digest.hexdigest()[:16]


def entries(per_split: Any) -> Iterator[tuple[str | None, str]]:
    """Yields pairs of a split and a path, query or function of a source; the split is None if none is given."""
    if isinstance(per_split, Mapping):
        for split, entry in per_split.items():
            for pattern in (entry,) if isinstance(entry, str) else entry:
                yield split, pattern
    else:
        for pattern in (per_split,) if isinstance(per_split, str) else per_split:
            yield None, pattern


def _matches(written: str, folder: str, pattern: str, endings: Sequence[str]) -> list[Found]:
    matches = find(pattern, endings, folder=folder)
    if matches:
        return matches
    pattern = folder + pattern
    if not is_folder(pattern):
        what = f"no file.{nearby(pattern)}"
    elif endings:
        what = f"a folder without files that end in {', '.join(endings)}."
    else:
        what = "a folder; add a pattern such as /*.csv."
    raise UserError(f"data.source.path: {written!r} is {what} Looked for: {pattern}.")


def nearby(pattern: str) -> str:
    """Returns a hint at an existing file with a name similar to that of a missing file."""
    folder = Path(pattern).parent
    return did_you_mean(Path(pattern).name, [p.name for p in folder.iterdir()]) if folder.is_dir() else ""


def _folders(paths: Paths, resolve: Resolve, endings: Sequence[str]) -> Iterator[SourceFile]:
    for split, written in entries(paths):
        folder = resolve(written)
        if not is_folder(folder):
            raise UserError(
                f"data.source.path: {written!r} is no folder. Give the folder that holds one folder of files per "
                f"class. Looked for: {folder}."
            )
        files = _matches(written, "", folder, endings)
        digest = digest_of(files)
        yield SourceFile(folder, split, sum(file.size for file in files), digest, state=digest)


def _described(files: Sequence[SourceFile], source: ProtoSource, resolve: Resolve) -> tuple[SourceFile, ...]:
    """Returns files with the path of their descriptors; each file's version includes the version of the descriptors."""
    descriptors = find(path := resolve(source.descriptor_set))
    if len(descriptors) != 1:
        raise UserError(
            f"data.source.descriptor_set: {source.descriptor_set!r} is no file.{nearby(path)} Looked for: {path}."
        )
    version = f"{descriptors[0].size} {descriptors[0].version}"
    return tuple(replace(file, version=f"{file.version} {version}", address=path) for file in files)


def _queries(source: SqlSource, resolve: Resolve) -> Iterator[SourceFile]:
    relative = _RELATIVE_DATABASE.fullmatch(source.url)
    url = f"{relative[1]}{resolve(relative[2])}" if relative else source.url
    local = _DATABASE_FILE.match(url)
    if local and not Path(local[1]).is_file():
        raise UserError(f"data.source.url: no file {local[1]}.{nearby(local[1])} The database file must already exist.")
    size = Path(local[1]).stat().st_size if local else 0
    for split, query in entries(source.query):
        known = local and not _VARYING.search(query) and not (url.startswith("duckdb") and reads_files(local[1], query))
        version = _file_version(Path(local[1])) if known and local else _unknown_version()
        yield SourceFile(query, split, size, version, url)


def reads_files(database: str, query: str) -> bool:
    """Returns whether a query of a DuckDB database may read more than the tables in it, such as files through a view.

    DuckDB plans the query. The answer is True, too, if it cannot, because another process writes to the database.
    """
    from_ = f"({query.strip().rstrip(';')}) AS source_rows" if re.search(r"\s", query.strip()) else query
    try:
        import duckdb

        with duckdb.connect(database, read_only=True) as connection:
            [(_, plan)] = connection.execute(f"EXPLAIN (FORMAT json) SELECT * FROM {from_}").fetchall()
    except Exception:  # errors of any kind are reported when the rows are read
        return True
    return any(not _OWN_TABLE.search(name) for name in _leaves(json.loads(plan)))


def _leaves(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        if node["children"]:
            yield from _leaves(node["children"])
        else:
            yield node["name"]


def _prepared(source: TfdsSource, resolve: Resolve) -> Iterator[SourceFile]:
    """Returns the splits of a prepared dataset; the version of each is the digest of all files of the dataset."""
    dataset = f"{resolve(source.data_dir).rstrip('/')}/{source.name}"
    infos = find(f"{glob.escape(dataset)}/*/{_DATASET_INFO}")
    versions = {found.path.split("/")[-2]: found for found in infos}
    if not versions or (source.version and source.version not in versions):
        wanted = f"{source.name}:{source.version}" if source.version else source.name
        present = f" Existing versions: {', '.join(sorted(versions))}." if versions else ""
        raise UserError(
            f"data.source: {wanted} is not prepared in {source.data_dir!r}.{present} Prepare it with `tfds build`, or "
            f"tfds.load(..., data_dir=...). Looked for: {dataset}/{source.version or '*'}/{_DATASET_INFO}."
        )
    version = source.version or max(versions, key=_version_order)
    folder = versions[version].path.removesuffix(f"/{_DATASET_INFO}")
    files = find(f"{glob.escape(folder)}/*")
    digest = digest_of(files)
    for split, words in entries(source.splits):
        yield SourceFile(words, split, sum(file.size for file in files), digest, folder, state=digest)


def _version_order(version: str) -> list[int]:
    return [int(part) if part.isdigit() else -1 for part in version.split(".")]


def _functions(source: ModuleSource) -> Iterator[SourceFile]:
    for split, function in entries(source.function):
        yield SourceFile(function, split, 0, _unknown_version())


def _file_version(path: Path) -> str:
    """Returns the versions of a database and of its write-ahead log (SQLite and DuckDB), which is beside the file that
    a link leads to."""
    path = path.resolve()
    logs = [path.with_name(path.name + ending) for ending in ("-wal", ".wal")]
    return " ".join(f"{p.stat().st_size} {version_of(p, p.stat())}" for p in (path, *logs) if p.exists())


def _unknown_version() -> str:
    """Returns a new version at each call: a source whose changes cannot be detected is read again by every run."""
    return f"looked at {time.time_ns()}"
