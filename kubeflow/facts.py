"""What a run says of itself to the Trainer in a container: as `pipeline/run_facts.py` has it for runs on one machine.

The configuration travels in a variable of the container. The backend's cache goes by image, arguments, parameters and
inputs (v2/cacheutils/cache.go:52 at 2.5.0, :173 at 2.17.0), and by no variable: a comment in the YAML trains nothing
anew. Which code ran is told where it runs, and the run's id stands in the addresses of the task's outputs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kubeflow.executor_input import ExecutorInput, run_id

if TYPE_CHECKING:
    from pipeline.loading.load import Loaded

VARIABLE = "FULLPASS_PACKAGE_FACTS"
"""Environment variable of the Trainer's container: JSON."""
COMMIT_VARIABLE = "FULLPASS_COMMIT"
"""Environment variable: commit of what lies in the image under `folder`, which has no history there."""


def package_facts(loaded: "Loaded") -> str:
    """Returns what a package knows of every run of it, as a variable of a container takes it.

    Kubernetes replaces $(NAME) and $$ in values of variables, and Argo {{...}} anywhere: neither stands in the text.
    """
    from pipeline.run_facts import config_facts, user_functions

    facts = {"pipeline": loaded.config.name, "config": config_facts(loaded), "functions": user_functions(loaded.config)}
    return json.dumps(facts, sort_keys=True).replace("$", "\\u0024").replace("{{", "{\\u007b")


def tell_node(variables: Mapping[str, str], told: ExecutorInput, folder: Path) -> None:
    """Tells a node in this process what made it run, where the package says anything of it.

    Args:
        variables: of the container.
        told: what the launcher said.
        folder: where a file may lie until the node is done.
    """
    text = variables.get(VARIABLE)
    if text is None:
        return
    # Of all containers, those that are told nothing do without the whole config's classes.
    from pipeline.run_facts import code_facts, tell_nodes

    facts = json.loads(text)
    code = code_facts(facts["functions"], variables.get(COMMIT_VARIABLE))
    run = run_id((output.uri for output in told.outputs.values()), facts["pipeline"])
    tell_nodes({"run": run, "config": facts["config"], "code": code}, folder)
