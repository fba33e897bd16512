"""Provenance of a run for the Trainer in a container; `running/record_provenance.py` does the same on one machine.

The configuration is passed in an environment variable of the container. The backend's cache key consists of image,
arguments, parameters and inputs (v2/cacheutils/cache.go:52 at 2.5.0, :173 at 2.17.0), without variables: a changed
comment in the YAML causes no new training. The facts about the code are read in the container, and the run's id comes
from the URIs of the task's outputs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fullpass.kubeflow.compile.packed import pack, unpack
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, run_id

if TYPE_CHECKING:
    from fullpass.pipeline.authoring.loading.load import Loaded

VARIABLE = "FULLPASS_PACKAGE_FACTS"
"""Environment variable of the Trainer's container: JSON data, packed."""
COMMIT_VARIABLE = "FULLPASS_COMMIT"
"""Environment variable: commit of the files in the image under `folder`, which have no Git history there."""


def package_facts(loaded: "Loaded") -> str:
    """Returns the facts common to all runs of a package, as the value of an environment variable."""
    from fullpass.pipeline.running.record_provenance import config_facts, user_functions

    facts = {"pipeline": loaded.config.name, "config": config_facts(loaded), "functions": user_functions(loaded.config)}
    return pack(facts)


def provide_run_facts(variables: Mapping[str, str], task: ExecutorInput, folder: Path) -> None:
    """Provides the provenance of the run to the node in this process, if its container has it.

    Args:
        variables: environment variables of the container.
        task: the launcher's input.
        folder: folder for a file that the node reads.
    """
    text = variables.get(VARIABLE)
    if text is None:
        return
    # Imported late: containers without these facts do not need the classes of the whole config.
    from fullpass.pipeline.running.record_provenance import code_facts, write_run_facts

    facts = unpack(text)
    code = code_facts(facts["functions"], variables.get(COMMIT_VARIABLE))
    run = run_id((output.uri for output in task.outputs.values()), facts["pipeline"])
    write_run_facts({"run": run, "config": facts["config"], "code": code}, folder)
