"""The environment file: images, resources, stores and Beam runners of nodes on Kubeflow. Data only, without TFX."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from fullpass.kubeflow.kfp_internals import Release
from fullpass.kubeflow.kubernetes_names import (
    MOST_SECONDS,
    MOST_WORKERS,
    MOUNTED,
    ClaimName,
    Device,
    Image,
    LabelKey,
    LabelValue,
    MountPath,
    ObjectName,
    SecretKey,
)
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.schedule_config import CronLine
from fullpass.preprocessing.spec import Count, EnvironmentVariable, Flag, Name, Spec

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_CORES = re.compile(r"(\d+(?:\.\d+)?)(m)?")
_TIME = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+:\d+$")]
Options = dict[str, str | int | float | bool | tuple[str, ...] | None]


def byte_count(text: str) -> int:
    """Returns the bytes of a Kubernetes amount such as 8Gi or 500M.

    Raises:
        ValueError: The text is not such an amount.
    """
    found = _AMOUNT.fullmatch(text)
    count = int(float(found[1]) * _UNITS[found[2] or ""]) if found else 0
    if not count:
        raise ValueError(f"give an amount of bytes such as 8Gi, 500Mi or 2G. Received: {text!r}.")
    return count


def cores(text: str) -> float:
    """Returns the cores of a Kubernetes amount such as 2, 0.5 or 500m.

    Raises:
        ValueError: The text is not such an amount.
    """
    found = _CORES.fullmatch(text)
    if found is None:
        raise ValueError(f"give a number of cores such as 2, 0.5 or 500m. Received: {text!r}.")
    return float(found[1]) / (1000 if found[2] else 1)


def seconds(text: str) -> int:
    """Returns the seconds of a time such as 90s, 30m, 2h or 1d.

    Raises:
        ValueError: The text is not such a time.
    """
    found = _TIME.fullmatch(text)
    if found is None or not 0 < int(found[1]) * _SECONDS[found[2]] <= MOST_SECONDS:
        raise ValueError(
            f"give a time such as 90s, 30m, 2h or 1d, at most {MOST_SECONDS // _SECONDS['d']}d. Received: {text!r}."
        )
    return int(found[1]) * _SECONDS[found[2]]


def _checked_by(function: Callable[[str], float]) -> AfterValidator:
    def check(text: str) -> str:
        function(text)
        return text

    return AfterValidator(check)


Bytes = Annotated[str, _checked_by(byte_count)]
Cores = Annotated[str, _checked_by(cores)]
Time = Annotated[str, _checked_by(seconds)]
Overridden = TypeVar("Overridden", bound=Spec)


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


class Cpu(Spec):
    """Cores of a node."""

    request: Cores | None = None
    """Reserved cores, such as 2 or 500m, in quotes."""
    limit: Cores | None = None
    """Largest number of cores that it may use; settings that are `auto` in the pipeline YAML use this number."""


class Memory(Spec):
    """Memory of a node."""

    request: Bytes | None = None
    """Reserved memory, such as 4Gi."""
    limit: Bytes | None = None
    """Largest amount that it may use; a node that uses more is killed."""


class Accelerator(Spec):
    """Accelerator devices of a node."""

    resource: Device = "nvidia.com/gpu"
    """Name of the Kubernetes resource: nvidia.com/gpu, amd.com/gpu, google.com/tpu."""
    count: Count = 1
    """Number of devices per node."""


class Toleration(Spec):
    """A taint that a node's pod tolerates."""

    key: LabelKey
    """Key of the taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal compares `value`; Exists matches any value."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; by default all effects."""

    @model_validator(mode="after")
    def _exists_takes_no_value(self) -> "Toleration":
        if self.operator == "Exists" and self.value:
            raise ValueError(f"operator Exists takes no value. Received: value {self.value!r}.")
        return self


class Secret(Spec):
    """A Kubernetes secret in the namespace of the runs. Its values appear in no package, artifact or log."""

    name: ObjectName
    """Name of the secret."""
    env: dict[EnvironmentVariable, SecretKey] = Field(default_factory=dict)
    """Environment variable -> key of the secret."""
    mount: MountPath | None = None
    """Folder in which every key is mounted as a file."""

    @model_validator(mode="after")
    def _is_used(self) -> "Secret":
        if not self.env and self.mount is None:
            raise ValueError("give env (variable -> key of the secret), mount (a folder), or both.")
        return self

    @model_validator(mode="after")
    def _has_the_name_of_a_volume(self) -> "Secret":
        if self.mount is not None:
            MOUNTED.check(self.name)
        return self


