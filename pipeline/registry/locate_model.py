"""Finds a model, and its lineage in the metadata of its pipeline or in its export."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.push.push import (
    DESCRIPTION,
    LINEAGE,
    ORIGIN,
    SERVING,
    description,
    folder_of,
    origin_of,
    served_version,
)
from fullpass.pipeline.root.layout import metadata_above
from fullpass.pipeline.startup import noise_to

LATEST = "latest"


@dataclass(frozen=True)
class LineageRecord:
    """The lineage of a model.

    Attributes:
        source: The path of the SQLite or JSON file that it was read from.
    """

    lineage: dict[str, Any]
    source: str


def read_lineage(model: str, config: Path) -> LineageRecord:
    """Returns the lineage of a model.

    Args:
        model: A version in the folder of pushed models, `latest` for the served one, or the folder of a version, an
            export or a model artifact.
        config: The YAML that names the folder of pushed models; not read if `model` is a folder.

    Raises:
        UserError: There is no such model, or its lineage was not recorded.
    """
    export = _export(model, config)
    # A copy without its origin has left its pipeline, and its own record counts.
    uri = origin_of(export) if (export / ORIGIN).is_file() else _artifact_of(export)
    metadata = _metadata_of(uri) if uri else None
    if uri and metadata:
        found = _from_metadata(metadata, uri)
        if found is not None:
            return LineageRecord(found, str(metadata))
    lineage = description(export).get(LINEAGE)
    if not lineage:
        raise UserError(
            f"{export} contains no provenance, and no metadata lists it: its pipeline's root is not on this "
            "machine, and it was exported by an earlier version of Fullpass or not by `fullpass run`."
        )
    return LineageRecord(lineage, str(export / DESCRIPTION))


def pushed_to(target: Path) -> Path:
    """Returns the folder of pushed models that a YAML names, or `target` if it is a folder."""
    if target.is_dir():
        return target
    from fullpass.pipeline.authoring.loading.load import load

    loaded = load(target)
    return Path(loaded.resolve(loaded.config.push.to))


def _export(model: str, config: Path) -> Path:
    """Returns the folder of the SavedModel that `model` names."""
    folder = Path(model)
    if not model.isdigit() and model != LATEST:
        for export in (folder, folder / SERVING, folder / "current"):
            if (export / "saved_model.pb").is_file():
                return export.resolve()
        raise UserError(f"{model}: no model. Give a version's number, `{LATEST}`, or a folder with a saved_model.pb.")
    target = pushed_to(config)
    version = served_version(target) if model == LATEST else int(model)
    if version is None or not folder_of(target, version).is_dir():
        raise UserError(f"{target}: no version {model}. `fullpass models` lists the versions.")
    return folder_of(target, version)


def _artifact_of(export: Path) -> str | None:
    """Returns the address of the model artifact that contains an export; None for a pushed copy."""
    return str(export.parent) if export.name == SERVING else None


def _metadata_of(uri: str) -> Path | None:
    file = metadata_above(Path(uri))
    return file if file is not None and file.is_file() else None


def _from_metadata(metadata: Path, uri: str) -> dict[str, Any] | None:
    # A user who may read the models but not write the locks beside the metadata gets the lineage from the export.
    with contextlib.suppress(PermissionError), noise_to(Path(os.devnull)):
        from fullpass.pipeline.registry.find_lineage import find_lineage

        return find_lineage(metadata, uri)
    return None
