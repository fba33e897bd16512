"""Which model a new one follows: its ids, its weights and what it is compared with."""

from pathlib import Path

from tfx import types
from tfx.dsl.components.common import resolver

from components.described import description
from components.push import rolled_back_origins


class LastBlessedModel(resolver.ResolverStrategy):
    """Resolves the newest blessed model that was made from something else than the one about to be made.

    So a run that changes nothing finds the same model as the run that it repeats, and repeats nothing; and a model
    never follows itself. Left out are models that were rolled back and not brought back, and those whose files are
    gone. Without any the result is empty.
    """

    def __init__(self, made_from: str, target: str):
        """Takes what the new model is made from, as `made_from` of an export says, and the folder of pushed models."""
        self._made_from = made_from
        self._target = Path(target)

    def resolve_artifacts(
        self, store: object, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns `model` and `model_blessing` of the last blessed model.

        Args:
            store: the metadata store; all that is needed has been looked up already.
            input_dict: every known `model` and `model_blessing`.
        """
        models = {model.id: model for model in input_dict["model"]}
        away = rolled_back_origins(self._target)
        # A model that was blessed by a person counts from then on: by its blessing, not by its own age.
        for blessing in sorted(input_dict["model_blessing"], key=lambda found: found.id, reverse=True):
            model = models.get(blessing.get_int_custom_property("current_model_id"))
            if model is None or not blessing.get_int_custom_property("blessed") or model.uri in away:
                continue
            said = description(model.uri)
            if said is not None and said.get("made_from") != self._made_from:
                return {"model": [model], "model_blessing": [blessing]}
        return {"model": [], "model_blessing": []}
