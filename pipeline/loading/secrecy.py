"""What must not stand in a pipeline file: credentials, and variables that nothing fills in.

The file is copied into artifacts, metadata and reports, so whatever stands in it is read by everybody.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.loading.problems import Keys, Problem, format_path, matches
from pipeline.loading.yaml_tree import Tree

_SECRET_KEY = re.compile(
    r"(^|_)(password|passwd|secret|secret_key|api_?key|access_key|private_key|credentials?)$|"
    r"^token$|(^|_)(auth|access|api|bearer|refresh|session|hf|github)_token$",
    re.IGNORECASE,
)
_LOGIN_IN_ADDRESS = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")
_INSTEAD = (
    "This file is copied into artifacts and reports. Give credentials in the environment of the run: "
    "GOOGLE_APPLICATION_CREDENTIALS for gs://, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://, the variable "
    "named by password_env for a database, os.environ in code of your own."
)


def secrecy_problems(tree: Tree, names: Sequence[str]) -> list[Problem]:
    """Returns a problem for every credential and every `${VARIABLE}`; the values themselves are never shown.

    Args:
        tree: the file.
        names: patterns of places whose keys are the user's own names (columns, classes, splits), not settings.
    """
    return [
        Problem(format_path(keys), tree.line(keys), message)
        for keys, value in _entries((), tree.data)
        if (message := _message(keys, value, names)) is not None
    ]


def _message(keys: Keys, value: Any, names: Sequence[str]) -> str | None:
    if _is_setting(keys, names) and _SECRET_KEY.search(str(keys[-1]).replace("-", "_")):
        return f"looks like a credential. {_INSTEAD}"
    if not isinstance(value, str):
        return None
    if _LOGIN_IN_ADDRESS.search(value):
        return f"an address with a login in it. {_INSTEAD}"
    variable = _VARIABLE.search(value)
    if variable is None:
        return None
    return (
        f"Received: {variable.group()}. Variables are not filled in: the file says the same to everyone who reads it. "
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
