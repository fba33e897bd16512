"""The pipeline file for TFX's command line: `tfx pipeline create --engine=local --pipeline_path=pipeline/local.py`.

The environment variable FULLPASS_CONFIG names the config, both when the pipeline is created and when it runs, because
the local engine passes no parameters. FULLPASS_SPAN has the same meaning as --span of `fullpass run`.
"""

import os
import subprocess
import sys
from pathlib import Path

CONFIG_VARIABLE = "FULLPASS_CONFIG"
SPAN_VARIABLE = "FULLPASS_SPAN"


def main() -> None:
    """Builds the pipeline of FULLPASS_CONFIG for TFX's command line, whose run is a `fullpass run`.

    Raises:
        UserError: The variable is not set, or the config has problems.
    """
    # For a script, Python puts this folder first on the path, where its modules would shadow others of the same name.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]

    from fullpass.pipeline.api.functions import tfx_pipeline
    from fullpass.pipeline.startup import set_environment

    set_environment()
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    from fullpass.base.errors import UserError
    from fullpass.pipeline.running.request import RunRequest

    file = os.environ.get(CONFIG_VARIABLE)
    if not file:
        raise UserError(f"set {CONFIG_VARIABLE} to the absolute path of a pipeline YAML.")
    span = os.environ.get(SPAN_VARIABLE) or None
    command = RunRequest(span=span).command(Path(file))

    class Runner(LocalDagRunner):
        """`tfx pipeline create` replaces `LocalDagRunner.run`, so that it sees the pipeline, and nothing runs."""

        def run_with_ir(self, pipeline, run_options=None) -> None:
            ended = subprocess.run(command)
            if ended.returncode:
                sys.exit(ended.returncode)

    Runner().run(tfx_pipeline(file, span=span))


if __name__ == "__main__":
    main()
