"""One page of a root, `index.html`: its newest run as a DAG, its pushed models, and its newest runs.

It is a static file, which every run and every change of the served model write anew. Its size does not grow with the
number of runs.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from fullpass.base.files import write_atomically
from fullpass.components.pages.render import render_page
from fullpass.components.push.push import pipeline_of
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import report_errors
from fullpass.pipeline.record.list_runs import ListedRun, read_runs
from fullpass.pipeline.record.list_runs import run_cells as run_cells
from fullpass.pipeline.registry.list_versions import read_versions, rows_note
from fullpass.pipeline.registry.list_versions import version_cells as version_cells
from fullpass.pipeline.registry.locate_model import recorded_as
from fullpass.pipeline.root.layout import RootLayout, pipeline_root, served_folder

MOST_RUNS = 100
"""Runs that the page lists."""
_STYLES = {"ok": "good", "cached": "good", "reused": "good", "failed": "bad", "interrupted": "bad"}
_NOT_WRITTEN = "The page of all runs could not be written"

Link = tuple[str, str]
"""Text and address, relative to the root."""


def write_root_page(root: Path, name: str, target: Path) -> Path:
    """Writes the page of a root, atomically, and returns its path.

    Args:
        name: The name of the pipeline.
        target: The folder of its pushed models.
    """
    layout, runs = RootLayout(root), read_runs(root, MOST_RUNS)
    headings, rows = run_cells(runs, None)
    linked = [(_linked(root, run), *row[1:]) for run, row in zip(runs, rows, strict=True)]
    models = read_versions(target, MOST_RUNS)
    page = render_page(
        "root.html",
        name=name,
        folder=str(root),
        written=f"{datetime.now().astimezone():%Y-%m-%d %H:%M %z}",
        newest=_shown(layout, runs[0]) if runs else None,
        models=version_cells(models),
        models_note=rows_note(models),
        runs=(headings, linked),
        watch=_links(root, [("the served model and its requests", layout.watch_page)]),
        older=10 * MOST_RUNS if len(runs) == MOST_RUNS else 0,
    )
    write_atomically(layout.index, page.encode())
    return layout.index


def write_page_after_run(loaded: Loaded, root: Path | None) -> None:
    """Writes the page as `write_root_page`; a failure is printed, since it does not change the outcome of the run."""
    with report_errors(_NOT_WRITTEN):
        write_root_page(pipeline_root(loaded, root), loaded.config.name, served_folder(loaded))


def write_pages_of(target: Path) -> None:
    """Writes the pages of all roots whose models are in a folder, after another of them is served; prints failures."""
    with report_errors(_NOT_WRITTEN):
        folders = [Path(version.folder) for version in read_versions(target)]
        metadata = {found: pipeline_of(folder) for folder in folders if (found := recorded_as(folder)[1])}
        for file, name in metadata.items():
            write_root_page(file.parent, name or file.parent.name, target)


def _report(run: ListedRun) -> Path | None:
    report = run.facts.report
    return Path(report) if report and Path(report).is_file() else None


def _shown(layout: RootLayout, run: ListedRun) -> dict[str, Any]:
    """Returns the newest run for the template: its facts, its links, and its nodes, each layer reading earlier ones."""
    # Loads ML Metadata, which `fullpass report` does not need.
    from fullpass.pipeline.running.execution.records import artifacts_by_node

    known, name = run.facts, run.facts.run_id
    facts = [
        ("run", name),
        ("started", (run.started or "")[:16].replace("T", " ")),
        ("took", "" if run.seconds is None else f"{run.seconds} s"),
        ("outcome", known.outcome.replace("_", " ")),
        ("", known.message),
        ("spans", " to ".join(dict.fromkeys(known.spans or ()))),
        ("rows read", f"{known.rows_read:,}" if known.rows_read else ""),
    ]
    report, logs = _report(run), layout.run_logs(name)
    reads, made = artifacts_by_node(layout.metadata, known.recorded_as or name) if known.nodes else ({}, {})
    shown: dict[str, dict[str, Any]] = {}
    depth: dict[str, int] = {}
    for node, result in known.nodes.items():  # in the order of the pipeline, so nodes that it reads come before it
        after = [other for other in shown if made.get(other, set()) & reads.get(node, set())]
        # The folder of an artifact is <root>/<Node>/<output>/<execution>.
        outputs = sorted((Path(uri).parent.name, Path(uri)) for uri in made.get(node, ()))
        depth[node] = 1 + max((depth[other] for other in after), default=-1)
        shown[node] = {
            "id": node,
            "status": result["status"],
            "style": _STYLES.get(result["status"], "quiet"),
            "took": _took(result),
            "after": after,
            "links": _links(layout.root, [("log", logs / f"{node}.log"), *outputs]),
        }
    layers = [[one for one in shown.values() if depth[one["id"]] == level] for level in sorted(set(depth.values()))]
    links = _links(layout.root, [("report", report), ("logs", logs)])
    return {"facts": [fact for fact in facts if fact[1]], "links": links, "layers": layers}


def _linked(root: Path, run: ListedRun) -> str:
    """Returns the id of a run, as a link to its report if it has one."""
    for _, address in _links(root, [("report", _report(run))]):
        return Markup('<a href="{}">{}</a>').format(address, run.facts.run_id)
    return run.facts.run_id


def _took(result: Mapping[str, Any]) -> str:
    if not result["seconds"]:
        return ""
    return f"{result['seconds']:.1f} s, {result['cpu_seconds']:.1f} s of processor, {result['peak_mib']:,} MiB"


def _links(root: Path, named: Iterable[tuple[str, Path | None]]) -> list[Link]:
    return [(text, quote(os.path.relpath(path, root))) for text, path in named if path is not None and path.exists()]
