"""Records a run on a tracking server within a time limit. Errors are printed and never fail the run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from fullpass.base.processes import run_bounded
from fullpass.base.redact import redact
from fullpass.pipeline.config import ADDRESS_VARIABLE, missing_for_mlflow
from fullpass.pipeline.printing import shortened
from fullpass.pipeline.running.tracking.tracked_run import TrackedRun

_SECRETS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", ADDRESS_VARIABLE)
# By default, MLflow sends telemetry to its developers, and retries a server that does not answer for minutes.
_REQUIRED = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
_DEFAULTS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "20", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_MOST_CHARACTERS = 400


def track(
    run: TrackedRun, seconds: float, *, say: Callable[[str], None], environment: Mapping[str, str] = os.environ
) -> bool:
    """Records a run; returns whether it was recorded completely.

    Args:
        run: The run.
        seconds: The time limit, after which the recording is given up.
        say: Prints a line that names the server, without login and token, and the problem if there was one.
        environment: Holds the address of the server, and tokens.
    """
    missing = missing_for_mlflow(environment)
    if missing is not None:
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
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ADDRESS_VARIABLE
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else redact(address)


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
