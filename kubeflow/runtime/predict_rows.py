"""Entry point of the container of a batch prediction.

`python -m fullpass.kubeflow.runtime.predict_rows --plan JSON --executor-input '{{$}}' --output metrics=PATH`
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.push.push import SERVING
from fullpass.kubeflow.protocol import DATE, MODEL, OUTPUT, ROWS, SCHEDULE_TIME, Json
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.entrypoint import check_line
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, container_arguments, from_arguments, write_output
from fullpass.kubeflow.runtime.lookup import check_writable
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.running.beam_args import prediction_args
from fullpass.pipeline.startup import set_environment, without_keras

_FIELDS = {"{YYYY}": "%Y", "{MM}": "%m", "{DD}": "%d", "{HH}": "%H"}


def main() -> None:
    """Predicts, then exits the process."""
    arguments = container_arguments("fullpass.kubeflow.runtime.predict_rows", __doc__, plan=None)
    termination.run_to_end(
        lambda: "Predict", lambda: predict(json.loads(arguments.plan), from_arguments(arguments)), reconnect=True
    )


def predict(plan: Json, task: ExecutorInput) -> None:
    """Predicts the rows of a run and writes the output message, with the counts as metrics of the run's page.

    Args:
        plan: From the compiler: its line of TFX, reading options, Beam options, lag in seconds, folder of paths.

    Raises:
        UserError: The image is of another line than the package, the date is none, rows or model are missing, or the
            output is not writable.
    """
    check_line(plan["line"])
    set_environment()
    without_keras()
    # Imported late: TensorFlow reads the environment.
    from fullpass.components.predict.predict_parts import Batch, predict_parts

    moment = date_of(task.parameters, plan["lag"])
    rows, output = (dated(resolve_path(task.parameters[name], Path(plan["folder"])), moment) for name in (ROWS, OUTPUT))
    check_writable(output)
    if MODEL in task.inputs:
        copy = task.inputs[MODEL]
        model = f"{copy.uri if plan['artifacts'] == 'direct' else copy.path}/{SERVING}"
    else:
        model = resolve_path(task.parameters[MODEL], Path(plan["folder"]))
    logging.info("%s -> %s, by %s", rows, output, model)
    config = BeamConfig.model_validate(plan["beam"])
    done = predict_parts(
        Batch(model, rows, output, plan["read_as"], plan["explain"]),
        lambda size: prediction_args(config, data_bytes=size),
    )
    logging.info("%s", "\n".join([f"{done.rows - done.bad:,} rows predicted, in {output}", *done.notes()]))
    counts = {"rows": done.rows, "bad_rows": done.bad}
    write_output(task.output_file, {"metrics": (task.outputs["metrics"], counts)}, {})


def date_of(parameters: Mapping[str, str], lag: int) -> datetime:
    """Returns the date of a run, in UTC: the given one, or `lag` seconds before the planned time, or before now.

    Raises:
        UserError: The given date is none.
    """
    given, planned = parameters.get(DATE, ""), parameters.get(SCHEDULE_TIME, "")
    try:
        if given:
            return datetime.fromisoformat(given)
        return (datetime.fromisoformat(planned) if planned else datetime.now(UTC)) - timedelta(seconds=lag)
    except ValueError:
        raise UserError(
            f"{DATE}: give a date such as 2026-01-02, or with an hour 2026-01-02T03. Received: {given or planned!r}."
        ) from None


def dated(path: str, moment: datetime) -> str:
    """Returns a path with its date fields filled in.

    Example:
        >>> dated("rows/{YYYY}-{MM}-{DD}/*.csv", datetime(2026, 1, 2))
        'rows/2026-01-02/*.csv'
    """
    for field, code in _FIELDS.items():
        path = path.replace(field, moment.strftime(code))
    return path


if __name__ == "__main__":
    main()