class Volume(Spec):
    """A persistent volume claim in the namespace of the runs."""

    claim: ClaimName
    """Name of the claim."""
    mount: MountPath
    """Folder at which it is mounted."""


class Retries(Spec):
    """Retries of a failed node."""

    count: Count
    """Number of retries after the first attempt."""
    backoff: Time = "30s"
    """Wait before the first retry."""
    factor: Count = 2
    """Factor by which each further wait grows."""
    longest: Time = "10m"
    """Longest wait."""


class Workers(Spec):
    """Pods that run a node together."""

    count: Annotated[int, Field(ge=2, le=MOST_WORKERS)]
    """Number of pods; each has the node's resources."""
    port: Annotated[int, Field(ge=1024, le=65535)] = 2222
    """Port through which the pods reach each other."""
    queue: LabelValue | None = None
    """Kueue queue, which starts all pods together when there is capacity for all of them."""


class NodeConfig(Spec):
    """Settings of one node. `defaults` applies to all nodes, an entry under `nodes` to one node."""

    image: Image | None = None
    """Container image of this node, if it differs from `image` of all nodes."""
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    accelerator: Accelerator | None = None
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that the machine must have; TPUs need two labels: accelerator and topology."""
    tolerations: tuple[Toleration, ...] = ()
    env: dict[EnvironmentVariable, str] = Field(default_factory=dict)
    """Environment variable -> value, readable by anyone; credentials belong in `secrets`."""
    secrets: tuple[Secret, ...] = ()
    volumes: tuple[Volume, ...] = ()
    retries: Retries | None = None
    timeout: Time | None = None
    """Longest lifetime of the node's pod, such as 2h, including the wait for a machine."""
    beam: Engine | None = None
    """Beam runner of this node, which overrides `beam` of the pipeline YAML: flink or dataflow. Needs
    `artifacts: direct`."""
    workers: Workers | None = None
    """Trains on several pods in parallel; for Trainer only. Needs `artifacts: direct`."""
    cache: Flag | None = None
    """Whether to reuse results of an earlier run with the same inputs; by default true."""

    def volume_of(self, folder: str) -> Volume | None:
        """Returns the volume that contains a folder; None if the folder is in the container itself."""
        holding = [volume for volume in self.volumes if PurePosixPath(folder).is_relative_to(volume.mount)]
        return max(holding, key=lambda volume: len(volume.mount), default=None)


class PredictionConfig(Spec):
    """Batch prediction, a package of its own. In paths, {YYYY}, {MM}, {DD} and {HH} are the date of a run, in UTC."""

    rows: Name
    """Rows to predict: a file, folder, glob or address; relative paths start at `folder`."""
    output: Name
    """Folder to write, on a volume of Predict or an address; its suffix is the format: .csv, .tsv, .jsonl, .parquet or
    .tfrecord."""
    model: Name = "pushed"
    """pushed: the newest version in `push_to`; blessed: the newest blessed model of `registry`; or a folder or address.
    """
    source: dict[Name, Any] = Field(default_factory=dict)
    """Keys of `data.source` by which the rows are read, where they differ from those of training."""
    explain: Flag = False
    """Whether to write the effect of each column on the score of each row."""
    cron: CronLine | None = None
    """When `fullpass schedule apply --predict` runs it, as in `schedule.cron` of the YAML."""
    lag: Time | None = None
    """Time by which the date of a run is before its planned time, such as 1d; from 2.17 on, before the start until
    2.16."""


class WatchPackage(Spec):
    """A watch of the served model, a package of its own. The YAML says where the log is, and what is watched."""

    cron: CronLine | None = None
    """When `fullpass schedule apply --watch` runs it, as in `schedule.cron` of the YAML."""


