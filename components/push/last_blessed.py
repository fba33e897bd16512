"""Finds the last blessed model: the source of stable ids and weights, and the baseline of the evaluation."""

from pathlib import Path

from tfx import types
from tfx.dsl.components.common import resolver

from fullpass.components.push.push import SERVING, rolled_back_origins
from fullpass.trainer.export.export_files import read_description

_DAMAGED = "Put it back from a copy, or remove it; then no run continues from this model."


class LastBlessedModel(resolver.ResolverStrategy):
    """Resolves the newest blessed model whose `made_from` differs from that of the model about to be trained.

    As a result, a run without changes resolves the same model as the previous run and takes all results from the cache,
    and a model is never its own baseline. Models that were rolled back and models whose files no longer exist are
    skipped. If no model remains, the result is empty.
    """

    def __init__(self, made_from: str, target: str):
        """Takes the digest that the new model's export will contain as `made_from`, and the folder of pushed models."""
        self._made_from = made_from
        self._target = Path(target)

    def resolve_artifacts(
        self, store: object, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns `model` and `model_blessing` of the last blessed model, of all in `input_dict`."""
        models = {model.id: model for model in input_dict["model"]}
        rolled_back = rolled_back_origins(self._target)
        # Sorted by the age of the blessing, not of the model: a person may bless a model later.
        for blessing in sorted(input_dict["model_blessing"], key=lambda found: found.id, reverse=True):
            model = models.get(blessing.get_int_custom_property("current_model_id"))
            if model is None or not blessing.get_int_custom_property("blessed") or model.uri in rolled_back:
                continue
            description = read_description(f"{model.uri}/{SERVING}", _DAMAGED)
            if description is not None and description.get("made_from") != self._made_from:
                return {"model": [model], "model_blessing": [blessing]}
        return {"model": [], "model_blessing": []}
