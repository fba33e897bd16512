"""Finds a model, reads its lineage from the metadata of its pipeline or from its export, and formats it as a tree."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from fullpass.base.errors import UsageError, UserError, did_you_mean, listed
from fullpass.base.json_text import parse_fields
from fullpass.components.data_gate.gate_verdict import JudgedSpan
from fullpass.components.push import push
from fullpass.pipeline.authoring.loading.load import YAML_ENDINGS, load
from fullpass.pipeline.printing import short_value
from fullpass.pipeline.registry.list_versions import code_text
from fullpass.pipeline.root.layout import metadata_above, served_folder
from fullpass.pipeline.startup import noise_to
from fullpass.trainer.export.export_files import DESCRIPTION, ORIGIN

LATEST = "latest"
_SHOWN_SPANS = 40
"""Spans in a terminal, the first and the last ones; `--json` has all."""


@dataclass(frozen=True)
class LineageRecord:
    """The lineage of a model."""

    lineage: dict[str, Any]
    source: str


def read_lineage(model: str, config: Path) -> LineageRecord:
    """Returns the lineage of a model.

    Args:
        model: A version in the folder of pushed models, `latest` or the YAML itself for the served one, or the folder
            of a version, an export or a model artifact.
        config: The YAML that names the folder of pushed models; not read if `model` is a folder or a YAML.

    Raises:
        UserError: There is no such model, or its lineage was not recorded.
    """
    return lineage_at(find_export(model, config))


def lineage_at(export: Path) -> LineageRecord:
    """Returns the lineage of the model of an export; see `read_lineage`."""
    uri, metadata = recorded_as(export)
    if uri and metadata:
        if (found := _from_metadata(metadata, uri)) is not None:
            refreshed = (push.description(export).get(push.LINEAGE) or {}).get("refreshed")
            return LineageRecord(found | ({"refreshed": refreshed} if refreshed else {}), str(metadata))
    lineage = push.description(export).get(push.LINEAGE)
    if not lineage:
        raise UserError(
            f"{export} contains no provenance, and no metadata lists it: its pipeline's root is not on this "
            "machine, and it was not exported by `fullpass run`."
        )
    return LineageRecord(lineage, str(export / DESCRIPTION))


def recorded_as(export: Path) -> tuple[str | None, Path | None]:
    """Returns the address of the model of an export, and the metadata that may list it; None if it is not here.

    A copy without its origin has left its pipeline, and its own record counts.
    """
    own = str(export.parent) if export.name == push.SERVING else None
    uri = push.origin_of(export) if (export / ORIGIN).is_file() else own
    metadata = metadata_above(Path(uri)) if uri else None
    return uri, metadata if metadata and metadata.is_file() else None


def pushed_to(target: Path) -> Path:
    """Returns the folder of pushed models that a YAML names, or `target` if it is a folder.

    Raises:
        UserError: The YAML cannot be read, or its folder holds the models of another pipeline.
    """
    if target.is_dir():
        return target
    if target.suffix not in YAML_ENDINGS and not target.exists():
        near = target.parent.iterdir() if target.parent.is_dir() else ()
        hint = did_you_mean(target.name, [one.name for one in near if one.is_dir() or one.suffix in YAML_ENDINGS])
        raise UsageError(f"{target}: there is no such folder. Give a folder of models, or the pipeline YAML.{hint}")
    return served_folder(load(target))


def find_export(model: str, config: Path) -> Path:
    """Returns the folder of the SavedModel that `model` names, as in `read_lineage`."""
    folder = Path(model)
    if folder.suffix in YAML_ENDINGS:
        model, config = LATEST, folder
    if not model.isdigit() and model != LATEST:
        for export in (folder, folder / push.SERVING, folder / "current"):
            if (export / "saved_model.pb").is_file():
                return export.resolve()
        raise UserError(
            f"{model}: no model. Give a version's number, `{LATEST}`, or a folder with a saved_model.pb, or a YAML."
        )
    target = pushed_to(config)
    version = push.served_version(target) if model == LATEST else int(model)
    if version is None or not push.folder_of(target, version).is_dir():
        raise UserError(f"{target}: no version {model}. `fullpass models` lists the versions.")
    return push.folder_of(target, version)


def _from_metadata(metadata: Path, uri: str) -> dict[str, Any] | None:
    # A user who may read the models but not write the locks beside the metadata gets the lineage from the export.
    with contextlib.suppress(PermissionError), noise_to(Path(os.devnull)):
        from fullpass.pipeline.registry.find_lineage import find_lineage

        return find_lineage(metadata, uri)
    return None


def tree(record: LineageRecord) -> RenderableType:
    """Returns the lineage as a tree of lines."""
    lineage = record.lineage
    root = Tree(Text(f"model {lineage.get('model') or 'unknown'}"))
    _line(root, "run", lineage.get("run"))
    if lineage.get("occasion"):
        _line(root, "started by", lineage["occasion"])
    config = lineage.get("config")
    _line(root, "config", config and f"{config['hash']} (--yaml prints it as it was)")
    _code(root, lineage.get("code") or {})
    _spans(root, lineage.get("spans") or [])
    graph = lineage.get("transform_graph")
    _line(root, "transform graph", graph and f"{graph['digest'] or 'gone'}, {graph['uri']}")
    if refreshed := lineage.get("refreshed"):
        _line(root, "refreshed", f"by {refreshed['by']} at {refreshed['at']}, from version {refreshed['from_version']}")
        _joins(root, refreshed["joins"])
    _metrics(root, lineage)
    _blessing(root, lineage.get("blessing"))
    gates = root.add("gates")
    for name, facts in (lineage.get("gates") or {}).items():
        recorded = {key: value for key, value in facts.items() if not isinstance(value, list)}
        branch = _line(gates, name, ", ".join(f"{key} {short_value(value)}" for key, value in recorded.items()))
        for found in facts.get("found", []):
            branch.add(Text(found))
        for stopped in (*facts.get("released", []), *facts.get("gaps", [])):
            branch.add(Text(parse_fields(JudgedSpan, stopped).words))
    _line(root, "read from", record.source)
    return root


def _line(tree: Tree, name: str, value: Any) -> Tree:
    return tree.add(Text(f"{name}  {value if value not in (None, '') else 'not recorded'}"))


def _code(tree: Tree, code: dict[str, Any]) -> None:
    words = code_text(code)
    more = [f"source {code['source']}"] if code.get("source") else []
    more += [f"user code {code['user']}"] if code.get("user") else []
    _line(tree, "code", words and ", ".join([f"fullpass {words}", *more]))
    _line(tree, "made with", code.get("line"))


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
    _joins(branch, (spans[-1].get("joins") or {}) if spans else {})


def _joins(branch: Tree, joins: dict[str, Any]) -> None:
    for name, table in joins.items():
        branch.add(Text(f"joined with {name}, {table['rows']:,} rows: {listed(table['files'])}"))


def _metrics(tree: Tree, lineage: dict[str, Any]) -> None:
    examples = lineage.get("examples_evaluated")
    branch = tree.add(f"metrics  on {examples:,} examples" if examples is not None else "metrics  not recorded")
    baseline = lineage.get("baseline") or {}
    for name, value in (lineage.get("metrics") or {}).items():
        before = baseline.get("metrics", {}).get(name)
        known = "undefined" if value is None else f"{value:.6g}"
        branch.add(Text(f"{name}  {known}" + ("" if before is None else f", the baseline {before:.6g}")))
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
    for line in (*blessing["reasons"], *blessing["notes"]):
        branch.add(Text(line))
