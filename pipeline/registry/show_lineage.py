"""Formats a lineage as a tree for the terminal."""

from typing import Any

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from fullpass.pipeline.registry.list_versions import code_text
from fullpass.pipeline.registry.locate_model import LineageRecord

_SHOWN_SPANS = 40


def tree(record: LineageRecord) -> RenderableType:
    """Returns the lineage as a tree of lines."""
    lineage = record.lineage
    root = Tree(Text(f"model {lineage.get('model') or 'unknown'}"))
    _line(root, "run", lineage.get("run"))
    config = lineage.get("config")
    _line(root, "config", config and f"{config['hash']} (--yaml prints it as it was)")
    _code(root, lineage.get("code") or {})
    _spans(root, lineage.get("spans") or [])
    graph = lineage.get("transform_graph")
    _line(root, "transform graph", graph and f"{graph['digest'] or 'gone'}, {graph['uri']}")
    _metrics(root, lineage)
    _blessing(root, lineage.get("blessing"))
    gates = root.add("gates")
    for name, facts in (lineage.get("gates") or {}).items():
        recorded = {key: value for key, value in facts.items() if key != "found"}
        branch = _line(gates, name, ", ".join(f"{key} {_short(value)}" for key, value in recorded.items()))
        for found in facts.get("found", []):
            branch.add(Text(found))
    _line(root, "read from", record.source)
    return root


def _line(tree: Tree, name: str, value: Any) -> Tree:
    return tree.add(Text(f"{name}  {value if value not in (None, '') else 'not recorded'}"))


def _code(tree: Tree, code: dict[str, Any]) -> None:
    words = code_text(code)
    more = [f"source {code['source']}"] if code.get("source") else []
    more += [f"user code {code['user']}"] if code.get("user") else []
    _line(tree, "code", words and ", ".join([f"fullpass {words}", *more]))


def _spans(tree: Tree, spans: list[dict[str, Any]]) -> None:
    rows = sum(span["rows_read"] for span in spans)
    branch = tree.add(
        Text(f"data  {len(spans)} span{'s' * (len(spans) != 1)}, {rows:,} rows read" if spans else "data")
    )
    shown = spans if len(spans) <= _SHOWN_SPANS else [*spans[: _SHOWN_SPANS // 2], *spans[-_SHOWN_SPANS // 2 :]]
    for index, span in enumerate(shown):
        if len(shown) < len(spans) and index == _SHOWN_SPANS // 2:
            branch.add(f"... {len(spans) - len(shown)} more")
        splits = ", ".join(f"{split} {count:,}" for split, count in span["rows"].items())
        bad = f", quarantined {span['rows_quarantined']:,}" if span["rows_quarantined"] else ""
        version = f" v{span['version']}" if span["version"] else ""
        name = f"{span['span'] or 'all'}{version}"
        branch.add(Text(f"{name}  {span['fingerprint'] or ''}  {span['rows_read']:,} read: {splits}{bad}"))


def _metrics(tree: Tree, lineage: dict[str, Any]) -> None:
    examples = lineage.get("examples_evaluated")
    branch = tree.add(f"metrics  on {examples:,} examples" if examples is not None else "metrics  not recorded")
    baseline = lineage.get("baseline") or {}
    for name, value in (lineage.get("metrics") or {}).items():
        before = baseline.get("metrics", {}).get(name)
        branch.add(Text(f"{name}  {value:.6g}" + ("" if before is None else f", the baseline {before:.6g}")))
    if baseline:
        branch.add(Text(f"baseline  {baseline['model']}"))


def _blessing(tree: Tree, blessing: dict[str, Any] | None) -> None:
    if blessing is None:
        _line(tree, "blessing", None)
        return
    words = f"{'blessed' if blessing['blessed'] else 'not blessed'} by {blessing['by']}"
    words += f" at {blessing['at']}" if blessing.get("at") else ""
    words += f": {blessing['why']}" if blessing.get("why") else ""
    branch = tree.add(Text(f"blessing  {words}"))
    for reason in blessing["reasons"]:
        branch.add(Text(reason))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
