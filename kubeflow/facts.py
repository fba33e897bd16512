"""What a run says of itself to the Trainer in a container: as `pipeline/run_facts.py` has it for runs on one machine.

The configuration travels in a variable of the container. The backend's cache goes by image, arguments, parameters and
inputs (v2/cacheutils/cache.go:52 at 2.5.0, :173 at 2.17.0), and by no variable: a comment in the YAML trains nothing
anew. Which code ran is told where it runs, and the run's id stands in the addresses of the task's outputs.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kubeflow.executor_input import ExecutorInput
from kubeflow.parts import task_name

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

    facts = {"config": config_facts(loaded), "functions": user_functions(loaded.config)}
    return json.dumps(facts, sort_keys=True).replace("$", "\\u0024").replace("{{", "{\\u007b")


def tell_node(variables: Mapping[str, str], node: str, told: ExecutorInput, folder: Path) -> None:
    """Tells a node in this process what made it run, where the package says anything of it.

    Args:
        variables: of the container.
        node: name of the node.
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
    tell_nodes({"run": run_id(told, task_name(node)), "config": facts["config"], "code": code}, folder)


def for_workers(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variables that a task hands on to the pods that do its work."""
    return {VARIABLE: variables[VARIABLE]} if VARIABLE in variables else {}


def run_id(told: ExecutorInput, task: str) -> str | None:
    """Returns the id of the run, None where addresses are not the backend's.

    Every release puts outputs under ROOT/PIPELINE/RUN/TASK/SALT/OUTPUT (v2/metadata/client.go:316 and
    v2/driver/driver.go:2046 at 2.5.0). The placeholder `{{$.pipeline_job_uuid}}` is known from 2.5 on, and as a
    parameter it would be part of what the cache goes by.
    """
    for output in told.outputs.values():
        _, *parts = output.uri.split("://")[-1].split("/")
        if len(parts) >= 5 and parts[-3] == task:
            return parts[-4]
    return None
