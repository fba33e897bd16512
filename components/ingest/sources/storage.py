"""Opens and finds local files by path, and remote files by any address that fsspec supports."""

import bz2
import fnmatch
import glob
import gzip
import hashlib
import lzma
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath, PurePosixPath
from time import monotonic
from typing import IO, Any

import pyarrow as pa

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import is_address
from fullpass.components.ingest.sources.path_matches import match_paths

_HIDDEN = (".", "_")
_VERSIONS = ("ETag", "etag", "generation", "LastModified", "last_modified", "mtime", "updated", "created")
"""Metadata keys of a file whose values change when the file changes; the first key that a driver returns is used."""
_BELIEVED_SECONDS = 1.0
"""Seconds for which a listing is believed: one search of many spans, and not the next look of a scheduler."""
_COMPRESSIONS = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "bz2": re.compile(rb"BZh[1-9]1AY&SY"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "zip": re.compile(rb"PK(\x03\x04|\x05\x06)"),
}
"""Compression -> first bytes of a file."""
_MAGIC_BYTES = 10
"""Bytes of the longest of them, that of bz2."""
_DECOMPRESS: Mapping[str, Callable[[Any], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": lambda raw: pa.CompressedInputStream(raw, "zstd"),
}
_COMPRESSED = re.compile(r"\.(gz|bz2|xz|zst|zip)$", re.IGNORECASE)
_SHARD = re.compile(r"-\d+-of-\d+$")
_listed: dict[Any, float] = {}
"""File system of an address -> time at which its listing cache was last invalidated."""


_UNSURE = "ukey "
"""Begins the version of a remote file whose driver returns no metadata that changes with the file."""
_SHOWN_NAMES = 5
"""Names of the files of an archive in the error that it holds several."""
_IN_POD = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True)
class Found:
    """A file. version: text that changes when the file changes."""

    path: str
    size: int
    version: str

    @property
    def state(self) -> str:
        """Size and version, as `state_of` returns them."""
        return f"{self.size}" if self.version.startswith(_UNSURE) else f"{self.size} {self.version}"


def open_raw(path: str) -> IO[bytes]:
    """Opens a file for reading, seekable, without decompression."""
    if not is_address(path):
        return open(path, "rb")
    file_system, inner = _file_system(path)
    with prefix_errors(path):
        return file_system.open(inner, "rb")


@contextmanager
def open_binary(path: str) -> Iterator[IO[bytes]]:
    """Opens a file; decompresses gz, bz2, xz, zst and zip archives of one file, which are recognized by first bytes.

    Raises:
        UserError: The zip archive does not contain exactly one file.
    """
    with ExitStack() as stack:
        raw: Any = stack.enter_context(open_raw(path))
        compression = _compression(raw)
        if compression == "zip":
            archive = stack.enter_context(zipfile.ZipFile(raw))
            yield stack.enter_context(archive.open(_sole_member(path, archive)))
        else:
            yield stack.enter_context(_DECOMPRESS[compression](raw)) if compression else raw


def is_compressed(path: str) -> bool:
    """Returns whether `open_binary` decompresses `path`, which means that reading cannot start in the middle."""
    with open_raw(path) as raw:
        return _compression(raw) is not None


def suffix_of(path: str) -> str:
    """Returns the lower-case suffix of a name without the suffix of a compression and the number of a shard.

    Example:
        >>> suffix_of("day.CSV.gz"), suffix_of("train.tfrecord-00000-of-00010")
        ('.csv', '.tfrecord')
    """
    return PurePath(_SHARD.sub("", _COMPRESSED.sub("", _SHARD.sub("", PurePath(path).name)))).suffix.lower()


def find(pattern: str, endings: Sequence[str] = (), *, folder: str = "") -> list[Found]:
    """Returns the files that match a path, folder or glob, sorted by path.

    A folder is searched for files with one of `endings`; names that begin with . or _ are skipped. A glob may also
    match such folders if their own names have one of the endings, as in the output of Spark.

    Args:
        folder: The folder at which the pattern starts, with / at its end; brackets in its name are no glob.
    """
    return _find_remote(pattern, endings) if is_address(pattern) else _find_local(folder, pattern, endings)


