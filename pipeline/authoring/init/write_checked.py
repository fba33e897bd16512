"""Writes a pipeline file only with entries that a run accepts: an entry that check refuses becomes a comment."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.config import ImagesSource
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.data_check.data_check import check_sample
from fullpass.pipeline.authoring.init.yaml_text import Draft, YamlLine, yaml_of
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
            refused = False
            try:
                loaded = load(pending)
                require(loaded)
                images = isinstance(loaded.config.data.source, ImagesSource)
                problems = () if images else check_sample(loaded, sample, leaks=False)  # `select_columns` judged them
            except ConfigError as error:
                problems, refused = error.problems, True
            errors = [p for p in problems if p.severity == "error"]
            mended = next((found for error in errors if (found := _without(draft, error)) is not None), None)
            if mended is None and refused:
                told = "\n".join(f"  {p.path}: {p.message}" for p in errors)
                raise UserError(f"{file}: not written, because a run would refuse it:\n{told}")
            if mended is None:
                pending.replace(file)
                return draft, problems
            draft = mended
    finally:
        pending.unlink(missing_ok=True)


def _without(draft: Draft, error: Problem) -> Draft | None:
    """Returns the draft without the entry that an error is about; None if it is about no entry that can be removed."""
    feature = next((line for line in draft.features if _is_at(error.path, ("features", line.name))), None)
    sequence = next((line for line in draft.sequences if _is_at(error.path, ("sequences", line.name))), None)
    why = f"a run would refuse it: {error.message}"
    if feature is not None and len(draft.features) > 1:
        left_out = [*draft.left_out, replace(feature, why=why)]
        return replace(draft, features=_others(draft.features, feature), left_out=left_out)
    if sequence is not None:
        left_out = [*draft.left_out, YamlLine(sequence.name, None, why)]
        return replace(draft, sequences=_others(draft.sequences, sequence), left_out=left_out)
    for number, line in enumerate(draft.crosses):
        if _is_at(error.path, ("crosses", number)):
            return replace(draft, crosses=_others(draft.crosses, line))
    for line in draft.rest:
        slices = line.value.get("slices", []) if line.name == "evaluation" else []
        kept = [s for i, s in enumerate(slices) if not _is_at(error.path, ("evaluation", "slices", i))]
        if len(kept) < len(slices):
            value = {key: kept if key == "slices" else entry for key, entry in line.value.items()}
            evaluation = replace(line, value={key: entry for key, entry in value.items() if entry != []})
            return replace(draft, rest=[evaluation if other is line else other for other in draft.rest])
    return None


def _others(lines: Sequence[YamlLine], removed: YamlLine) -> list[YamlLine]:
    return [line for line in lines if line is not removed]


def _is_at(path: str, keys: Keys) -> bool:
    above = format_path(keys)
    return path == above or path.startswith((f"{above}.", f"{above}["))