class EnvironmentConfig(Spec):
    """The environment file."""

    image: Image
    """Container image with this project and, under `folder`, all files beside the pipeline YAML."""
    small_image: Image | None = None
    """The same image in the variant without TensorFlow, for nodes that do not need it."""
    kubeflow: Release
    """Target release of Kubeflow Pipelines; settings that it does not support are rejected."""
    folder: MountPath = "/pipeline"
    """Folder in the image or on a volume that replaces the folder of the pipeline YAML."""
    pipeline_root: Name | None = None
    """gs://, s3:// or minio:// URL under which artifacts are stored; by default that of the installation."""
    artifacts: Literal["copied", "direct"] = "copied"
    """copied: nodes work on local copies that Kubeflow fetches and stores. direct: they read and write `pipeline_root`
    themselves, as Beam on a cluster must; needs gs://."""
    tasks: Literal["shared", "separate"] = "shared"
    """shared: nodes with equal settings run one after the other in one task, as far as docs/kubeflow.md says. separate:
    each node has a task of its own."""
    registry: Name
    """Folder that keeps blessed models, spans and analyzer caches between runs: a path on a volume, or a URL such as
    s3://bucket/folder with credentials from `defaults`."""
    push_to: MountPath | None = None
    """Folder that a model server watches, on a volume of Pusher; by default `push.to` of the YAML, in `folder`."""
    predict: PredictionConfig | None = None
    watch: WatchPackage = WatchPackage()
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Names of the secrets for pulling the image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    defaults: NodeConfig = NodeConfig()
    """Settings of all nodes."""
    nodes: dict[Name, NodeConfig] = Field(default_factory=dict)
    """Name of a node, as shown by `fullpass run` -> its settings. Mappings and lists extend the defaults; other values
    replace them."""

    @field_validator("pipeline_root")
    @classmethod
    def _supported_store(cls, root: str | None) -> str | None:
        if root is not None and not re.match(r"(gs|s3|minio)://[^/]+", root):
            raise ValueError(f"Kubeflow stores artifacts under gs://, s3:// or minio://. Received: {root!r}.")
        return root

    @model_validator(mode="after")
    def _clusters_need_direct_artifacts(self) -> "EnvironmentConfig":
        if self.defaults.workers is not None:
            raise ValueError("defaults.workers: only Trainer can run in several pods. Give nodes.Trainer.workers.")
        if self.artifacts == "direct":
            return self
        named = {"defaults": self.defaults, **{f"nodes.{name}": node for name, node in self.nodes.items()}}
        for where, node in named.items():
            for key in ("beam", "workers"):
                if getattr(node, key) is not None:
                    raise ValueError(
                        f"{where}.{key}: pods other than the node's own cannot access its artifact copies. Give "
                        "artifacts: direct, and pipeline_root: gs://..."
                    )
        return self

    @model_validator(mode="after")
    def _direct_needs_gcs(self) -> "EnvironmentConfig":
        if self.artifacts == "direct" and not (self.pipeline_root or "").startswith("gs://"):
            raise ValueError("artifacts: direct needs pipeline_root: gs://...; TensorFlow itself opens no other URLs.")
        return self

    def node(self, name: str, *, small: bool = False) -> NodeConfig:
        """Returns the settings of a node: the defaults, overridden by its entry under `nodes`.

        Args:
            small: Whether the container needs no TensorFlow.
        """
        own = self.nodes.get(name, NodeConfig())
        image = own.image or (self.small_image if small else None) or self.defaults.image or self.image
        return with_defaults(own, self.defaults).model_copy(update={"image": image})


def with_defaults(own: Overridden, defaults: Overridden) -> Overridden:
    """Returns settings in which mappings and lists extend the defaults, and other values replace them."""
    pairs = {name: (getattr(own, name), getattr(defaults, name)) for name in type(own).model_fields}
    return type(own)(**{name: _extended(*pair) for name, pair in pairs.items()})


def _extended(own: Any, defaults: Any) -> Any:
    if isinstance(own, dict):
        return defaults | own
    if isinstance(own, tuple):
        return (*defaults, *(item for item in own if item not in defaults))
    if isinstance(own, Cpu | Memory):
        return with_defaults(own, defaults)
    return defaults if own is None else own


EXAMPLES = {
    "image": "registry.example/taxi:1.4.2",
    "kubeflow": '"2.5"',
    "registry": "/models/registry",
    "defaults": "{memory: {request: 4Gi, limit: 8Gi}}",
    "predict": '{rows: "/data/{YYYY}-{MM}-{DD}.csv", output: "/models/predictions/{YYYY}-{MM}-{DD}.parquet"}',
    "nodes": "{Trainer: {accelerator: {resource: nvidia.com/gpu, count: 1}}}",
}
"""YAML path -> example value, for messages."""
NAMES = (
    "defaults.secrets[*].env.*",
    "nodes.*",
    "nodes.*.secrets[*].env.*",
    "defaults.node_selector.*",
    "nodes.*.node_selector.*",
)
"""YAML paths whose keys are the user's names, which are not checked as credentials."""


def beam_config(engine: FlinkEngine | DataflowEngine | None, section: BeamConfig, root: str | None) -> BeamConfig:
    """Returns the Beam section for a node: that of the pipeline YAML, overridden by the engine of the environment file.

    Options of the YAML that the engine does not set are kept.
    """
    if engine is None:
        return section
    return BeamConfig(runner=engine.runner, options={**section.options, **engine.options(root or "")})
