"""Settings of Beam runners outside a node's own pod: Flink in the cluster, and Dataflow. Data only, without Beam."""

from typing import Annotated, Literal

from pydantic import Field

from fullpass.pipeline.config import BeamConfig
from fullpass.preprocessing.spec import Count, Flag, Name, Spec

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+:\d+$")]
Options = dict[str, str | int | float | bool | tuple[str, ...] | None]


class FlinkEngine(Spec):
    """Flink in the cluster; a Beam worker pool with the image of the nodes runs beside each of its task managers."""

    runner: Literal["flink"]
    master: Address
    """Host and port of the job manager's REST API, such as flink-jobmanager:8081."""
    job_server_jar: Annotated[str, Field(pattern=r"^/.+\.jar$")]
    """Beam's job server for this version of Flink, a file in the image or on a volume. It is submitted with the job."""
    version: Literal["1.17", "1.18", "1.19"] = "1.19"
    """Version of Flink."""
    parallelism: Count = 1
    """Number of task slots that a node uses."""
    worker_pool: Address = "localhost:50000"
    """Host and port at which a task manager reaches its worker pool."""

    def options(self, root: str) -> Options:
        """Returns Beam's options. Flink does not use the pipeline root."""
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
    """Google Cloud Dataflow. The service account of the node's pod must be allowed to start jobs."""

    runner: Literal["dataflow"]
    project: Name
    """Google Cloud project."""
    region: Name
    """Region, such as europe-west4."""
    worker_image: Name
    """Image of the workers: the image of the nodes with Beam's boot program added."""
    machine_type: Name | None = None
    """Machine type of the workers; by default Dataflow chooses."""
    most_workers: Count | None = None
    """Maximum number of workers."""
    service_account: Name | None = None
    """Service account of the workers."""
    subnetwork: Name | None = None
    """Subnetwork of the workers."""
    public_ips: Flag = True
    """Whether workers have public IP addresses; without them, the subnetwork must reach Google's services."""

    def options(self, root: str) -> Options:
        """Returns Beam's options. The pipeline root also holds temporary files."""
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
        chosen: Options = {name: value for name, value in options.items() if value is not None}
        return chosen if self.public_ips else {**chosen, "no_use_public_ips": None}


Engine = Annotated[FlinkEngine | DataflowEngine, Field(discriminator="runner")]


def beam_config(engine: FlinkEngine | DataflowEngine | None, section: BeamConfig, root: str | None) -> BeamConfig:
    """Returns the Beam section for a node: that of the pipeline YAML, overridden by the engine of the environment file.

    Options of the YAML that the engine does not set are kept.

    Args:
        engine: The engine of the node, from the environment file.
        section: The section `beam` of the pipeline YAML.
        root: The pipeline root.
    """
    if engine is None:
        return section
    return BeamConfig(runner=engine.runner, options={**section.options, **engine.options(root or "")})
