"""The pipeline file for TFX's command line: `tfx pipeline create --engine=local --pipeline_path=pipeline/local.py`.

The environment variable FULLPASS_CONFIG names the config, both when the pipeline is created and when it runs, because
the local engine passes no parameters. FULLPASS_SPAN has the same meaning as --span of `fullpass run`.
"""

import os
import sys
from pathlib import Path

CONFIG_VARIABLE = "FULLPASS_CONFIG"
SPAN_VARIABLE = "FULLPASS_SPAN"


def main() -> None:
    """Builds the pipeline of FULLPASS_CONFIG and runs it with TFX's LocalDagRunner, without secrets in the metadata.

    Raises:
        UserError: The variable is not set, or the config has problems.
    """
    # For a script, Python puts this folder first on the path, where its modules would shadow others of the same name.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]

    from fullpass.pipeline.startup import set_environment

    set_environment()
    from fullpass.base.errors import UserError
    from fullpass.base.user_modules import use_modules_of
    from fullpass.components.ingest.spans.spans import find_window
    from fullpass.pipeline.authoring.checks.check import require
    from fullpass.pipeline.authoring.loading.load import load
    from fullpass.pipeline.root.check import claim_root
    from fullpass.pipeline.root.layout import RootLayout, pipeline_root
    from fullpass.pipeline.root.locks import run_lock
    from fullpass.pipeline.running.build import build
    from fullpass.pipeline.running.execution.events import new_run_id
    from fullpass.pipeline.running.execution.launch import RedactedDagRunner
    from fullpass.pipeline.running.execution.metadata_store import close_abandoned
    from fullpass.pipeline.running.record_provenance import run_facts, write_run_facts

    file = os.environ.get(CONFIG_VARIABLE)
    if not file:
        raise UserError(f"set {CONFIG_VARIABLE} to the absolute path of a pipeline YAML.")
    loaded = load(Path(file))
    require(loaded)
    use_modules_of(loaded.folder)
    root = pipeline_root(loaded)
    layout = RootLayout(root)
    claim_root(root, loaded.config.name)
    with run_lock(root, what="tfx run"):
        close_abandoned(layout.metadata, str(root), loaded.config.name)
        # TFX chooses its run id later.
        write_run_facts(run_facts(loaded, None), layout.run_logs(new_run_id()))
        window = find_window(loaded.config.data, loaded.resolve, os.environ.get(SPAN_VARIABLE) or None)
        RedactedDagRunner().run(build(loaded, root=root, window=window))


if __name__ == "__main__":
    main()
