"""The ServingCheck component, which tests the export in a fresh process with TensorFlow alone."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.components.artifacts import ServingReport
from fullpass.components.internals.tfx_internals import io_utils, path_utils
from fullpass.components.serving_check.tensorflow_process import run_program

_PROBE = Path(__file__).with_name("probe.py")
_TIMEOUT_SECONDS = 600
"""Time after which a model that does not answer fails the check."""


@component
def ServingCheck(
    model: InputArtifact[standard_artifacts.Model],
    report: OutputArtifact[ServingReport],
) -> None:
    """Runs the sample requests of the export on a moved copy of it, in a fresh process with TensorFlow alone.

    `report` contains `serving.json` and has the property `latency_ms`, the median latency of one row.
    """
    facts = check_export(path_utils.serving_model_path(model.uri))
    with fileio.open(f"{report.uri}/serving.json", "w") as f:
        f.write(to_json_text(facts, indent=1))
    report.set_float_custom_property("latency_ms", facts["latency_ms"])


def check_export(export: str) -> dict[str, Any]:
    """Returns the predictions and latencies that the probe measured on a copy of an export.

    Raises:
        UserError: The export does not load, or its outputs are wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        moved = Path(folder) / "moved"
        if "://" in export:
            io_utils.copy_dir(export, str(moved))
        else:
            shutil.copytree(export, moved)
        try:
            done = run_program(_PROBE, [str(moved)], folder=folder, seconds=_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"the exported model did not answer within {_TIMEOUT_SECONDS} s.") from error
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UserError(f"the exported model does not serve with TensorFlow alone: {last[0]}")
    return json.loads(done.stdout.splitlines()[-1])
