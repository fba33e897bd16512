"""What all feature types have in common."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, model_validator

from fullpass.preprocessing.dates.date_format import compile_format
from fullpass.preprocessing.spec import Name, Spec

ComputeAt = Literal["transform", "input", "model"]
"""transform: once, when examples are written. input: on the raw columns, by the input function as training reads them.
model: on the raw columns, in the training step itself."""
WrittenDateFormat = Annotated[Name, AfterValidator(lambda text: compile_format(text).text)]


class BaseFeature(Spec):
    """What every feature has: its type, the column it reads, and where it is computed."""

    example: ClassVar[str]
    """Entries of `features:` for the reference pages."""

    type: str
    column: Name | None = None
    """Raw or derived column read; by default the one with the feature's own name."""
    compute_at: ComputeAt | None = None
    """Where it is computed, see docs/placement.md: transform (once, when examples are written), input (by the input
    function, as training reads), or model (in the training step); by default what `input.compute_at` says. The values
    do not depend on it."""

    @model_validator(mode="before")
    @classmethod
    def _bare_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value
