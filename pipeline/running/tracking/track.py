"""Collects the facts of a run and records them on a tracking server, within a time limit and without importing MLflow.

Errors are printed and never fail the run.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fullpass.base.files import read_bytes
from fullpass.base.json_text import to_json_text
from fullpass.base.processes import run_bounded
from fullpass.base.redact import redact, redact_tree
from fullpass.components.evaluation.judge.verdict import Verdict, read_verdict
from fullpass.pipeline.config import ADDRESS_VARIABLE, PipelineConfig, missing_for_mlflow
from fullpass.pipeline.printing import shortened
from fullpass.pipeline.record.events import Status
from fullpass.pipeline.record.facts import RunFacts
from fullpass.trainer.export.run_provenance import TRAINING_FILE

_SECRETS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", ADDRESS_VARIABLE)
# By default, MLflow sends telemetry to its developers, and retries a server that does not answer for minutes.
_REQUIRED = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
_DEFAULTS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "20", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_MOST_CHARACTERS = 400
_SECTIONS = ("label", "model", "training")
_OF_TRAINING = ("batch_size", "parameters", "best_epoch", "ended_by", "devices")
_DOCUMENTS = (".html", ".md")
_TAGS = ("pipeline", "outcome", "message", "first_span", "span", "occasion", "model")
"""The facts that are tags as they are."""
_GOOD = ("success", "not_blessed")

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracking server records it.

    Attributes:
        failed: Whether the run ended without a verdict on a model.
        started: Milliseconds since 1970.
        tags: Outcome, verdicts, and the provenance of the run.
        metrics: Name -> values as (step, value); the step of a training metric is its epoch.
        trials: The trials of a search in this run, best first: params and metrics.
    """

    experiment: str
    name: str
    failed: bool
    started: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    metrics: Mapping[str, Points]
    texts: Mapping[str, str]
    files: tuple[str, ...]
    trials: tuple[dict[str, dict[str, Any]], ...]

    def to_json(self) -> bytes:
        """Returns the run as a JSON object in UTF-8, without secrets."""
        return to_json_text(redact_tree(vars(self))).encode()


def track(
    run: TrackedRun, seconds: float, *, say: Callable[[str], None], environment: Mapping[str, str] = os.environ
) -> bool:
    """Records a run; returns whether it was recorded completely.

    Args:
        seconds: The time limit, after which the recording is given up.
        say: Prints a line that names the server, without login and token, and the problem if there was one.
        environment: Holds the address of the server, and tokens.
    """
    if (missing := missing_for_mlflow(environment)) is not None:
        say(f"mlflow: the run was not recorded: {missing}")
        return False
    server = server_words(environment[ADDRESS_VARIABLE].strip())
    recorded, problem = _record(run, seconds, environment)
    if problem is None:
        say(f'mlflow: recorded at {server}, in the experiment "{run.experiment}".')
        return True
    for name in _SECRETS:
        if secret := environment.get(name, "").strip():
            problem = problem.replace(secret, server if name == ADDRESS_VARIABLE else "***")
    why = shortened(" ".join(redact(problem).split()), _MOST_CHARACTERS)
    what = "only a part of the run could be" if recorded else "the run could not be"
    say(f"mlflow: {what} recorded at {server}: {why}")
    return False


def server_words(address: str) -> str:
    """Returns the address of a server for people, without login, path and query.

    Example:
        >>> server_words("https://me:hunter2@mlflow.example:5000/team?key=s3cr3t")
        'https://mlflow.example:5000'
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, f":{parts.port}" if parts.port else ""
    except ValueError:
        return ADDRESS_VARIABLE
    if not host:
        return redact(address)
    return f"{parts.scheme}://[{host}]{port}" if ":" in host else f"{parts.scheme}://{host}{port}"


def _record(run: TrackedRun, seconds: float, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Returns the id of the run in MLflow, if it was created, and the problem, if there was one."""
    command = [sys.executable, "-P", "-m", "fullpass.pipeline.running.tracking.record_in_mlflow"]
    given = {**_DEFAULTS, **environment, **_REQUIRED}
    try:
        done = run_bounded(command, seconds=seconds, stdin=run.to_json(), environment=given)
        answer = json.loads(done.stdout.decode().splitlines()[-1])
        return answer["recorded"], answer["error"]
    except subprocess.TimeoutExpired:
        return None, f"it took longer than {seconds:g} s and was stopped (mlflow.timeout)."
    except (IndexError, ValueError):
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return None, said[-1] if said else f"exit code {done.returncode}"


