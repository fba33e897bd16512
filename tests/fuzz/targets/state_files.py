"""Damaged state files: the content read back equals the content written, or an error names the file."""

import logging
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fullpass.base import state_file
from fullpass.base.state_file import DamagedState
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.spans.span_column import split_by_span
from fullpass.components.transform.analyzer_cache import AnalyzerCache
from fullpass.pipeline.root.sqlite_files import open_sqlite, verify
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.export.export_files import DESCRIPTION, FILES, listed_files, verify_export
from tests.fuzz.damage import damaged, flip_one

_SMALL_SHARE = 0.5
_UNNOTICED = "not noticed, and harmless"


def try_one(seed: int, folder: Path) -> str:
    """Damages a state file of one of six kinds and reads it back."""
    logging.disable(logging.WARNING)
    try:
        return _KINDS[seed % len(_KINDS)](random.Random(seed), folder)
    finally:
        logging.disable(logging.NOTSET)


def _spoil(path: Path, rng: random.Random) -> bool:
    """Damages a file; returns whether its content changed."""
    before = path.read_bytes()
    after = flip_one(bytearray(before), rng) if rng.random() < _SMALL_SHARE else damaged(before, rng)
    path.write_bytes(after)
    return after != before


def _refused(path: Path, read: Callable[[], object]) -> bool:
    try:
        read()
    except DamagedState as error:
        assert str(path) in str(error), error
        return True
    return False


def _json(rng: random.Random, folder: Path) -> str:
    path = folder / "state.json"
    fields = {"model": "é" * rng.randint(0, 9), "spans": list(range(rng.randint(0, 5))), "share": rng.random()}
    state_file.write(path, fields, indent=rng.choice((None, 2)))
    _spoil(path, rng)
    if _refused(path, partial(state_file.read, path, "")):
        return "refused"
    assert state_file.read(path, "") == fields
    return _UNNOTICED  # a space between two fields


def _analyzer_cache(rng: random.Random, folder: Path) -> str:
    written = {bytes([i]) * 64: [rng.randbytes(rng.randint(0, 90)) for _ in range(i)] for i in range(4)}
    cache = AnalyzerCache(str(folder))
    cache.write("f", written)
    (path,) = folder.rglob("*.accumulators")
    changed = _spoil(path, rng)
    found = cache.read("f", whole=True)
    assert found == ({} if changed else written), found
    return "refused" if changed else "read"


def _sqlite(rng: random.Random, folder: Path) -> str:
    path = folder / "file.sqlite"
    rows = [(i, f"value {i}" * 9) for i in range(80)]
    with open_sqlite(path, "", "rwc") as database, database:
        database.execute("CREATE TABLE t (i INTEGER, a TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    _spoil(path, rng)
    if _refused(path, partial(verify, path, "")):
        return "refused"

    def read() -> None:
        with open_sqlite(path, "") as database:
            database.execute("SELECT * FROM t").fetchall()

    return "refused" if path.stat().st_size and _refused(path, read) else _UNNOTICED  # a changed value


def _span_index(rng: random.Random, folder: Path) -> str:
    data = folder / "rows.csv"
    data.write_text("at,x\n" + "".join(f"2026-01-0{1 + i % 3},{i}\n" for i in range(9)))
    source, span = CsvSource(format="csv", path=str(data)), SpanColumn(column="at", unit="day")
    files = find_inputs(source, str)
    look = partial(split_by_span, files, source, span, folder / "index")
    expected = look()
    (path,) = (folder / "index").iterdir()
    changed = _spoil(path, rng)
    assert look() == expected
    return "made anew" if changed else "read"


def _summary(rng: random.Random, folder: Path) -> str:
    store = SummaryStore(str(folder), SeriesSource.of(PreprocessingConfig.model_validate(_CONFIG), None))
    summary = SpanSummary(7, "day 7", "f" * 16, 120, {}, 5.0)
    store.write(summary)
    (path,) = folder.iterdir()
    _spoil(path, rng)
    found = store.read(7, "f" * 16)
    assert found in (None, summary), found
    return "made anew" if found is None else "read"


def _export(rng: random.Random, folder: Path) -> str:
    names = ("saved_model.pb", "assets/vocabulary", "variables/variables.index")
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(rng.randbytes(rng.randint(0, 200)))
    (folder / DESCRIPTION).parent.mkdir()
    state_file.write(folder / DESCRIPTION, {FILES: listed_files(str(folder))}, indent=2)
    path = folder / rng.choice((*names, DESCRIPTION))
    before = path.read_bytes()
    changed = _spoil(path, rng)
    refused = _refused(path, partial(verify_export, str(folder)))
    assert refused or not changed or path.name == Path(DESCRIPTION).name, (path, before, path.read_bytes())
    return "refused" if refused else _UNNOTICED


_CONFIG = {"features": {"x": {"type": "number"}}, "label": {"name": "y", "task": "regression"}}
_KINDS = (_json, _analyzer_cache, _sqlite, _span_index, _summary, _export)
