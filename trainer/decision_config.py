"""`evaluation.decision` of the YAML: by which rule the threshold of a binary model is chosen. No TensorFlow here."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Spec

_Positive = Annotated[float, Field(gt=0)]


class Cost(Spec):
    """The costs of wrong predictions."""

    false_positive: _Positive
    """Cost of a negative row that is predicted positive."""
    false_negative: _Positive
    """Cost of a positive row that is predicted negative."""


class RecallAt(Spec):
    """The precision that a threshold must reach."""

    precision: Annotated[float, Field(gt=0, lt=1)]
    """Smallest precision on the validation rows."""


class DecisionConfig(Spec):
    """The rule that chooses the threshold: one of the keys."""

    metric: Literal["f1", "accuracy", "balanced_accuracy", "mcc"] | None = None
    """Metric that the threshold maximizes."""
    cost: Cost | None = None
    """Costs, in any unit, whose mean the threshold minimizes."""
    recall_at: RecallAt | None = None
    """Of the thresholds that reach a precision, that of the largest recall."""

    @model_validator(mode="after")
    def _one_rule(self) -> "DecisionConfig":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of metric, cost, recall_at. Received: {', '.join(given) or 'none'}.")
        return self

    @property
    def measured(self) -> str:
        """What is measured at the threshold: `f1`, `cost`, or `recall`."""
        return self.metric or ("cost" if self.cost else "recall")
