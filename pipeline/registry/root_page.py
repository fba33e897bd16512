"""One page of a root, `index.html`: its newest run as a graph, its newest runs and trials, and its pushed models.

It is a static file, which every run and every change of the served model write anew. Its size does not grow with the
number of runs.
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from fullpass.base.files import write_atomically
from fullpass.base.metric_text import metric_text
from fullpass.components.artifact_files import PAGE
from fullpass.components.pages import vega
from fullpass.components.pages.graph import GraphNode, critical_path, graph
from fullpass.components.pages.render import render_page
from fullpass.components.push.push import pipeline_of
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import report_errors
from fullpass.pipeline.record.config_diff import Settings
from fullpass.pipeline.record.list_runs import ListedRun, leaderboards, read_runs
from fullpass.pipeline.record.list_runs import run_cells as run_cells
from fullpass.pipeline.registry.list_versions import read_versions, rows_note
from fullpass.pipeline.registry.list_versions import version_cells as version_cells
from fullpass.pipeline.registry.locate_model import recorded_as
from fullpass.pipeline.root.layout import RootLayout, pipeline_root, served_folder

MOST_RUNS = 100
"""Runs that the page lists."""
_STYLES = {"ok": "good", "cached": "good", "reused": "good", "failed": "bad", "interrupted": "bad"}
_NOT_WRITTEN = "The page of all runs could not be written"

_TIME_OF_ID = "replace(datum.label, regexp('^....(..)(..)-(..)(..).*'), '$1-$2 $3:$4')"
_SLANTED = {"labelAngle": -40, "labelOverlap": True}

Link = tuple[str, str]
"""Text and address, relative to the root."""
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The headings and the rows of a table of text."""


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
        chart=metrics_by_run(_points(runs[::-1])),
        beside=vega.script_json(_side_by_side(runs)),
        file=f" --file {shlex.quote(runs[0].facts.file)}" if runs and runs[0].facts.file else "",
        trials=leaderboards(runs),
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
    """Returns the newest run for the template: its facts, its links, and its nodes as a graph and as a table."""
    # Loads ML Metadata, which `fullpass report` does not need.
    from fullpass.pipeline.running.execution.records import outputs_by_node

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
    made = outputs_by_node(layout.metadata, known.recorded_as or name) if known.nodes else {}
    nodes, rows = [], []
    for node, result in known.nodes.items():
        # The folder of an artifact is <root>/<Node>/<output>/<execution>.
        outputs = sorted((Path(uri).parent.name, Path(uri)) for uri in made.get(node, ()))
        page = [("page", path / PAGE) for _, path in outputs]
        links = _links(layout.root, [*page, ("log", logs / f"{node}.log"), *outputs])
        status, took = result["status"], f"{result['seconds']:.1f} s" if result["seconds"] else ""
        used = (f"{result['cpu_seconds']:.1f} s", f"{result['peak_mib']:,} MiB") if took else ("", "")
        rows.append((node, status, took, *used, _joined(links)))
        nodes.append(
            GraphNode(
                node,
                words=", ".join(filter(None, [status, took])),
                hint=f"{node}: {status}" + (f" in {took}, {used[0]} of processor, {used[1]}" if took else ""),
                style=_STYLES.get(status, "quiet"),
                seconds=result["seconds"],
                after=tuple(other for other in result.get("after", ()) if other in known.nodes),
                link=links[0][1] if links else "",
            )
        )
    longest = critical_path(nodes)
    seconds = sum(node.seconds for node in nodes if node.id in longest)
    return {
        "facts": [fact for fact in facts if fact[1]],
        "links": _joined(_links(layout.root, [("report", report), ("logs", logs)])),
        "graph": graph(nodes, longest if seconds else ()) if nodes else "",
        "longest": f"{seconds:.1f} s" if seconds else "",
        "nodes": (("node", "status", "took", "processor", "memory", "files"), rows),
    }


def _points(runs: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """Returns the metrics of runs as rows of a chart."""
    return [
        {
            "run": run.facts.run_id,
            "metric": name,
            "value": value,
            "changed": " and ".join(run.changed or ()) or "nothing",
            "what changed": "; ".join(run.changes or ()),
            "outcome": run.facts.outcome.replace("_", " "),
        }
        for run in runs
        for name, value in run.metrics.items()
    ]


def metrics_by_run(points: Sequence[Mapping[str, Any]]) -> Markup:
    """Returns the chart of a metric, which a select chooses, over runs; "" for one run, or without a metric.

    Args:
        points: run, metric, value, changed, what changed and outcome of each point, the oldest run first.
    """
    names = list(dict.fromkeys(point["metric"] for point in points))
    if len({point["run"] for point in points}) <= 1:
        return Markup("")
    kinds = list(dict.fromkeys(point["changed"] for point in points))
    x = {"field": "run", "type": "ordinal", "sort": None, "title": None, "axis": {"labelExpr": _TIME_OF_ID} | _SLANTED}
    y = {"field": "value", "type": "quantitative", "scale": {"zero": False}, "title": None}
    color = {"field": "changed", "type": "nominal", "scale": vega.colors(kinds), "legend": {"title": "changed"}}
    tips = [{"field": name, "type": "nominal"} for name in ("run", "outcome", "what changed")]
    tips.insert(1, {"field": "value", "type": "quantitative", "format": ".4g"})
    spec = {
        "width": "container",
        "data": {"values": points},
        "params": [{"name": "metric", "value": names[0], "bind": {"input": "select", "options": names}}],
        "transform": [{"filter": "datum.metric === metric"}],
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "line", "color": vega.QUIET}},
            {
                "transform": [{"filter": "datum.changed !== 'nothing'"}],
                "mark": {"type": "rule", "strokeDash": [3, 3], "opacity": 0.6},
                "encoding": {"color": color, "y": None},
            },
            {"mark": {"type": "point", "size": 60}, "encoding": {"color": color, "tooltip": tips}},
        ],
    }
    return vega.chart(spec, label="A metric of the eval split by run; dashed lines are where something changed")


def _side_by_side(runs: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """Returns what the page puts side by side: the name, metrics, data and settings of each run, as text."""
    written = {run.facts.run_id: Settings.read(run.facts.config.get("yaml", "")).flat for run in runs}
    paths = {path for settings in written.values() for path in settings}
    differing = {path for path in paths if len({settings.get(path) for settings in written.values()}) > 1}
    return [
        {
            "run": run.facts.run_id,
            "facts": {
                "outcome": run.facts.outcome.replace("_", " "),
                "took": "" if run.seconds is None else f"{run.seconds} s",
                **{name: metric_text(value) for name, value in run.metrics.items()},
                "spans": " to ".join(dict.fromkeys(run.facts.spans or ())),
                "rows read": f"{run.facts.rows_read:,}" if run.facts.rows_read else "",
                "data": run.facts.data_digest[:6],
                "code": run.facts.code.get("fullpass") or "",
                **{path: text for path, text in written[run.facts.run_id].items() if path in differing},
            },
        }
        for run in runs
    ]


def _linked(root: Path, run: ListedRun) -> str:
    """Returns the id of a run, as a link to its report if it has one."""
    for _, address in _links(root, [("report", _report(run))]):
        return Markup('<a href="{}">{}</a>').format(address, run.facts.run_id)
    return run.facts.run_id


def _joined(links: Sequence[Link]) -> Markup:
    return Markup(", ").join(Markup('<a href="{}">{}</a>').format(address, text) for text, address in links)


def _links(root: Path, named: Iterable[tuple[str, Path | None]]) -> list[Link]:
    return [(text, quote(os.path.relpath(path, root))) for text, path in named if path is not None and path.exists()]
