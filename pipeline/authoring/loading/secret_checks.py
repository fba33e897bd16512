"""Finds forbidden content of a pipeline file: credentials, and variables that nothing substitutes.

The file is copied into artifacts, metadata and reports, so everybody can read its content.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fullpass.base.secret_formats import find_shape, is_secret_setting
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path, matches
from fullpass.pipeline.authoring.loading.yaml_tree import Tree

_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")
BY_ENVIRONMENT = (
    "This file is copied into artifacts and reports. Give secrets through the environment of the run: the variable "
    "named by data.source.password_env for a database; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://, the file "
    "named by GOOGLE_APPLICATION_CREDENTIALS for gs://, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY for "
    "abfs://; FSSPEC_PROTOCOL_KEY for any other address, such as FSSPEC_SFTP_PASSWORD, or a file in the folder named "
    "by FSSPEC_CONFIG_DIR; url_env and token_env of notify; os.environ, or a mounted file, in your own commands and "
    "code."
)
"""The advice on how to provide secrets to a run instead of writing them into a pipeline file."""


def secret_problems(tree: Tree, names: Sequence[str], advice: str = BY_ENVIRONMENT) -> list[Problem]:
    """Returns a problem for every secret and every `${VARIABLE}`; the values themselves are never shown.

    Args:
        tree: The file.
        names: Patterns of paths whose keys are user-defined names (columns, classes, splits), not settings.
        advice: The advice on how to provide a secret.
    """
    return [
        Problem(format_path(keys), tree.line(keys), message)
        for keys, value in _entries((), tree.data)
        if (message := _message(keys, value, names, advice) or _message_of_names(value, advice)) is not None
    ]


def _message_of_names(value: Any, advice: str) -> str | None:
    """Returns a message if a key of a mapping, such as the name of a column, is a secret."""
    shapes = map(find_shape, (key for key in value if isinstance(key, str))) if isinstance(value, Mapping) else ()
    shape = next(filter(None, shapes), None)
    return None if shape is None else f"a name in it holds {shape.name}. {advice}"


def _message(keys: Keys, value: Any, names: Sequence[str], advice: str) -> str | None:
    if _is_setting(keys, names) and is_secret_setting(str(keys[-1]), value):
        return f"looks like a credential. {advice}"
    words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    # A secret and the option before it may be two items of a command. Each item is also checked by itself.
    text = " ".join(value) if words else value
    if not isinstance(text, str):
        return None
    shape = find_shape(text)
    if shape is not None and not (words and any(map(find_shape, value))):
        return f"holds {shape.name}. {advice}"
    variable = _VARIABLE.search(text)
    if variable is None or words:
        return None
    return (
        f"Received: {variable.group()}. Variables are not substituted: the file means the same for every reader. "
        "Write the value itself; credentials are read from the environment without being named here."
    )


def _is_setting(keys: Keys, names: Sequence[str]) -> bool:
    return bool(keys) and isinstance(keys[-1], str) and not any(matches(p, keys) for p in names)


def _entries(keys: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    yield keys, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entries((*keys, key), inner)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _entries((*keys, i), inner)
