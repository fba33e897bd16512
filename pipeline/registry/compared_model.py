"""Finds the models that people compare: by a run, a version, an export, or a pipeline YAML."""

import glob
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.push.push import SERVING
from fullpass.pipeline.authoring.loading.load import YAML_ENDINGS, load
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.record.facts import RunFacts, read_facts
from fullpass.pipeline.record.list_runs import recorded_runs
from fullpass.pipeline.record.provenance import config_hash
from fullpass.pipeline.registry.locate_model import find_export, lineage_at, recorded_as
from fullpass.pipeline.root.layout import RUN_FILE, RootLayout, pipeline_root
from fullpass.pipeline.startup import noise_to
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns
from fullpass.trainer.export.export_files import verify_export

_MOST_RUNS = 100
"""Newest runs in which the model of a YAML is looked for: each reads a file."""
_DAMAGED = "Remove it, or compare another run."


@dataclass(frozen=True)
class ComparedModel:
    """A model, or a YAML without one.

    Attributes:
        what: What was found, such as `run 20260105-030000-000000`.
        yaml: The YAML that it was trained by; None if it was not recorded.
        note: Why there is no model, or what differs from what was asked for; empty if nothing.
    """

    name: str
    what: str
    yaml: str | None
    export: Path | None
    note: str = ""

    @cached_property
    def config(self) -> PipelineConfig | None:
        """The configuration; None if it was not recorded, or this release does not accept it."""
        with suppress(ValueError):
            return PipelineConfig.model_validate(read_yaml(self.yaml or "").data)
        return None

    @property
    def columns(self) -> Mapping[str, RawColumn]:
        """The raw columns that its training reads."""
        return raw_columns(self.config.preprocessing_config) if self.config else {}

    @cached_property
    def lineage(self) -> Mapping[str, Any]:
        """The lineage of the model; empty if it was not recorded."""
        with suppress(UserError):
            return lineage_at(self.export).lineage if self.export else {}
        return {}

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each split of its data."""
        found = Counter[str]()
        for span in self.lineage.get("spans") or ():
            found.update(span["rows"])
        return dict(found)

    @property
    def data(self) -> tuple[tuple[int, str], ...]:
        """The number of each span of its data and the digest of its rows (`Manifest.rows_digest`); empty if unknown."""
        found = tuple((span["number"], span.get("source_rows")) for span in self.lineage.get("spans") or ())
        return found if all(digest for _, digest in found) else ()

    @cached_property
    def eval_files(self) -> Sequence[str]:
        """The TFRecord files of its eval split; empty if they are not on this machine any more."""
        if self.export is None:
            return ()
        uri, metadata = recorded_as(self.export)
        if not uri or not metadata:
            return ()
        with noise_to(Path(os.devnull)):
            from fullpass.pipeline.registry.find_lineage import folders_of_examples

            folders = folders_of_examples(metadata, uri)
        found = [sorted(glob.glob(f"{glob.escape(folder)}/Split-eval/*")) for folder in folders]
        whole = all(files or Path(folder).is_dir() for files, folder in zip(found, folders, strict=True))
        return [file for files in found for file in files] if whole else ()

    def verify(self) -> None:
        """Raises DamagedState if a file of the export is damaged."""
        if self.export:
            verify_export(str(self.export))


def find_model(name: str, file: Path) -> ComparedModel:
    """Returns the model that a name means.

    Args:
        name: A YAML (the newest run with a model that it describes), a run's id or the folder of its logs, a version's
            number, `latest`, or the folder of a version, an export or a model.
        file: The YAML whose runs and versions a bare id or number means.

    Raises:
        UserError: There is no such run, version or folder.
    """
    path = Path(name)
    if path.suffix in YAML_ENDINGS:
        return _of_yaml(name, path)
    if (path / RUN_FILE).is_file():
        return _of_run(name, path)
    if not path.exists() and not name.isdigit() and file.is_file():
        logs = RootLayout(pipeline_root(load(file))).run_logs(name)
        if logs.is_dir():
            return _of_run(name, logs)
    export = find_export(name, file)
    found = ComparedModel(name, f"model {export}", None, export)
    yaml = (found.lineage.get("config") or {}).get("yaml")
    return ComparedModel(name, f"model {export}", yaml, export, "" if yaml else "its YAML was not recorded")


def _of_run(name: str, logs: Path) -> ComparedModel:
    what = f"run {logs.resolve().name}"
    facts = read_facts(logs / RUN_FILE, _DAMAGED) if (logs / RUN_FILE).is_file() else RunFacts()
    places = [f"{facts.model}/{SERVING}"] if facts.model else []
    places += [facts.pushed_to] if facts.pushed_to else []
    export = next((Path(one) for one in places if (Path(one) / "saved_model.pb").is_file()), None)
    gone = f"its model is gone: {places[0]}" if places else "it ended without a model"
    return ComparedModel(name, what, facts.config.get("yaml"), export, "" if export else gone)


def _of_yaml(name: str, file: Path) -> ComparedModel:
    loaded = load(file)
    root = pipeline_root(loaded)
    wanted = config_hash(loaded.config)
    found = None
    for run in recorded_runs(root, _MOST_RUNS):
        one = _of_run(name, RootLayout(root).run_logs(run.run_id))
        if one.export and run.config.get("hash") == wanted:
            return one
        found = found or (one if one.export else None)
    if found is None:
        return ComparedModel(name, f"YAML {file}", loaded.text, None, f"it has no model: run it (fullpass run {file})")
    note = f"{file} has changed since its {found.what}; the model and its YAML are as they were then"
    return ComparedModel(name, found.what, found.yaml, found.export, note)
