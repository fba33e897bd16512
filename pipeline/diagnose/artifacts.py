"""The newest run's train examples and transform graph, as the Trainer would be given them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow_transform as tft

from pipeline.build import with_absolute_files
from pipeline.execution.events import Artifact
from pipeline.execution.metadata_store import newest_run_with, outputs_in
from pipeline.loading.load import Loaded
from preprocessing.errors import UserError
from preprocessing.places import materializes
from trainer.diagnosis.subject import Records, Training
from trainer.input_fn import list_files

TRAIN = "train"


@dataclass(frozen=True)
class Newest:
    """What the newest run has left for training. logs: the run's folder of logs."""

    run_id: str
    logs: Path
    training: Training


def newest_training(loaded: Loaded, root: Path) -> Newest:
    """Returns the train split of the newest run in which Transform ended well, to be trained as the YAML says now.

    Args:
        loaded: a file that passes `checks.require`.
        root: of the pipeline's artifacts, metadata and logs.

    Raises:
        UserError: There is no such run, or it did not write what the YAML now says is read.
    """
    name, metadata = loaded.config.name, root / "metadata.sqlite"
    # Looking for a run must not make a root that is not there.
    run_id = newest_run_with(metadata, name, ["Ingest", "Transform"]) if metadata.exists() else None
    if run_id is None:
        raise UserError(
            f"no run in {root} has written examples yet, and there is nothing to measure without. "
            f"Write them: `fullpass run {loaded.file} --to Transform`."
        )
    preprocessing = with_absolute_files(loaded.config.preprocessing_config, loaded.resolve)
    transform = outputs_in(metadata, name, run_id, "Transform")
    if not materializes(preprocessing):
        # Of a source with spans Ingest gives the new ones only, and Window all that are trained on.
        window = outputs_in(metadata, name, run_id, "Window") or outputs_in(metadata, name, run_id, "Ingest")
        examples = window["examples"]
    elif transform.get("transformed_examples"):
        examples = transform["transformed_examples"]
    else:
        raise UserError(
            "the newest run wrote no transformed examples, for no feature was computed by Transform then; the YAML "
            f"now has some. Write them: `fullpass run {loaded.file} --to Transform`."
        )
    records = loaded.config.data.records
    training = Training(
        files=_files(examples, loaded.file),
        rows=sum(map(_rows, examples)),
        preprocessing=preprocessing,
        config=loaded.config.trainer_config,
        records=Records(records.shard_mb, records.readers),
        tft_output=tft.TFTransformOutput(transform["transform_graph"][-1].uri),
    )
    return Newest(run_id, root / "logs" / run_id, training)


def _files(examples: Sequence[Artifact], file: Path) -> tuple[str, ...]:
    try:
        return list_files([f"{each.uri}/Split-{TRAIN}/*" for each in examples], TRAIN)
    except UserError as error:
        raise UserError(
            f"what the newest run wrote is not there any more, or not all of it: {error} Or write the examples anew: "
            f"`fullpass run {file} --fresh --to Transform`."
        ) from error


def _rows(examples: Artifact) -> int:
    return int(examples.properties[f"rows_{TRAIN}"])
