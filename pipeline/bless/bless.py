"""Blesses a model that the Evaluator refused: as a new blessing and a push in the metadata, made by a person.

The record is that of a run: an execution that made a blessing, and one of the Pusher that took it. So later runs follow
the model, and its lineage tells who blessed it, without a second way to look.
"""

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ml_metadata import proto
from tfx import types
from tfx.dsl.compiler import compiler_utils, constants
from tfx.dsl.io import fileio
from tfx.orchestration.portable.mlmd import context_lib, execution_lib
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from components.evaluation.verdict import read_verdict
from components.pusher import push_model
from components.recorded import properties_of
from pipeline.build import METADATA
from pipeline.execution.locks import run_lock
from pipeline.execution.metadata_store import LockedMetadata
from pipeline.loading.load import Loaded
from preprocessing.errors import UserError

BLESS = "Bless"
_PUSHER = "Pusher"
Artifacts = Mapping[str, Sequence[types.Artifact]]


def bless(loaded: Loaded, root: Path, *, model: str | None, force: bool, why: str) -> str:
    """Blesses and pushes a model that was evaluated and refused.

    Args:
        loaded: the pipeline.
        root: of its runs.
        model: number at the end of the model's folder; None is the newest that was refused.
        force: whether to do it, or to say only why it was refused.
        why: what is recorded.

    Returns:
        What was done, in words.

    Raises:
        UserError: There is no such model, `force` or `why` is missing, or a run holds the root.
    """
    if not (root / METADATA).exists():
        raise UserError(f"{root}: no run so far, so there is no model to bless.")
    with run_lock(root, what="fullpass bless"), LockedMetadata(root / METADATA) as handle:
        refused = _Refused.find(handle, loaded, model)
        if not force:
            raise UserError(
                f"The model in {refused.model.uri} was not blessed:\n{refused.reasons}\nTo push it all the same: "
                'fullpass bless --force --why "..."'
            )
        if not why.strip():
            raise UserError('--why is empty. Say what you know better than the thresholds: --why "...".')
        return refused.bless(root, by=_who(), why=why.strip())


class _Refused:
    """A model that was evaluated and not blessed, and what the Pusher had of it."""

    def __init__(self, handle: LockedMetadata, loaded: Loaded, execution: proto.Execution, taken: Artifacts):
        self._handle, self._loaded, self._execution, self._taken = handle, loaded, execution, taken
        self.model = taken["model"][0]

    @classmethod
    def find(cls, handle: LockedMetadata, loaded: Loaded, number: str | None) -> "_Refused":
        """Returns the model with a number, or the newest that was refused and that nobody blessed since."""
        name = loaded.config.name
        node = handle.store.get_context_by_type_and_name(
            constants.NODE_CONTEXT_TYPE_NAME, compiler_utils.node_context_name(name, _PUSHER)
        )
        executions = handle.store.get_executions_by_context(node.id) if node is not None else []
        done = [execution for execution in executions if execution.last_known_state == proto.Execution.COMPLETE]
        judged = [(e, execution_lib.get_input_artifacts(handle, e.id)) for e in sorted(done, key=lambda e: -e.id)]
        blessed = {_number(taken) for _, taken in judged if taken["blessing"][0].get_int_custom_property("blessed")}
        if number in blessed:
            raise UserError(f"Model {number} was blessed and pushed already.")
        refused = [found for found in judged if _number(found[1]) not in blessed]
        chosen = [found for found in refused if number in (None, _number(found[1]))]
        if not chosen:
            known = ", ".join(dict.fromkeys(_number(taken) for _, taken in refused)) or "none"
            what = f"no model {number} was" if number else "no model was"
            raise UserError(f"{name}: {what} evaluated and refused. Refused: {known}.")
        execution, taken = chosen[0]
        if not fileio.exists(path_utils.serving_model_path(taken["model"][0].uri)):
            raise UserError(f"The files of the model in {taken['model'][0].uri} are gone. Train it again.")
        return cls(handle, loaded, execution, taken)

    @property
    def reasons(self) -> str:
        """Why it was refused, a line each."""
        verdict = read_verdict(self._taken["evaluation"][0].uri, self._loaded.config.evaluation, blessed=False)
        return "\n".join(verdict.reasons)

    def bless(self, root: Path, *, by: str, why: str) -> str:
        """Pushes it, and records the blessing and the push."""
        blessing = self._blessing(root, by, why)
        config = self._loaded.config
        taken = {**self._taken, "blessing": [blessing]}
        # The blessing goes first: a push that nothing in the metadata explains would be worse than one to be repeated.
        evaluated = {name: taken[name] for name in ("model", "evaluation")}
        self._record(BLESS, f"fullpass.{BLESS}", evaluated, {"blessing": [blessing]})
        version = standard_artifacts.PushedModel()
        version.uri = f"{blessing.uri}/pushed_model"
        target = str(self._loaded.resolve(config.push.to))
        push_model(taken, version, target, keep=config.push.keep, config=config.evaluation)
        os.makedirs(version.uri)
        self._record(_PUSHER, self._execution.type, taken, {"pushed_model": [version]})
        return f"Blessed by {by} and pushed to {version.get_string_custom_property('pushed_destination')}"

    def _blessing(self, root: Path, by: str, why: str) -> standard_artifacts.ModelBlessing:
        moment = datetime.now().astimezone()
        blessing = standard_artifacts.ModelBlessing()
        blessing.uri = str(root / BLESS / "blessing" / f"{moment:%Y%m%dT%H%M%S%f}")
        blessing.set_int_custom_property("blessed", 1)
        blessing.set_string_custom_property("current_model", self.model.uri)
        blessing.set_int_custom_property("current_model_id", self.model.id)
        said = {"by": by, "why": why, "at": moment.isoformat(timespec="seconds"), "refused_for": self.reasons}
        for name, value in said.items():
            blessing.set_string_custom_property(name, value)
        baseline = self._taken["blessing"][0].get_string_custom_property("baseline_model")
        if baseline:
            blessing.set_string_custom_property("baseline_model", baseline)
        os.makedirs(blessing.uri)
        Path(blessing.uri, "BLESSED").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        return blessing

    def _record(self, node: str, execution_type: str, inputs: Artifacts, outputs: Artifacts) -> None:
        name = self._loaded.config.name
        contexts = [
            context_lib.register_context_if_not_exists(self._handle, kind, context)
            for kind, context in (
                (constants.PIPELINE_CONTEXT_TYPE_NAME, name),
                (constants.NODE_CONTEXT_TYPE_NAME, compiler_utils.node_context_name(name, node)),
            )
        ]
        for artifact in (a for artifacts in outputs.values() for a in artifacts):
            artifact.mlmd_artifact.state = proto.Artifact.LIVE
        execution = execution_lib.prepare_execution(
            self._handle,
            proto.ExecutionType(name=execution_type),
            proto.Execution.COMPLETE,
            exec_properties=self._properties() if node == _PUSHER else None,
        )
        execution_lib.put_execution(self._handle, execution, contexts, inputs, outputs)

    def _properties(self) -> dict[str, str | int]:
        """Returns the parameters of the Pusher that refused it."""
        return {
            name: value
            for name, value in properties_of(self._execution).items()
            if name in ("target", "keep", "evaluated")
        }


def _number(taken: Artifacts) -> str:
    return taken["model"][0].uri.rstrip("/").rpartition("/")[2]


def _who() -> str:
    """Returns the user and the machine, as `ann@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
