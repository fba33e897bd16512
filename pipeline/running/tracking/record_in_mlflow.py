"""The process that records a run in MLflow: `python -m` this module, with a TrackedRun as JSON on standard input.

It is a separate process because MLflow's client takes seconds to import, starts threads, and has its own timeouts for
servers. It prints one JSON object: `recorded`, the id of the run in MLflow or null, and `error`, the problem or null.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

# Limits that every server accepts; newer servers accept more.
_MOST_PARAM_CHARACTERS = 500
_MOST_TAG_CHARACTERS = 5000
_MOST_METRICS, _MOST_PARAMS = 1000, 100
_PARENT = "mlflow.parentRunId"


def _record(client: MlflowClient, run: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Records a run, its trials as nested runs, and its files.

    Args:
        run: The fields of TrackedRun.
        answer: Receives the id of the run in MLflow as soon as it exists.
    """
    experiment = _experiment(client, run["experiment"])
    tags = {name: value[:_MOST_TAG_CHARACTERS] for name, value in run["tags"].items()}
    made = client.create_run(experiment, run["started"], tags=tags, run_name=run["name"])
    run_id = answer["recorded"] = made.info.run_id
    # The run is terminated even if storing fails, so it does not stay "running" forever.
    try:
        _log(client, run_id, run["params"], run["metrics"], run["ended"])
        for number, trial in enumerate(run["trials"], 1):
            name = f"{run['name']} trial {number}"
            nested = client.create_run(experiment, run["started"], tags={_PARENT: run_id}, run_name=name)
            _log(client, nested.info.run_id, trial["params"], trial["metrics"], run["ended"])
            client.set_terminated(nested.info.run_id, "FINISHED", run["ended"])
        with tempfile.TemporaryDirectory() as folder:
            for name, text in run["texts"].items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            for file in (*sorted(Path(folder).iterdir()), *run["files"]):
                client.log_artifact(run_id, str(file))
    finally:
        client.set_terminated(run_id, "FAILED" if run["failed"] else "FINISHED", run["ended"])


def _experiment(client: MlflowClient, name: str) -> str:
    """Returns the id of an experiment, which is created if missing; another run may create it at the same time."""
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name)
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise ValueError(f'the experiment "{name}" was deleted. Restore it, or name another one.')
    return found.experiment_id


def _log(
    client: MlflowClient, run_id: str, params: Mapping[str, str], metrics: Mapping[str, Sequence[Any]], ended: int
) -> None:
    for some in _parts([Param(name, value[:_MOST_PARAM_CHARACTERS]) for name, value in params.items()], _MOST_PARAMS):
        client.log_batch(run_id, params=some)
    measured = [Metric(name, value, ended, step) for name, values in metrics.items() for step, value in values]
    for some in _parts(measured, _MOST_METRICS):
        client.log_batch(run_id, metrics=some)


def _parts(entries: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (entries[start : start + most] for start in range(0, len(entries), most))


def main() -> None:
    """Records the run from standard input on the server that the environment names."""
    answer: dict[str, Any] = {"recorded": None, "error": None}
    try:
        _record(MlflowClient(), json.load(sys.stdin), answer)
    except Exception as error:
        # The caller receives the reason of every problem with the server.
        answer["error"] = str(error) or type(error).__name__
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
