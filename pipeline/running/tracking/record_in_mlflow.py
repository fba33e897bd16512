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
_MOST_METRICS, _MOST_OTHERS = 1000, 100
_PARENT = "mlflow.parentRunId"


def record(client: MlflowClient, run: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Records a run, its trials as nested runs, and its files.

    Args:
        client: The client of the server.
        run: The fields of TrackedRun.
        answer: Receives the id of the run in MLflow as soon as it exists.
    """
    experiment = _experiment(client, run["experiment"])
    made = client.create_run(experiment, run["started"], tags=_cut(run["tags"]), run_name=run["name"])
    run_id = answer["recorded"] = made.info.run_id
    # The run is terminated even if storing fails, so it does not stay "running" forever.
    try:
        metrics = [
            Metric(name, value, run["ended"], step) for name, values in run["metrics"].items() for step, value in values
        ]
        _log(client, run_id, run["params"], metrics)
        for number, trial in enumerate(run["trials"], 1):
            _record_trial(client, experiment, run, run_id, number, trial)
        _store_files(client, run_id, run["texts"], run["files"])
    finally:
        client.set_terminated(run_id, "FAILED" if run["failed"] else "FINISHED", run["ended"])


def _record_trial(
    client: MlflowClient, experiment: str, run: Mapping[str, Any], parent: str, number: int, trial: Mapping[str, Any]
) -> None:
    name = f"{run['name']} trial {number}"
    made = client.create_run(experiment, run["started"], tags={_PARENT: parent}, run_name=name)
    metrics = [Metric(metric, value, run["ended"], 0) for metric, value in trial["metrics"].items()]
    _log(client, made.info.run_id, trial["params"], metrics)
    client.set_terminated(made.info.run_id, "FINISHED", run["ended"])


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


def _log(client: MlflowClient, run_id: str, params: Mapping[str, str], metrics: Sequence[Metric]) -> None:
    for some in _parts([Param(key, value[:_MOST_PARAM_CHARACTERS]) for key, value in params.items()], _MOST_OTHERS):
        client.log_batch(run_id, params=some)
    for of_metrics in _parts(metrics, _MOST_METRICS):
        client.log_batch(run_id, metrics=of_metrics)


def _store_files(client: MlflowClient, run_id: str, texts: Mapping[str, str], files: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for file in (*sorted(Path(folder).iterdir()), *files):
            client.log_artifact(run_id, str(file))


def _parts(entries: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (entries[start : start + most] for start in range(0, len(entries), most))


def _cut(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:_MOST_TAG_CHARACTERS] for name, value in tags.items()}


def main() -> None:
    """Records the run from standard input on the server that the environment names."""
    answer: dict[str, Any] = {"recorded": None, "error": None}
    try:
        record(MlflowClient(), json.load(sys.stdin), answer)
    except Exception as error:
        # The caller receives the reason of every problem with the server.
        answer["error"] = str(error) or type(error).__name__
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
