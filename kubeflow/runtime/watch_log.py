"""Entry point of the container that watches the served model.

`python -m fullpass.kubeflow.runtime.watch_log --plan JSON --executor-input '{{$}}' --output metrics=PATH`
"""

import json
import logging
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.kubeflow.protocol import DATE, Json
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.entrypoint import check_line
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, container_arguments, from_arguments, write_output
from fullpass.pipeline.startup import set_environment, without_keras


def main() -> None:
    """Watches, then exits the process."""
    arguments = container_arguments("fullpass.kubeflow.runtime.watch_log", __doc__, plan=None)
    termination.run_to_end(
        lambda: "Watch", lambda: watch_log(json.loads(arguments.plan), from_arguments(arguments)), reconnect=True
    )


def watch_log(plan: Json, task: ExecutorInput) -> None:
    """Watches as `fullpass watch` does, and writes the output message, with the counts as metrics of the run's page.

    Args:
        plan: From the compiler: its line of TFX, the YAML, the folder of pushed models, and the root, which is the
            pipeline's folder in the registry, where the data gate keeps the summaries of training rows.

    Raises:
        UserError: The image is of another line than the package, there is no log, or a reason to stop is open.
    """
    check_line(plan["line"])
    set_environment()
    without_keras()
    # Imported late: TensorFlow reads the environment.
    from fullpass.pipeline.authoring.checks.check import load_checked
    from fullpass.pipeline.watching.command import moment_of
    from fullpass.pipeline.watching.record import act
    from fullpass.pipeline.watching.watch import watch

    loaded, root = load_checked(Path(plan["file"]), runs_here=False), Path(plan["root"])
    push = loaded.config.push.model_copy(update={"to": plan["push_to"]})
    loaded = replace(loaded, config=loaded.config.model_copy(update={"push": push}))
    report = watch(loaded, root=root, at=moment_of(task.parameters.get(DATE) or None))
    act(loaded, report, root=root)
    findings = report.findings
    logging.info("%s", "\n".join(one.words for one in findings) or "No change is beyond its limit.")
    counts = {"rows": report.rows, "findings": len(findings), "stops": len(report.stops)}
    write_output(task.output_file, {"metrics": (task.outputs["metrics"], counts)}, {})
    if report.stops:
        raise UserError("; ".join(one.words for one in report.stops))


if __name__ == "__main__":
    main()
