"""Ingested spans in the registry, on a volume or at a URL: each span is ingested once for all windows that hold it."""

import dataclasses
import json
import shutil
from pathlib import Path

import fsspec
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.kubeflow.runtime import span_store
from fullpass.kubeflow.runtime.executor_input import ArtifactCopy
from fullpass.kubeflow.runtime.span_store import SpanStore, ingest_window, open_window, write_window

CONFIG = IngestConfig.model_validate(
    {"source": {"format": "csv", "path": "x"}, "split": {"method": "hash"}, "records": {}, "bad_rows": {}}
)


def window(*numbers: int) -> Request:
    spans = tuple(SpanRequest(number, f"day {number}", 0, f"{number:016x}", ()) for number in numbers)
    return Request(CONFIG, ("train",), (), gzip=True, spans=spans, spanned=True)


@pytest.fixture(params=["path", "memory://"])
def kept(request, tmp_path, monkeypatch):
    """Returns `kept(request, reingest_all)`: the window as a node reads it: label and content of each span."""
    (tmp_path / "pod").mkdir()
    monkeypatch.setattr(span_store.tempfile, "gettempdir", lambda: str(tmp_path / "pod"))
    root = str(tmp_path / "registry") if request.param == "path" else f"memory://{tmp_path.name}/registry"
    store = SpanStore(f"{root}/entries")

    def ingest(request: Request, folder: str):
        run.ingested.append([span.number for span in request.spans])
        written = []
        for span in request.spans:
            where = Path(folder) / span.label / "Split-train"
            where.mkdir(parents=True)
            (where / "rows").write_text(f"rows of {span.number}")
            if span.number == run.broken:
                raise OSError("disk full")
            written.append((str(where.parent), {"counts": '{"read": 10}', "span": float(span.number)}))
        return written

    def run(request: Request, *, reingest_all: bool = False):
        found = ingest_window(request, store, f"{root}/files", ingest, reingest_all=reingest_all)
        run.metadata = write_window(found, tmp_path / "artifact")
        shutil.rmtree(tmp_path / "pod", ignore_errors=True)
        (tmp_path / "pod").mkdir()
        copies = open_window(ArtifactCopy("s3://b/x", tmp_path / "artifact", {}, "7"), direct=False)
        return [(copy.metadata["span"], (copy.path / "Split-train/rows").read_text()) for copy in copies]

    run.ingested, run.broken, run.root, run.store = [], None, root, store
    return run


def test_a_span_is_ingested_once_and_the_window_is_in_the_order_of_its_spans(kept):
    assert kept(window(1, 2)) == [(1.0, "rows of 1"), (2.0, "rows of 2")]
    assert kept(window(2, 3)) == [(2.0, "rows of 2"), (3.0, "rows of 3")]
    assert kept.ingested == [[1, 2], [3]]
    assert kept.metadata == {
        "spans": 2, "first_span": "day 2", "newest_span": "day 3", "rows_read": 20, "rows_quarantined": 0,
    }  # fmt: skip
    kept(window(2, 3), reingest_all=True)
    assert kept.ingested[2:] == [[2, 3]]


def test_another_version_of_a_span_is_another_span(kept):
    kept(window(1))
    [span] = window(1).spans
    other = dataclasses.replace(span, version=1, fingerprint="f" * 16)
    kept(dataclasses.replace(window(1), spans=(other,)))
    assert kept.ingested == [[1], [1]] and kept.store.missing_spans([span, other]) == []


def test_what_was_ingested_before_a_failure_is_kept_and_nothing_half_written(kept, monkeypatch):
    monkeypatch.setattr(span_store, "_SPANS_AT_ONCE", 2)
    kept.broken = 3
    with pytest.raises(OSError, match="disk full"):
        kept(window(1, 2, 3, 4))
    files, root = fsspec.core.url_to_fs(f"{kept.root}/files")
    assert len([file for file in files.find(root) if file.endswith("/rows")]) == 2
    kept.broken = None
    assert [number for number, _ in kept(window(1, 2, 3, 4))] == [1, 2, 3, 4]
    assert kept.ingested == [[1, 2], [3, 4], [3, 4]]


def test_records_that_were_deleted_are_ingested_again(kept):
    kept(window(1, 2))
    files, _ = fsspec.core.url_to_fs(kept.root)
    [first, _] = kept.store.read(window(1, 2).spans)
    files.rm(first.records, recursive=True)
    assert kept(window(1, 2)) == [(1.0, "rows of 1"), (2.0, "rows of 2")] and kept.ingested == [[1, 2], [1]]


def test_a_node_that_does_not_see_the_records_says_so(tmp_path):
    entry = {"label": "day 1", "records": "/nowhere/day 1", "metadata": {}}
    (tmp_path / "window.json").write_text(json.dumps([entry]))
    with pytest.raises(UserError, match=r"span day 1: /nowhere/day 1 does not exist.*this node does not mount"):
        open_window(ArtifactCopy("s3://b/x", tmp_path, {}, "7"), direct=False)


def test_a_spoilt_entry_is_named(tmp_path):
    [span] = window(1).spans
    (tmp_path / f"1.0.{span.fingerprint}.json").write_text("{")
    with pytest.raises(UserError, match=r"1\.0\.0+1\.json: not the entry of an ingested span.*Delete it"):
        SpanStore(str(tmp_path)).missing_spans([span])
