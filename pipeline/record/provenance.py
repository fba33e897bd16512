"""What is known of a run when it starts, for its nodes and all that tell of it: its window, configuration and code."""

import hashlib
import os
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import fullpass
from fullpass.base.processes import run_bounded
from fullpass.base.redact import redact_yaml
from fullpass.components.ingest.sources.files import fingerprint
from fullpass.components.ingest.spans.ingest_request import spans_read
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.library_versions import line
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import code_digest, user_digest, user_functions
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.record.facts import RunFacts, write_facts
from fullpass.trainer.export.run_provenance import RUN_FACTS_VARIABLE

OCCASION_VARIABLE = "FULLPASS_OCCASION"
"""Environment variable with the key of the occasion of the schedule that started a run."""
_NO_DATA = ("schedule", "notify", "mlflow", "gates", "beam", "push", "root", "serving_log", "watch")
"""Sections of the YAML that do not affect training."""
_PACKAGES = ("preprocessing", "trainer", "components", "pipeline")
_GIT_SECONDS = 10
_DIGITS = 12


def begun(loaded: Loaded, window: Window, run_id: str, logs: Path) -> RunFacts:
    """Returns the facts that are known of a run when it starts."""
    spans: dict[str, object] = {}
    if window.unit:
        oldest, newest = window.spans[0].number, window.spans[-1].number
        labels = {"first_span": window.label(oldest), "span": window.label(newest)}
        spans = {"unit": window.unit, "first": oldest, "last": newest, **labels}
    known = {
        "pipeline": loaded.config.name,
        "file": str(loaded.file.absolute()),
        "run_id": run_id,
        "occasion": os.environ.get(OCCASION_VARIABLE) or None,
        "logs": str(logs),
        "config_digest": config_digest(loaded),
        "data_digest": data_digest(loaded.config, window),
        "config": config_facts(loaded),
        "code": code_facts(user_functions(loaded.config), _commit(loaded.folder)),
    }
    return RunFacts().plus(known | spans)


def config_facts(loaded: Loaded) -> dict[str, str]:
    """Returns `hash` and `yaml` of a configuration: hash of all settings with defaults, and the text of the file."""
    return {"hash": config_hash(loaded.config), "yaml": redact_yaml(loaded.text)}


def code_facts(functions: list[str], commit: str | None) -> dict[str, str | None]:
    """Returns the facts of the code on this machine.

    They are the version of Fullpass (`fullpass`) and the digest of its `source`; the digest of the user's functions
    (`user`); the `commit` of the YAML's folder, with `-dirty` if the folder has uncommitted changes; and the `line` of
    TFX.

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


def tell_nodes(facts: RunFacts, path: Path) -> None:
    """Writes the facts into a file, and its path into an environment variable for the nodes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_facts(facts, path)
    os.environ[RUN_FACTS_VARIABLE] = str(path)


def data_digest(config: PipelineConfig, window: Window) -> str:
    """Returns 16 hex digits that change with the data of a window, and of earlier spans whose rows its rows see."""
    spans = spans_read(config.ingest_config, window)
    parts: list[tuple[object, ...]] = [(span.number, span.version, fingerprint(span.files)) for span in spans]
    numbers = {span.number for span in spans}
    parts += [(name, fingerprint(tables.seen_by(numbers).files)) for name, tables in window.tables.items()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def config_digest(loaded: Loaded) -> str:
    """Returns 16 hex digits that change with every setting of the YAML, and with the user's code, that affect training.

    The folder of the user's modules has been set (`use_modules_of`).
    """
    text = loaded.config.model_dump_json(exclude=set(_NO_DATA)) + user_digest(loaded)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _commit(folder: Path) -> str | None:
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        done = run_bounded(command, seconds=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() or None if done.returncode == 0 else None