def tracked_run(facts: RunFacts, config: PipelineConfig) -> TrackedRun:
    """Returns a run of a pipeline that has a section `mlflow`."""
    assert config.mlflow is not None  # noqa: S101
    content = read_bytes(f"{facts.model_run}/{TRAINING_FILE}") if facts.model_run else None
    verdict = read_verdict(facts.evaluation) if facts.evaluation else None
    training = json.loads(content or "{}")
    points = {**_curves(training), **{accepted_name(name): [(0, value)] for name, value in _values(facts, verdict)}}
    finite = {name: [point for point in values if math.isfinite(point[1])] for name, values in points.items()}
    report = Path(facts.report).parent.iterdir() if facts.report and config.mlflow.files else ()
    return TrackedRun(
        experiment=config.mlflow.experiment or config.name,
        name=facts.run_id,
        failed=facts.outcome not in _GOOD,
        started=_milliseconds(facts.started),
        ended=_milliseconds(facts.ended),
        params=_params(config, training),
        tags={accepted_name(name): value for name, value in _tags(facts, verdict).items() if value},
        metrics={name: values for name, values in finite.items() if values},
        texts={"pipeline.yaml": facts.config["yaml"]} if config.mlflow.files else {},
        files=tuple(sorted(str(file) for file in report if file.suffix in _DOCUMENTS)),
        trials=_trials(facts),
    )


def flattened(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yields the settings of a section as pairs of YAML path and text.

    Example:
        >>> list(flattened({"kind": "mlp", "hidden": [64, 32], "other": {"l2": 0.1}}, "model"))
        [('model.kind', 'mlp'), ('model.hidden', '[64, 32]'), ('model.other.l2', '0.1')]
    """
    for key, value in section.items():
        path = f"{prefix}.{key}"
        if isinstance(value, Mapping) and value:
            yield from flattened(value, path)
        else:
            yield path, _text(value)


def _params(config: PipelineConfig, training: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings of model and training; values that a search found replace those of the YAML."""
    dumped = config.model_dump(mode="json")
    params = {path: text for section in _SECTIONS for path, text in flattened(dumped[section], section)}
    params["features"] = ", ".join(config.all_features)
    params["data.split"] = to_json_text(dumped["data"]["split"])
    params |= {f"trained.{name}": str(training[name]) for name in _OF_TRAINING if name in training}
    return params | {path: _text(value) for path, value in (training.get("hyperparameters") or {}).items()}


def accepted_name(name: str) -> str:
    """Returns a name with the characters that MLflow accepts; each other one becomes an underscore.

    Example:
        >>> accepted_name("eval/recall[black bear]")
        'eval/recall_black bear_'
    """
    return re.sub(r"[^\w/. :-]", "_", name)


def _tags(facts: RunFacts, verdict: Verdict | None) -> dict[str, str | None]:
    tags: dict[str, str | None] = {
        "mlflow.source.name": facts.file,
        "mlflow.source.type": "PROJECT",
        "mlflow.source.git.commit": facts.code.get("commit"),
        "fullpass.version": facts.code.get("fullpass"),
        "fullpass.code": facts.code.get("source"),
        "fullpass.line": facts.code.get("line"),
        "fullpass.config": facts.config.get("hash"),
        "fullpass.pushed_to": facts.pushed_to if facts.newly_pushed else None,
        "fullpass.trainer": facts.nodes.get("Trainer", {}).get("status"),
        **{f"fullpass.{name}": getattr(facts, name) for name in _TAGS},
    }
    if verdict is not None:
        tags |= {"fullpass.blessed": str(facts.blessed).lower(), "fullpass.reasons": "; ".join(facts.reasons)}
        tags |= {
            f"fullpass.gate.{m.metric}": f"{'met' if m.passed else 'not met'}: {m.required}"
            for m in verdict.metrics
            if m.required
        }
    if facts.data_gate is not None:
        found = [finding["text"] for finding in facts.data_gate["findings"]]
        tags["fullpass.data_gate"] = "; ".join(found) or "nothing moved"
    return tags


def _curves(training: Mapping[str, Any]) -> dict[str, Points]:
    curves = {}
    for name, values in training.get("history", {}).items():
        eval_name = name.removeprefix("val_")
        curves[f"train/{name}" if eval_name == name else f"validation/{eval_name}"] = list(enumerate(values, 1))
    return curves


def _values(facts: RunFacts, verdict: Verdict | None) -> Iterator[tuple[str, float]]:
    yield "seconds", facts.seconds or 0.0
    for split, rows in (facts.rows or {}).items():
        yield f"rows/{split}", rows
    for measured in verdict.metrics if verdict else ():
        yield f"eval/{measured.metric}", measured.value
        if measured.half_width is not None:
            yield f"eval/{measured.metric}_low", measured.value - measured.half_width
            yield f"eval/{measured.metric}_high", measured.value + measured.half_width
        if measured.baseline is not None:
            yield f"baseline/{measured.metric}", measured.baseline
    for measured in verdict.newest if verdict else ():
        yield f"newest_span/{measured.metric}", measured.value


def _trials(facts: RunFacts) -> tuple[dict[str, dict[str, Any]], ...]:
    """Returns the trials of a search that this run made; those of a cached Tuner are recorded already."""
    made = facts.trials if facts.nodes.get("Tuner", {}).get("status") == Status.OK else None
    pairs = [tuple(trial.items()) for trial in made or ()]
    return tuple(
        {
            "params": {path: to_json_text(value) for path, value in values.items()},
            "metrics": {f"validation/{objective}": [(0, score)]},
        }
        for (objective, score), (_, values) in pairs
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json_text(value)


def _milliseconds(instant: str | None) -> int:
    return int(datetime.fromisoformat(instant or "").timestamp() * 1000)
