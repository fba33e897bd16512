"""Redacts the two YAML files that become part of a package, because everyone can read packages in the backend.

The check of the files rejects known secrets. This module blanks values that may be secrets.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fullpass.base.redact import redact_setting, redact_tree, redact_yaml
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys, format_path
from fullpass.pipeline.config import PipelineConfig


def redacted_pipeline(loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Returns a pipeline file without secrets, and sentences that name the places of removed values."""
    fields = loaded.config.model_dump(mode="json")
    redacted = redact_tree(fields)
    config = loaded.config if redacted == fields else PipelineConfig.model_validate(redacted)
    return replace(loaded, config=config, text=redact_yaml(loaded.text)), _remarks(loaded.file.name, fields, redacted)


def redacted_environment(config: EnvironmentConfig, file: str) -> tuple[EnvironmentConfig, list[str]]:
    """Returns an environment without secrets, and sentences that name the places of removed values in its file."""
    fields = config.model_dump(mode="json")
    redacted = redact_tree(fields)
    for node in (redacted["defaults"], *redacted["nodes"].values()):
        node["env"] = {name: redact_setting(name, value) for name, value in node["env"].items()}
    kept = config if redacted == fields else EnvironmentConfig.model_validate(redacted)
    return kept, _remarks(file, fields, redacted)


def _remarks(file: str, before: Any, after: Any) -> list[str]:
    return [
        f"{file}: {format_path(keys)}: may be a secret, so the package has *** in its place. Use `secrets:` of the "
        "environment file."
        for keys in _differences((), before, after)
    ]


def _differences(keys: Keys, before: Any, after: Any) -> Iterator[Keys]:
    if isinstance(before, dict):
        for key, value in before.items():
            yield from _differences((*keys, key), value, after[key])
    elif isinstance(before, list):
        for number, value in enumerate(before):
            yield from _differences((*keys, number), value, after[number])
    elif before != after:
        yield keys
