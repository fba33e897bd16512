"""Which model is meant, and where its lineage stands: in the metadata of its pipeline, or in the model itself."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.push import DESCRIPTION, LINEAGE, description, folder_of, origin_of, served_version
from pipeline.execution.noise import noise_to
from pipeline.pushed import pushed_to
from preprocessing.errors import UserError

METADATA = "metadata.sqlite"
LATEST = "latest"
# Of the artifact of a model: <root>/Trainer/model/<execution>.
_LEVELS_BELOW_ROOT = 2


@dataclass(frozen=True)
class Told:
    """The lineage of a model. source: the SQLite file or the JSON file it was read from."""

    lineage: dict[str, Any]
    source: str


def tell(model: str, config: Path) -> Told:
    """Returns the lineage of a model.

    Args:
        model: a version in the folder of pushed models, `latest` for the served one, or the folder of a version, of an
            export or of a model artifact.
        config: the YAML that says where models are pushed to; not read where `model` is a folder.

    Raises:
        UserError: There is no such model, or nothing is known of it.
    """
    export = _export(model, config)
    uri = origin_of(export) or _artifact_of(export)
    metadata = _metadata_of(uri) if uri else None
    if uri and metadata:
        found = _from_metadata(metadata, uri)
        if found is not None:
            return Told(found, str(metadata))
    lineage = description(export).get(LINEAGE)
    if not lineage:
        raise UserError(
            f"{export} does not say what made it, and no metadata knows it: its pipeline's root is not here, and it "
            "was exported by an earlier version of Fullpass or not by `fullpass run`."
        )
    return Told(lineage, str(export / DESCRIPTION))


def _export(model: str, config: Path) -> Path:
    """Returns the folder of the SavedModel that is meant."""
    folder = Path(model)
    if not model.isdigit() and model != LATEST:
        for export in (folder, folder / "Format-Serving", folder / "current"):
            if (export / "saved_model.pb").is_file():
                return export.resolve()
        raise UserError(f"{model}: no model. Give a version's number, `{LATEST}`, or a folder with a saved_model.pb.")
    target = pushed_to(config)
    version = served_version(target) if model == LATEST else int(model)
    if version is None or not folder_of(target, version).is_dir():
        raise UserError(f"{target}: no version {model}. `fullpass models` lists what there is.")
    return folder_of(target, version)


def _artifact_of(export: Path) -> str | None:
    """Returns the address of the model artifact that an export lies in; None for a copy of one."""
    return str(export.parent) if export.name == "Format-Serving" else None


def _metadata_of(uri: str) -> Path | None:
    parents = Path(uri).parents
    file = parents[_LEVELS_BELOW_ROOT] / METADATA if len(parents) > _LEVELS_BELOW_ROOT else None
    return file if file is not None and file.is_file() else None


def _from_metadata(metadata: Path, uri: str) -> dict[str, Any] | None:
    with noise_to(Path(os.devnull)):
        from pipeline.lineage.find import find_lineage

        return find_lineage(metadata, uri)
