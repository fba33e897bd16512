"""TFX's Trainer with an executor that runs a `run_fn` of TFX as it is, in a process of its own.

TensorFlow decides once per process which Keras `tf.keras` is. Modules of TFX are mostly written for Keras 2, and the
other nodes need Keras 3.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.trainer.component import Trainer
from tfx.dsl.io import fileio

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.base.user_modules import import_function, own_code
from fullpass.components.internals.tfx_internals import (
    GenericExecutor,
    artifact_utils,
    executor_spec,
    json_utils,
    path_utils,
)
from fullpass.trainer.export.export_files import DESCRIPTION, FILES, listed_files
from fullpass.trainer.export.run_provenance import TRAINING_FILE, read_run_facts

KERAS = "TF_USE_LEGACY_KERAS"
"""Environment variable that TensorFlow reads when it is imported."""
_TRAIN = "import sys; from fullpass.components.training.component import train_here; train_here(*sys.argv[1:])"

Artifacts = dict[str, list[types.Artifact]]


class RunFnExecutor(GenericExecutor):
    """Starts the process, and describes the model that it exported.

    `custom_config` of the node holds that of the user, the version of Keras, and the facts of the description.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        """Runs the node.

        Raises:
            UserError: The function failed, or exported no model.
        """
        options = json_utils.loads(exec_properties["custom_config"])
        given = {**exec_properties, "custom_config": json_utils.dumps(options["custom_config"])}
        function = exec_properties["run_fn"]
        with tempfile.TemporaryDirectory() as scratch:
            task, failure = Path(scratch, "task.json"), Path(scratch, "failure.txt")
            task.write_text(json_utils.dumps([input_dict, output_dict, given]), encoding="utf-8")
            keras = {KERAS: "1" if options["keras"] == 2 else "0"}
            # -P: files in the working folder must not shadow installed modules.
            command = [sys.executable, "-P", "-c", _TRAIN, str(task), str(failure)]
            start = time.monotonic()
            code = subprocess.run(command, env={**os.environ, **keras}, check=False).returncode
            if failure.exists():
                raise UserError(failure.read_text(encoding="utf-8"))
        seconds = time.monotonic() - start
        if code:
            raise UserError(f"{function}: its process ended with exit code {code}. The log of the node has its output.")
        export = path_utils.serving_model_dir(artifact_utils.get_single_uri(output_dict["model"]))
        if not fileio.exists(f"{export}/saved_model.pb"):
            raise UserError(f"{function} wrote no SavedModel to fn_args.serving_model_dir.")
        facts = {**options["facts"], "lineage": read_run_facts()}
        described = {**facts, "run_fn": function, FILES: listed_files(export)}
        _write(f"{export}/{DESCRIPTION}", state_file.encode(described, indent=2).decode())
        record = {"run_fn": function, "model": facts, "seconds": seconds}
        _write(f"{artifact_utils.get_single_uri(output_dict['model_run'])}/{TRAINING_FILE}", to_json_text(record))


def _write(path: str, text: str) -> None:
    fileio.makedirs(os.path.dirname(path))
    with fileio.open(path, "w") as file:
        file.write(text)


def train_here(task: str, failure: str) -> None:
    """Calls the `run_fn` of a node in this process.

    Args:
        task: The file of the artifacts and parameters of the node, as JSON.
        failure: The file that gets the message if the function raises.
    """
    input_dict, output_dict, given = json_utils.loads(Path(task).read_text(encoding="utf-8"))
    fn_args = GenericExecutor()._GetFnArgs(input_dict, output_dict, given)
    try:
        function = import_function(given["run_fn"])
        with own_code(given["run_fn"]):
            function(fn_args)
    except UserError as error:
        Path(failure).write_text(str(error), encoding="utf-8")
        raise


class RunFnTrainer(Trainer):
    """TFX's Trainer with the executor above."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(RunFnExecutor)
