"""Reads a pipeline file into a validated config, or reports all problems of the file at once.

Credentials are problems, too: the file is copied into artifacts, metadata and reports, so everybody can read it.
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from fullpass.base.errors import listed
from fullpass.base.secret_formats import find_shape, is_secret_setting
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.pages import notebook_html as html
from fullpass.pipeline.authoring.loading.explain_errors import problems_of, received
from fullpass.pipeline.authoring.loading.json_schema import Schema, json_schema
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys, Problem, format_path, keys_match
from fullpass.pipeline.authoring.loading.yaml_examples import EXAMPLES
from fullpass.pipeline.authoring.loading.yaml_tree import Tree, read_yaml
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import raw_columns, request_columns, with_source_columns

YAML_ENDINGS = (".yaml", ".yml")


Config = TypeVar("Config", bound=BaseModel)
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")
_ALIKE = 0.5
"""Share of alike characters from which another file is proposed; low, because a folder holds few YAMLs."""
BY_ENVIRONMENT = (
    "This file is copied into artifacts and reports. Give secrets through the environment of the run: the variable "
    "named by data.source.password_env for a database; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://, the file "
    "named by GOOGLE_APPLICATION_CREDENTIALS for gs://, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY for "
    "abfs://; FSSPEC_PROTOCOL_KEY for any other address, such as FSSPEC_SFTP_PASSWORD, or a file in the folder named "
    "by FSSPEC_CONFIG_DIR; url_env and token_env of notify; os.environ, or a mounted file, in your own commands and "
    "code."
)
"""The advice on how to provide secrets to a run instead of writing them into a pipeline file."""


@dataclass(frozen=True)
class FileForm(Generic[Config]):
    """The format of one kind of YAML file.

    Attributes:
        schema: Its JSON Schema, from which messages list the accepted values.
        needed: The required keys that the error for an empty file lists.
        names: Patterns of paths whose keys are user-defined names, which never count as credentials.
    """

    model: type[Config]
    schema: Callable[[], Schema]
    examples: Mapping[str, str]
    needed: tuple[str, ...]
    names: tuple[str, ...]
    advice: str = BY_ENVIRONMENT


PIPELINE = FileForm(
    model=PipelineConfig,
    schema=cache(json_schema),
    examples=EXAMPLES,
    needed=("name", "data", "label", "features"),
    names=(
        "features.*", "features.*.columns.*", "data.types.*", "data.derive.*", "data.source.*.*", "data.split.*.*",
        "label.class_weights.*", "evaluation.thresholds.*",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """A valid pipeline file.

    Example:
        >>> loaded = load("examples/taxi/pipeline.yaml")
        >>> loaded.file.name, loaded.config.name
        ('pipeline.yaml', 'taxi')
    """

    config: PipelineConfig
    file: Path
    """The path as the user gave it."""
    text: str
    tree: Tree
    span: str | None = None
    """The span or spans that a command asks for, as `--span` names them; None: the newest."""
    reads_data: bool = True
    """Whether checks read the data; false for a file of which only the beginning has arrived."""

    @property
    def folder(self) -> Path:
        """Absolute folder of the file, the base of its relative paths."""
        return self.file.absolute().parent

    def resolve(self, path: str) -> str:
        """Returns `path` in a form that can be opened from any working directory.

        A relative path is relative to the file's folder. An address (gs://, s3://, hdfs://) is unchanged.
        `package:NAME/PATH` becomes the file inside that installed Python package, which is not imported.

        Raises:
            UserError: The package of a `package:` path is not installed.
        """
        return resolve_path(path, self.folder)

    def line(self, *keys: str | int) -> int:
        """Returns the line of a path in the file, or of the nearest key around it."""
        return self.tree.line(keys)

    def _repr_html_(self) -> str:
        title, facts = overview_facts(self.config)
        return html.block(title, html.facts([*facts, ("file", self.file)]), html.details("YAML", self.text))


def overview_facts(config: PipelineConfig) -> tuple[str, list[tuple[str, str]]]:
    """Returns the title of a pipeline's summary, and its facts as names and values."""
    preprocessing = config.preprocessing_config
    kinds = Counter(feature.type for feature in config.all_features.values())
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    serving = request_columns(preprocessing)
    label = config.label
    training = {name for name in raw_columns(preprocessing) if name not in label.added}
    if label.shifted is not None:
        training |= with_source_columns([label.name], config.data.derive) - config.data.derive.keys()
        training |= {*label.shifted.keys, label.shifted.at}
    training_only = sorted(training - serving.keys())
    return f"{config.name}: {config.label.task} label {config.label.column}, model {config.model.kind}", [
        ("features", f"{len(config.all_features)}: {counts}"),
        ("crosses", str(len(config.crosses))),
        ("serving", f"needs {len(serving)} columns: {listed(serving)}"),
        ("training", f"also needs: {listed(training_only) or 'nothing'}"),
        ("splits", ", ".join(config.data.split_names)),
    ]