def matches(pattern: str) -> list[str]:
    """Returns the files and folders that match a glob, sorted."""
    if not is_address(pattern):
        return match_paths(pattern)
    file_system, inner = _as_it_is_now(pattern)
    with prefix_errors(pattern):
        return sorted(map(file_system.unstrip_protocol, _remote_matches(file_system, inner)))


def is_folder(path: str) -> bool:
    """Returns whether `path` is a folder."""
    if not is_address(path):
        return Path(path).is_dir()
    file_system, inner = _as_it_is_now(path)
    with prefix_errors(path):
        return bool(file_system.isdir(inner))


def _compression(raw: IO[bytes]) -> str | None:
    """Returns the compression of a file by its first bytes, and sets the file back to its start."""
    start = raw.read(_MAGIC_BYTES)
    raw.seek(0)
    return next((name for name, first in _COMPRESSIONS.items() if first.match(start)), None)


def state_of(path: str, endings: Sequence[str] = ()) -> str:
    """Returns text that changes when a file or one of the files in a folder changes; "" if there is none."""
    if is_address(path):
        _listed.pop(_file_system(path)[0], None)  # the listing of a moment ago may be outdated
    if endings:
        return digest_of(find(path, endings))
    try:
        return (_remote(*_as_it_is_now(path)) if is_address(path) else _local(path)).state
    except FileNotFoundError:
        return ""


def digest_of(found: Sequence[Found]) -> str:
    """Returns a digest of files that changes when one is added, removed or changed; "" without files."""
    return hashlib.sha256(repr([(file.path, file.state) for file in found]).encode()).hexdigest() if found else ""


def _sole_member(path: str, archive: zipfile.ZipFile) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if "[Content_Types].xml" in names:
        raise UserError(f"{path} is an Excel sheet. Save each sheet as CSV.")
    if len(names) != 1:
        raise UserError(f"{path}: a zip archive must hold one file. It holds {len(names)}: {names[:_SHOWN_NAMES]}.")
    return names[0]


def _find_local(folder: str, pattern: str, endings: Sequence[str]) -> list[Found]:
    literal = Path(folder + pattern)
    if literal.is_file():
        paths = [folder + pattern]
    elif literal.is_dir():
        paths = list(_within(literal, endings))
    else:
        paths = []
        for match in match_paths(glob.escape(folder) + pattern):
            if Path(match).is_file():
                paths.append(match)
            elif match.endswith(tuple(endings) or ("\0",)):
                paths += _within(Path(match), endings)
    return [_local(path) for path in _once(sorted(set(paths)))]


def _once(paths: Sequence[str]) -> list[str]:
    """Returns the paths without further paths of the same file through links; hard links are files of their own."""
    of_file: dict[str, str] = {}
    real_folder = cache(os.path.realpath)  # a folder of images holds tens of thousands
    for path in paths:
        folder, name = os.path.split(path)
        real = os.path.realpath(path) if os.path.islink(path) else os.path.join(real_folder(folder), name)
        if path == real or real not in of_file:
            of_file[real] = path
    return sorted(of_file.values())


def _within(folder: Path, endings: Sequence[str]) -> Iterator[str]:
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        for name in names if endings else ():
            path = os.path.join(inside, name)
            if not name.startswith(_HIDDEN) and _has_ending(name, endings) and os.path.isfile(path):
                yield path


def _has_ending(name: str, endings: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(endings)) or suffix_of(name) in endings


def _local(path: str) -> Found:
    status = os.stat(path)
    return Found(path, status.st_size, version_of(path, status))


