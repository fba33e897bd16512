"""Where Beam nodes run, if not in their own pod: the cluster's Flink, or Dataflow. Data only; no Beam."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.config import BeamConfig
from preprocessing.spec import Count, Flag, Name, Spec

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+:\d+$")]
Options = dict[str, str | int | float | bool | tuple[str, ...] | None]


class FlinkEngine(Spec):
    """Flink in the cluster; Beam's worker pool runs beside each of its task managers, from the image of the nodes."""

    runner: Literal["flink"]
    master: Address
    """Host and port of the job manager's REST address, such as flink-jobmanager:8081."""
    job_server_jar: Annotated[str, Field(pattern=r"^/.+\.jar$")]
    """Beam's job server for this version of Flink, a file of the image or of a volume; it is submitted with the job."""
    version: Literal["1.17", "1.18", "1.19"] = "1.19"
    """Version of Flink."""
    parallelism: Count = 1
    """Task slots that a node takes."""
    worker_pool: Address = "localhost:50000"
    """Where a task manager finds its worker pool."""

    def options(self, root: str) -> Options:
        """Returns Beam's options. root: address of artifacts."""
        return {
            "flink_master": f"http://{self.master}",
            "flink_version": self.version,
            "flink_submit_uber_jar": True,
            "flink_job_server_jar": self.job_server_jar,
            "parallelism": self.parallelism,
            "environment_type": "EXTERNAL",
            "environment_config": self.worker_pool,
        }


class DataflowEngine(Spec):
    """Google Cloud Dataflow, called by the node's pod, which needs the right to start its jobs."""

    runner: Literal["dataflow"]
    project: Name
    """Project of Google Cloud."""
    region: Name
    """Region, such as europe-west4."""
    worker_image: Name
    """Image of the workers: that of the nodes with Beam's boot program in it."""
    machine_type: Name | None = None
    """Type of the workers' machines; by default Dataflow's choice."""
    most_workers: Count | None = None
    """Most workers at a time."""
    service_account: Name | None = None
    """Account that the workers act as."""
    subnetwork: Name | None = None
    """Network of the workers."""
    public_ips: Flag = True
    """Whether workers have addresses of their own; without, the network must reach Google's services."""

    def options(self, root: str) -> Options:
        """Returns Beam's options. root: address of artifacts, under which temporary files lie too."""
        options: Options = {
            "project": self.project,
            "region": self.region,
            "temp_location": f"{root}/.dataflow/temp",
            "staging_location": f"{root}/.dataflow/staging",
            "sdk_container_image": self.worker_image,
            "sdk_location": "container",
            "worker_machine_type": self.machine_type,
            "max_num_workers": self.most_workers,
            "service_account_email": self.service_account,
            "subnetwork": self.subnetwork,
        }
        given: Options = {name: value for name, value in options.items() if value is not None}
        return given if self.public_ips else {**given, "no_use_public_ips": None}


Engine = Annotated[FlinkEngine | DataflowEngine, Field(discriminator="runner")]


def beam_config(engine: FlinkEngine | DataflowEngine | None, given: BeamConfig, root: str | None) -> BeamConfig:
    """Returns the Beam section for a node: that of the pipeline YAML, unless the environment has another engine for it.

    Options of the YAML that the engine has no word on stay, such as those that tune TF Transform.

    Args:
        engine: of the environment file.
        given: of the pipeline YAML.
        root: address of artifacts.
    """
    if engine is None:
        return given
    return BeamConfig(runner=engine.runner, options={**given.options, **engine.options(root or "")})