@dataclass(frozen=True)
class Finding:
    """A problem whose line has not been looked up yet."""

    keys: Keys
    message: str
    severity: Literal["error", "warning"] = "error"

    def problem(self, loaded: Loaded) -> Problem:
        """Returns the finding with its path as text and its line."""
        return Problem(format_path(self.keys), loaded.line(*self.keys), self.message, self.severity)


def warning(keys: Keys, message: str) -> Finding:
    """Returns a finding that does not stop the run."""
    return Finding(keys, message, "warning")


def load(path: Path | str) -> Loaded:
    """Reads and validates one pipeline file.

    Example:
        >>> loaded = load("examples/taxi/pipeline.yaml")
        >>> loaded.config.name, loaded.config.label.task
        ('taxi', 'binary')

    Raises:
        ConfigError: The file cannot be read, is no YAML, or has keys, types or values that a pipeline does not accept.
            `problems` holds all problems in file order. `checks.check` finds problems across sections.
    """
    file = Path(path)
    text = _text(file)
    config, tree = parse_as(file, text, PIPELINE)
    return Loaded(config=config, file=file, text=text, tree=tree)


def load_as(path: Path | str, form: FileForm[Config]) -> tuple[Config, Tree]:
    """Reads and validates a file of any form; returns its config and its tree with line numbers.

    Raises:
        ConfigError: See `load`.
    """
    file = Path(path)
    return parse_as(file, _text(file), form)


def parse_as(file: Path, text: str, form: FileForm[Config]) -> tuple[Config, Tree]:
    """Validates the text of a file; see `load_as`."""
    tree = read_yaml(text)
    if not isinstance(tree.data, dict):
        raise ConfigError(file, tree.problems or [_not_a_mapping(tree, form)])
    config, problems = _validated(tree, form)
    refused = [*tree.problems, *secret_problems(tree, form.names, form.advice)]
    paths = {problem.path for problem in refused}
    problems = [*refused, *(problem for problem in problems if problem.path not in paths)]
    if problems or config is None:
        raise ConfigError(file, problems)
    return config, tree


def _validated(tree: Tree, form: FileForm[Config]) -> tuple[Config | None, list[Problem]]:
    try:
        return form.model.model_validate(tree.data), []
    except ValidationError as error:
        return None, problems_of(error, tree, form.schema(), form.examples)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(file, [Problem("", None, f"no such file.{_hint(file.parent, file.name)}")]) from None
    except IsADirectoryError:
        raise ConfigError(file, [Problem("", None, f"is a folder, not a file.{_hint(file)}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{error.object[error.start]:02x} is not UTF-8. Save the file as UTF-8."
        raise ConfigError(file, [Problem("", line, what)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(file, [Problem("", None, f"cannot be read: {reason}.")]) from None


def _hint(folder: Path, name: str = "") -> str:
    if not folder.is_dir():
        return f" There is no folder {folder} either."
    names = sorted(p.name for p in folder.iterdir() if p.suffix in YAML_ENDINGS)
    close = difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE) or (names if len(names) == 1 else [])
    return f' Did you mean "{folder / close[0]}"?' if close else ""


def _not_a_mapping(tree: Tree, form: FileForm[Config]) -> Problem:
    shape = f"{', '.join(form.needed[:-1])} and {form.needed[-1]}, for example\n" + "\n".join(
        f"    {key}: {form.examples[key]}" for key in form.needed
    )
    if tree.data is None:
        return Problem("", 1, f"the file is empty. It needs the keys {shape}")
    return Problem("", tree.line(()), f"Received: {received(tree.data)}. Accepted: a mapping with the keys {shape}")


def secret_problems(tree: Tree, names: Sequence[str], advice: str = BY_ENVIRONMENT) -> list[Problem]:
    """Returns a problem for every secret and every `${VARIABLE}`; the values themselves are never shown.

    Args:
        names: Patterns of paths whose keys are user-defined names (columns, classes, splits), not settings.
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
    is_setting = keys and isinstance(keys[-1], str) and not any(keys_match(pattern, keys) for pattern in names)
    if is_setting and is_secret_setting(str(keys[-1]), value):
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


def _entries(keys: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    yield keys, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entries((*keys, key), inner)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _entries((*keys, i), inner)