def version_of(path: str | Path, status: os.stat_result) -> str:
    """Returns the time of the last change of a local file's content, and that of its content or name or owner.

    The second time also differs if another file with the same size and time replaces the file. It does not count where
    it says nothing about the file: for installed packages, and in pods, where mounting a volume may set it.
    """
    if _IN_POD in os.environ or str(path).startswith(sys.prefix):
        return str(status.st_mtime_ns)
    return f"{status.st_mtime_ns} {status.st_ctime_ns}"


def _find_remote(pattern: str, endings: Sequence[str]) -> list[Found]:
    file_system, inner = _as_it_is_now(pattern)
    with prefix_errors(pattern):
        paths = sorted(_remote_paths(file_system, inner, endings))
        return [_remote(file_system, path) for path in paths]


def _remote_paths(file_system: Any, pattern: str, endings: Sequence[str]) -> set[str]:
    paths: set[str] = set()
    for match, kind in _remote_matches(file_system, pattern).items():
        if kind == "file":
            paths.add(match)
        elif endings and (match == pattern or match.rstrip("/").endswith(tuple(endings))):
            paths |= {path for path in file_system.find(match) if _is_data(path, match, endings)}
    return paths


def _remote_matches(file_system: Any, pattern: str) -> dict[str, str]:
    """Returns the files and folders that match a glob -> `file` or `directory`.

    The glob of a driver skips folders that it cannot list. A single failure of the store would then silently lose rows.
    """
    if "**" in pattern:
        return {path: entry["type"] for path, entry in file_system.glob(pattern, detail=True).items()}
    parts = pattern.split("/")
    level = next((n for n, part in enumerate(parts) if glob.has_magic(part)), None)
    if level is None:
        return _entry(file_system, pattern)
    matching = re.compile(fnmatch.translate(parts[level])).match
    matched: dict[str, str] = {}
    for path, kind in _entries(file_system, "/".join(parts[:level])).items():
        if matching(PurePosixPath(path).name):
            deeper = parts[level + 1 :]
            matched |= _remote_matches(file_system, "/".join([glob.escape(path), *deeper])) if deeper else {path: kind}
    return matched


def _entry(file_system: Any, path: str) -> dict[str, str]:
    try:
        return {path: file_system.info(path)["type"]}
    except FileNotFoundError:
        return {}


def _entries(file_system: Any, folder: str) -> dict[str, str]:
    try:
        listed = file_system.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {path: entry["type"] for entry in listed if (path := entry["name"].rstrip("/")) != folder}


def _is_data(path: str, folder: str, endings: Sequence[str]) -> bool:
    parts = PurePath(path).parts[len(PurePath(folder).parts) :]
    return not any(part.startswith(_HIDDEN) for part in parts) and _has_ending(path, endings)


def _remote(file_system: Any, path: str) -> Found:
    """Returns a remote file. A driver's `ukey` is the last resort: it depends on whether the file was listed before."""
    info = file_system.info(path)
    version = next((str(info[key]).strip('"') for key in _VERSIONS if info.get(key)), None)
    version = version or f"{_UNSURE}{file_system.ukey(path)}"
    return Found(file_system.unstrip_protocol(path), int(info["size"] or 0), version)


def _as_it_is_now(address: str) -> tuple[Any, str]:
    """Returns the file system and path of an address; listings cached for more than a second are dropped.

    Drivers of object stores cache listings for the lifetime of the process, and a scheduler runs for months. During one
    search of hundreds of spans, the cache saves a request per file.
    """
    file_system, inner = _file_system(address)
    now = monotonic()
    if now - _listed.get(file_system, float("-inf")) > _BELIEVED_SECONDS:
        _listed[file_system] = now
        file_system.invalidate_cache()
    return file_system, inner


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec.core  # takes 50 ms, which `check` of a local file should avoid

    try:
        return fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UserError(f"{address}: its driver is not installed: {error}.") from error
    except ValueError as error:
        raise UserError(f"{address}: {error}. Give a path, or an address such as s3://bucket/file.") from error
