"""`fullpass diagnose FILE`: finds the slowest stage of the training input and the setting that speeds it up."""

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.writing.manifest import COUNTS, read_counts
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.diagnose.diagnosis import Diagnosis, diagnose_training
from fullpass.pipeline.diagnose.profiled_training import DiagnosedTraining
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.execution.metadata_store import newest_run_with
from fullpass.pipeline.running.execution.records import outputs_in
from fullpass.pipeline.running.tfx_components import with_absolute_files
from fullpass.preprocessing.columns.compute_at import materializes
from fullpass.trainer.config import RunFn, TrainingSpec
from fullpass.trainer.records.record_files import list_files

TRAIN = "train"
INGEST, TRANSFORM = "Ingest", "Transform"


def diagnose(
    loaded: Loaded, *, root: Path | None = None, seconds: float = 60.0, say: Callable[[str], None] = lambda _: None
) -> Diagnosis:
    """Diagnoses a training on the examples of the newest run.

    Args:
        loaded: A file that passes `checks.require`.

    Raises:
        UserError: No run has written the examples that the YAML reads.
    """
    use_modules_of(loaded.folder)
    return diagnose_training(newest_training(loaded, pipeline_root(loaded, root)), seconds=seconds, log=say)


def newest_training(loaded: Loaded, root: Path, run: str | None = None) -> DiagnosedTraining:
    """Returns a training with the current YAML on the examples of a run: the newest whose Transform succeeded.

    Raises:
        UserError: There is no such run, it did not write the examples that the YAML now reads, or a `run_fn` of TFX
            reads them.
    """
    if isinstance(loaded.config.model, RunFn):
        function = loaded.config.model.function
        raise UserError(f"{loaded.file}: model: {function} reads its examples itself, in a way that is not known.")
    metadata = RootLayout(root).metadata
    run_id = run or newest_run(loaded, root, (INGEST, TRANSFORM))
    preprocessing = with_absolute_files(loaded.config.preprocessing_config, loaded.resolve)
    transform = outputs_in(metadata, loaded.config.name, run_id, TRANSFORM)
    if not materializes(preprocessing):
        examples = raw_examples(loaded, metadata, run_id)
    elif transform.get("transformed_examples"):
        examples = transform["transformed_examples"]
    else:
        raise UserError(
            "the newest run wrote no transformed examples, because Transform computed no feature then; the YAML "
            f"now has such features. Write them: `fullpass run {loaded.file} --to Transform`."
        )
    return DiagnosedTraining(
        files=train_files(examples, loaded.file),
        rows=sum(read_counts(each.properties.get(COUNTS)).written[TRAIN] for each in examples),
        spec=TrainingSpec(
            preprocessing, loaded.config.trainer_config, tft.TFTransformOutput(transform["transform_graph"][-1].uri)
        ),
        shard_mb=loaded.config.data.records.shard_mb,
    )


def newest_run(loaded: Loaded, root: Path, nodes: Sequence[str]) -> str:
    """Returns the newest run in which some nodes succeeded.

    Raises:
        UserError: There is no such run.
    """
    run_id = newest_run_with(RootLayout(root).metadata, loaded.config.name, nodes)
    if run_id is None:
        what = (
            "written examples yet, and the measurement reads them" if nodes[-1] == TRANSFORM else "trained a model yet"
        )
        raise UserError(f"no run in {root} has {what}. Run it: `fullpass run {loaded.file} --to {nodes[-1]}`.")
    return run_id


def raw_examples(loaded: Loaded, metadata: Path, run_id: str) -> Sequence[RecordedArtifact]:
    """Returns the raw examples that a run read: for a source with spans those of all spans of the window."""
    # For a source with spans, Ingest outputs only the new spans, and Window outputs all spans of the window.
    name = loaded.config.name
    window = outputs_in(metadata, name, run_id, "Window") or outputs_in(metadata, name, run_id, INGEST)
    return window["examples"]


def train_files(examples: Sequence[RecordedArtifact], file: Path) -> tuple[str, ...]:
    """Returns the files of the split train of some examples, sorted.

    Raises:
        UserError: Files are missing.
    """
    try:
        return list_files([f"{each.uri}/Split-{TRAIN}/*" for each in examples], TRAIN)
    except UserError as error:
        raise UserError(
            f"the examples of the newest run are incomplete: {error} Or write the examples again: "
            f"`fullpass run {file} --fresh --to Transform`."
        ) from error
