"""Blesses and pushes a model that the Evaluator refused, on behalf of a person.

The metadata then holds the same records as after a run: an execution that produced a blessing, and an execution of the
Pusher that consumed it. So later runs resolve the model, and `fullpass lineage` names the person, without special
cases.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ml_metadata import proto
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.base.users import user_and_host
from fullpass.components.evaluation.judge.verdict import read_verdict
from fullpass.components.internals.tfx_internals import (
    compiler_utils,
    constants,
    context_lib,
    execution_lib,
    path_utils,
)
from fullpass.components.mlmd_values import properties_of
from fullpass.components.push.component import push_model
from fullpass.components.push.pushed_version import pushed_version
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.root.check import check_root
from fullpass.pipeline.root.layout import RootLayout, served_folder
from fullpass.pipeline.root.locks import run_lock
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata

BLESS = "Bless"
_PUSHER = "Pusher"
_DONE = (proto.Execution.COMPLETE, proto.Execution.CACHED)
Artifacts = Mapping[str, Sequence[types.Artifact]]


def bless(
    loaded: Loaded,
    root: Path,
    *,
    model: str | None,
    force: bool,
    why: str,
    judge: Callable[[str], Sequence[str]] = lambda export: (),
) -> str:
    """Blesses and pushes a model that was evaluated and refused.

    Args:
        model: The number at the end of the model's folder; None is the newest model that was refused.
        force: Whether to bless it. If not, the error gives the reasons of the refusal.
        judge: Returns the reasons why an export may not take the place of the served model.

    Returns:
        A sentence with the person and the pushed version.

    Raises:
        UserError: There is no such model, `force` or `why` is missing, `judge` gives reasons, or a run holds the root.
    """
    metadata = RootLayout(root).metadata
    if not metadata.exists():
        raise UserError(f"{root}: no run so far, so there is no model to bless.")
    served_folder(loaded)  # before a blessing is recorded
    with run_lock(root, what="fullpass bless"):
        check_root(root)
        with LockedMetadata(metadata) as handle:
            refused = _RefusedModel.find(handle, loaded, model)
            if not force:
                raise UserError(
                    f"The model in {refused.model.uri} was not blessed:\n{refused.reasons}\nTo push it anyway: "
                    'fullpass bless --force --why "..."'
                )
            if not why.strip():
                raise UserError('--why is empty. Give the reason to override the thresholds: --why "...".')
            if worse := judge(path_utils.serving_model_path(refused.model.uri)):
                raise UserError(
                    f"The model in {refused.model.uri} does not take the place of the served one:\n"
                    + "\n".join(worse)
                    + "\nTo push it anyway, remove not_worse_than: served from watch.live."
                )
            return refused.bless(root, by=user_and_host(), why=why.strip())


class _RefusedModel:
    """A model that was evaluated and not blessed, and the inputs of its Pusher."""

    def __init__(self, handle: LockedMetadata, loaded: Loaded, execution: proto.Execution, inputs: Artifacts):
        self._handle, self._loaded, self._execution, self._inputs = handle, loaded, execution, inputs
        self.model = inputs["model"][0]

    @classmethod
    def find(cls, handle: LockedMetadata, loaded: Loaded, number: str | None) -> "_RefusedModel":
        """Returns the model with a number, or the one that was refused last and not blessed since."""
        name = loaded.config.name
        node = handle.store.get_context_by_type_and_name(
            constants.NODE_CONTEXT_TYPE_NAME, compiler_utils.node_context_name(name, _PUSHER)
        )
        executions = handle.store.get_executions_by_context(node.id) if node is not None else []
        done = [execution for execution in executions if execution.last_known_state in _DONE]
        judged = [(e, execution_lib.get_input_artifacts(handle, e.id)) for e in sorted(done, key=lambda e: e.id)]
        # The last verdict on a model counts: other thresholds, or another baseline, judge it anew.
        last = {_number(inputs): (execution, inputs) for execution, inputs in judged}
        blessed = {model for model, (_, inputs) in last.items() if _is_blessed(inputs)}
        if number in blessed:
            raise UserError(f"Model {number} was blessed and pushed already.")
        refused = sorted((f for f in last.values() if not _is_blessed(f[1])), key=lambda found: -found[0].id)
        chosen = [found for found in refused if number in (None, _number(found[1]))]
        if not chosen:
            known = ", ".join(dict.fromkeys(_number(inputs) for _, inputs in refused)) or "none"
            what = f"no model {number} was" if number else "no model was"
            raise UserError(f"{name}: {what} evaluated and refused. Refused: {known}.")
        execution, inputs = chosen[0]
        if not fileio.exists(path_utils.serving_model_path(inputs["model"][0].uri)):
            raise UserError(f"The files of the model in {inputs['model'][0].uri} are gone. Train it again.")
        return cls(handle, loaded, execution, inputs)

    @property
    def reasons(self) -> str:
        """The reasons of the refusal, one per line."""
        return "\n".join(read_verdict(self._inputs["evaluation"][0].uri).reasons)

    def bless(self, root: Path, *, by: str, why: str) -> str:
        """Pushes the model, and records the blessing and the push."""
        blessing = self._blessing(root, by, why)
        config = self._loaded.config
        inputs = {**self._inputs, "blessing": [blessing]}
        # The blessing is recorded first. After a crash between the two, a repeated push is better than an unrecorded
        # push.
        evaluated = {name: inputs[name] for name in ("model", "evaluation")}
        self._record(BLESS, f"fullpass.{BLESS}", evaluated, {"blessing": [blessing]})
        version = standard_artifacts.PushedModel()
        version.uri = f"{blessing.uri}/pushed_model"
        target = str(self._loaded.resolve(config.push.to))
        push_model(inputs, version, target, keep=config.push.keep)
        os.makedirs(version.uri)
        self._record(_PUSHER, self._execution.type, inputs, {"pushed_model": [version]})
        pushed = pushed_version(version.get_string_custom_property("pushed_destination"))
        if pushed.not_served:
            return f"Blessed by {by}, but {pushed.not_served}"
        new = version.get_int_custom_property("created")
        return f"Blessed by {by} and {'pushed to' if new else 'served from'} {pushed.folder}"

    def _blessing(self, root: Path, by: str, why: str) -> standard_artifacts.ModelBlessing:
        moment = datetime.now().astimezone()
        blessing = standard_artifacts.ModelBlessing()
        blessing.uri = str(root / BLESS / "blessing" / f"{moment:%Y%m%dT%H%M%S%f}")
        blessing.set_int_custom_property("blessed", 1)
        blessing.set_string_custom_property("current_model", self.model.uri)
        blessing.set_int_custom_property("current_model_id", self.model.id)
        facts = {"by": by, "why": why, "at": moment.isoformat(timespec="seconds"), "refused_for": self.reasons}
        for name, value in facts.items():
            blessing.set_string_custom_property(name, value)
        if baseline := self._inputs["blessing"][0].get_string_custom_property("baseline_model"):
            blessing.set_string_custom_property("baseline_model", baseline)
        os.makedirs(blessing.uri)
        Path(blessing.uri, "BLESSED").write_text(to_json_text(facts, indent=1) + "\n", encoding="utf-8")
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
        # Those of the Pusher that did not push the model.
        parameters = {k: v for k, v in properties_of(self._execution).items() if k in ("target", "keep")}
        execution = execution_lib.prepare_execution(
            self._handle,
            proto.ExecutionType(name=execution_type),
            proto.Execution.COMPLETE,
            exec_properties=parameters if node == _PUSHER else None,
        )
        execution_lib.put_execution(self._handle, execution, contexts, inputs, outputs)


def _is_blessed(inputs: Artifacts) -> bool:
    return bool(inputs["blessing"][0].get_int_custom_property("blessed"))


def _number(inputs: Artifacts) -> str:
    return inputs["model"][0].uri.rstrip("/").rpartition("/")[2]
