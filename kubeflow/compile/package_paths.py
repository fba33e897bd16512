"""The non-artifact paths of a package, and checks for settings that a package cannot run."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.kubeflow.compile.parts import Json
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.root.layout import ANALYZER_CACHE, SPAN_STATISTICS, WORK
from fullpass.pipeline.running.build import RunPaths


def cluster_paths(loaded: Loaded, environment: EnvironmentConfig) -> RunPaths:
    """Returns the paths that the containers of a package use.

    Raises:
        UserError: The config names a file of an installed package.
    """

    def resolve(path: str) -> str:
        if is_address(path):
            return path
        if path.startswith("package:"):
            raise UserError(
                f"{path}: the folder of an installed package in the image is unknown. Copy the file beside the YAML."
            )
        return str(PurePosixPath(environment.folder) / path)

    push_to = environment.push_to or resolve(loaded.config.push.to)
    return RunPaths(
        resolve=resolve,
        # A look-up finds the files when a run begins.
        window=Window(span_unit(loaded.config.data), ()),
        known=(),
        # Not an artifact: inputs of Transform are part of Kubeflow's cache key.
        analyzer_cache=f"{environment.registry}/{loaded.config.name}/{ANALYZER_CACHE}",
        span_statistics=f"{environment.registry}/{loaded.config.name}/{SPAN_STATISTICS}",
        compress=True,
        push_to=push_to,
        work=_lasting_work(loaded, environment),
    )


def _lasting_work(loaded: Loaded, environment: EnvironmentConfig) -> str | None:
    """Returns the folder of checkpoints, from which a retry resumes training; None if no folder outlives the pod."""
    registry = environment.registry
    on_volume = environment.node("Trainer").volume_of(registry) is not None
    return f"{registry}/{loaded.config.name}/{WORK}" if on_volume or registry.startswith("gs://") else None


def check_engines(loaded: Loaded, environment: EnvironmentConfig, nodes: Sequence[str]) -> None:
    """Checks that processes outside a node's own pod can read and write the store.

    Raises:
        UserError: They cannot, or a node does not support workers.
    """
    runner = loaded.config.beam.runner
    if environment.artifacts == "copied" and runner not in ("direct", "DirectRunner"):
        raise UserError(
            f"beam.runner: {runner}: its workers cannot access a pod's artifact copies. Give artifacts: direct in the "
            "environment file, or beam.runner: direct."
        )
    others = [name for name in nodes if name != "Trainer" and environment.node(name).workers]
    if others:
        raise UserError(f"nodes.{others[0]}.workers: only Trainer can run in several pods. Remove it.")
    distribution = loaded.config.training.distribution
    if environment.node("Trainer").workers and distribution not in ("auto", "multi_worker"):
        raise UserError(
            f"nodes.Trainer.workers: the pipeline's training.distribution is {distribution}. Set it to multi_worker "
            "or auto."
        )


def span_records(loaded: Loaded, environment: EnvironmentConfig) -> Json:
    """Returns the folders of ingested spans: `entries`, which name them, and `records`.

    Beam on a cluster cannot write to a volume, so records are stored beside the artifacts if Beam may run on a cluster.
    """
    name = loaded.config.name
    direct = environment.artifacts == "direct"
    root = f"{environment.pipeline_root}/{name}" if direct else f"{environment.registry}/{name}"
    return {"entries": f"{environment.registry}/{name}/examples", "records": f"{root}/examples/files"}
