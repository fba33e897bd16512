"""Records the provenance of a run for its nodes and the metadata: configuration and code."""

import hashlib
import os
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fullpass
from fullpass.base.json_text import to_json_text
from fullpass.base.processes import run_bounded
from fullpass.base.redact import redact_yaml
from fullpass.components.library_versions import line
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import code_digest, user_functions
from fullpass.pipeline.config import PipelineConfig
from fullpass.trainer.export.run_provenance import RUN_FACTS_VARIABLE

RUN_FACTS_FILE = "run.json"
_PACKAGES = ("preprocessing", "trainer", "components", "pipeline")
_GIT_SECONDS = 10
_DIGITS = 12


def run_facts(loaded: Loaded, run_id: str | None) -> dict[str, Any]:
    """Returns the facts of a run.

    Returns:
        `run`: its id; None if it is not known yet.
        `config`: `hash` of all settings including defaults, so comments and order do not count; `yaml`, the text of the
        file.
        `code`: version of Fullpass (`fullpass`) and digest of its `source`; digest of the user's functions (`user`);
        `commit` of the YAML's folder, with `-dirty` if the folder has uncommitted changes; None without a commit; the
        `line` of TFX.
    """
    return {
        "run": run_id,
        "config": config_facts(loaded),
        "code": code_facts(user_functions(loaded.config), _commit(loaded.folder)),
    }


def config_facts(loaded: Loaded) -> dict[str, str]:
    """Returns `hash` and `yaml` of a configuration."""
    return {"hash": config_hash(loaded.config), "yaml": redact_yaml(loaded.text)}


def code_facts(functions: list[str], commit: str | None) -> dict[str, str | None]:
    """Returns the facts of the code on this machine.

    Args:
        functions: The user's functions, which are found on `sys.path`.
        commit: The commit of the YAML's folder, if known.
    """
    return {
        "fullpass": version("fullpass"),
        "source": source_digest(),
        "user": code_digest(functions) or None,
        "commit": commit,
        "line": line(),
    }


def config_hash(config: PipelineConfig) -> str:
    """Returns 12 hex digits of all settings of a pipeline."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:_DIGITS]


@cache
def source_digest() -> str:
    """Returns 12 hex digits of the Python files that nodes run; those of an edited checkout differ from a release."""
    digest = hashlib.sha256()
    base = Path(fullpass.__file__).parent
    for package in _PACKAGES:
        for file in sorted((base / package).rglob("*.py")):
            digest.update(f"{file.relative_to(base)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def write_run_facts(facts: dict[str, Any], folder: Path) -> None:
    """Writes the facts into the log folder of the run, and its path into an environment variable for the nodes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RUN_FACTS_FILE
    path.write_text(to_json_text(facts, indent=1) + "\n", encoding="utf-8")
    os.environ[RUN_FACTS_VARIABLE] = str(path)


def _commit(folder: Path) -> str | None:
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        done = run_bounded(command, seconds=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() or None if done.returncode == 0 else None
