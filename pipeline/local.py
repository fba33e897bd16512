"""The file that TFX's own command line takes: `tfx pipeline create --engine=local --pipeline_path=pipeline/local.py`.

The config is named by the environment variable FULLPASS_CONFIG, when the pipeline is created and when it runs: the
local engine passes no parameters. FULLPASS_SPAN is what `fullpass run` takes as --span.
"""

import os
import sys
from pathlib import Path

CONFIG_VARIABLE = "FULLPASS_CONFIG"
SPAN_VARIABLE = "FULLPASS_SPAN"


def main() -> None:
    """Builds the pipeline of FULLPASS_CONFIG and runs it with TFX's LocalDagRunner.

    Raises:
        UserError: The variable is not set, or the config has problems.
    """
    # Run as a script, this folder comes first on the path, and its modules would stand in for others of their names.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]

    from pipeline.environment import set_environment

    set_environment()
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    from components.ingest.spans import find_window
    from pipeline.build import METADATA, build
    from pipeline.checks.check import require
    from pipeline.execution.events import new_run_id
    from pipeline.execution.locks import run_lock
    from pipeline.execution.metadata_store import settle_abandoned
    from pipeline.loading.load import load
    from pipeline.run import add_user_modules, pipeline_root
    from pipeline.run_facts import run_facts, tell_nodes
    from preprocessing.errors import UserError

    file = os.environ.get(CONFIG_VARIABLE)
    if not file:
        raise UserError(f"set {CONFIG_VARIABLE} to the absolute path of a pipeline YAML.")
    loaded = load(Path(file))
    require(loaded)
    add_user_modules(loaded)
    root = pipeline_root(loaded)
    with run_lock(root, what="tfx run"):
        settle_abandoned(root / METADATA, str(root), loaded.config.name)
        # TFX gives the run its id, and tells it to nobody before.
        tell_nodes(run_facts(loaded, None), root / "logs" / new_run_id())
        window = find_window(loaded.config.data, loaded.resolve, os.environ.get(SPAN_VARIABLE) or None)
        LocalDagRunner().run(build(loaded, root=root, window=window))


if __name__ == "__main__":
    main()
