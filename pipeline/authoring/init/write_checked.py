"""Writes a pipeline file only with entries that a run accepts: an entry that check refuses becomes a comment."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.source_config import ImagesSource
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.data_check.data_check import check_sample
from fullpass.pipeline.authoring.init.propose_features import YamlLine
from fullpass.pipeline.authoring.init.yaml_text import Draft, yaml_of
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys, Problem, format_path
from fullpass.pipeline.authoring.profile.sample import Sample


def write_checked(file: Path, draft: Draft, sample: Sample) -> tuple[Draft, tuple[Problem, ...]]:
    """Writes the file by the rules of `check` and `check --data`; an error in a feature, cross or slice removes it.

    Returns:
        The draft as written, and the warnings of the data, and its errors that no removal mends.

    Raises:
        UserError: A run would refuse the file for another reason; nothing is written.
    """
    pending = file.absolute().with_name(f".{file.name}-{os.getpid()}.yaml")
    try:
        while True:
            pending.write_text(yaml_of(draft), encoding="utf-8")
            try:
                loaded = load(pending)
                require(loaded)
                images = isinstance(loaded.config.data.source, ImagesSource)
                problems = () if images else check_sample(loaded, sample)
                errors = [p for p in problems if p.severity == "error"]
                mended = next(_mended(draft, errors), None)
            except ConfigError as error:
                errors = [p for p in error.problems if p.severity == "error"]
                mended = next(_mended(draft, errors), None)
                if mended is None:
                    found = "\n".join(f"  {p.path}: {p.message}" for p in errors)
                    raise UserError(f"{file}: not written, because a run would refuse it:\n{found}") from error
            if mended is None:
                pending.replace(file)
                return draft, problems
            draft = mended
    finally:
        pending.unlink(missing_ok=True)


def _mended(draft: Draft, errors: list[Problem]) -> Iterator[Draft]:
    """Yields the draft without an entry that an error is about."""
    for error in errors:
        for line in draft.features:
            if _is_at(error.path, ("features", line.name)) and len(draft.features) > 1:
                left_out = [*draft.left_out, replace(line, why=f"a run would refuse it: {error.message}")]
                yield replace(draft, features=[f for f in draft.features if f is not line], left_out=left_out)
        for line in draft.sequences:
            if _is_at(error.path, ("sequences", line.name)):
                left_out = [*draft.left_out, YamlLine(line.name, None, f"a run would refuse it: {error.message}")]
                yield replace(draft, sequences=[s for s in draft.sequences if s is not line], left_out=left_out)
        for number, line in enumerate(draft.crosses):
            if _is_at(error.path, ("crosses", number)):
                yield replace(draft, crosses=[c for c in draft.crosses if c is not line])
        for line in draft.rest:
            slices = line.value.get("slices", []) if line.name == "evaluation" else []
            kept = [s for i, s in enumerate(slices) if not _is_at(error.path, ("evaluation", "slices", i))]
            if len(kept) < len(slices):
                value = {key: kept if key == "slices" else entry for key, entry in line.value.items()}
                evaluation = replace(line, value={key: entry for key, entry in value.items() if entry != []})
                yield replace(draft, rest=[evaluation if other is line else other for other in draft.rest])


def _is_at(path: str, keys: Keys) -> bool:
    above = format_path(keys)
    return path == above or path.startswith((f"{above}.", f"{above}["))
