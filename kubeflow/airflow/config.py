"""The settings file of `fullpass compile --for airflow`: where nodes run, and their retries. Data only."""

from datetime import date

from pydantic import Field

from fullpass.kubeflow.config import Retries, Time, Variable, with_defaults
from fullpass.preprocessing.spec import Name, Spec


class TaskConfig(Spec):
    """How Airflow runs one node. `defaults` applies to all nodes, an entry under `nodes` to one node."""

    retries: Retries | None = None
    timeout: Time | None = None
    """Longest time of one attempt, such as 2h."""
    pool: Name | None = None
    """Airflow pool whose slots the task uses."""
    queue: Name | None = None
    """Queue of the workers that run the task, such as workers with a GPU."""
    env: dict[Variable, str] = Field(default_factory=dict)
    """Environment variable -> value, readable by anyone; credentials belong in the environment of the workers."""


class AirflowConfig(Spec):
    """Locations of the program and the pipeline on the Airflow workers."""

    program: Name = "fullpass"
    """The command on the workers, such as /opt/fullpass/bin/fullpass."""
    file: Name | None = None
    """Path of the pipeline YAML on the workers; by default its path on this machine."""
    root: Name | None = None
    """Folder of artifacts and metadata on the workers; by default `root` of the YAML."""
    start: date | None = None
    """First day of the schedule; required with `catch_up: each`, which runs every scheduled time since then."""
    defaults: TaskConfig = TaskConfig()
    nodes: dict[Name, TaskConfig] = Field(default_factory=dict)
    """Name of a node -> its differences from `defaults`."""

    def node(self, name: str) -> TaskConfig:
        """Returns the settings of a node: the defaults, overridden by its entry under `nodes`."""
        return with_defaults(self.nodes.get(name, TaskConfig()), self.defaults)


EXAMPLES = {
    "program": "/opt/fullpass/bin/fullpass",
    "file": "/pipelines/taxi/pipeline.yaml",
    "root": "/pipelines/taxi/runs",
    "defaults": "{retries: {count: 2, backoff: 1m}}",
    "nodes": "{Trainer: {pool: gpu, timeout: 6h}}",
}
"""YAML path -> example value, for messages."""
NAMES = ("nodes.*",)
"""YAML paths whose keys are the user's names, which are not checked as credentials."""
