"""Files that change between planning and reading: all old rows are written, or an error names the file."""

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fullpass.components.ingest.sources.formats import FILE_FORMATS
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.row_files import write_rows
from tests.fuzz.accounted import ingested

_COLUMNS = (RawColumn("text", "string"),)
_ROWS = 120


def _content(format: str, texts: list[str]) -> bytes:
    with TemporaryDirectory() as folder:
        _, file = write_rows(Path(folder), format, [{"text": text} for text in texts], group=50)
        return Path(file.path).read_bytes()


def _write(path: Path, data: bytes, rng: random.Random) -> None:
    """Writes new content in place, or as another file that is renamed, as programs that export data do."""
    if rng.random() < 0.5:
        path.write_bytes(data)
    else:
        part = path.with_name("part")
        part.write_bytes(data)
        part.replace(path)


def _cut(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _grow(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    with path.open("ab") as file:
        file.write(write([f"late {i}" for i in range(rng.randint(1, 50))]))


def _replace(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    _write(path, write([f"other {i}" for i in range(rng.randint(1, 2 * _ROWS))]), rng)


def _replace_by_same_size(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    data = path.read_bytes()
    _write(path, data[::-1], rng)


def _remove(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    path.unlink()


def _leave(path: Path, rng: random.Random, write: Callable[[list[str]], bytes]) -> None:
    path.read_bytes()


def try_one(seed: int, folder: Path) -> str:
    """Plans the parts of a file, changes it in one of six ways, and ingests it."""
    rng = random.Random(seed)
    format = sorted(FILE_FORMATS)[seed % len(FILE_FORMATS)]
    change = rng.choice((_cut, _grow, _replace, _replace_by_same_size, _remove, _leave))
    source, file = write_rows(folder, format, [{"text": f"name {i}"} for i in range(_ROWS)], group=50)
    write = partial(_content, format)
    outcome = ingested(source, _COLUMNS, folder, seed, meanwhile=lambda: change(Path(file.path), rng, write))
    if change is _leave:
        assert outcome.refused is None and outcome.written == _ROWS, outcome
    else:
        assert outcome.refused is not None, (change.__name__, outcome)
    return outcome.kind
