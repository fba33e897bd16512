"""The base class of all feature types."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, model_validator

from fullpass.preprocessing.dates.date_format import compile_format
from fullpass.preprocessing.expressions.number_text import wrong_like
from fullpass.preprocessing.features.output import Output, dense_output
from fullpass.preprocessing.spec import Name, Spec


def _accepted_example(like: str) -> str:
    if wrong := wrong_like(like):
        raise ValueError(f"must be {wrong}. Received: {like!r}.")
    return like


ComputeAt = Literal["transform", "input", "model"]
"""transform: once, when examples are written. input: on the raw columns, by the input function of training. model: on
the raw columns, in the training step itself."""
WrittenNumberFormat = Annotated[Name, AfterValidator(_accepted_example)]
WrittenDateFormat = Annotated[Name, AfterValidator(lambda text: compile_format(text).text)]


class BaseFeature(Spec):
    """The common fields of all features: type, input column, and where the feature is computed.

    A new type is a class, a line in the union `Feature`, and the function that computes it.
    """

    example: ClassVar[str]
    """Entries of `features:` for the reference pages."""
    computed_by: ClassVar[str]
    """The function of `preprocessing/apply/` from (name, feature, columns) to the tensors of `outputs`, as
    `file.function`. Numbers may still be a `Quantity`, and categories with a vocabulary `TokenIds`."""
    column_holds: ClassVar[Literal["number", "string", "token", "image"]] = "string"
    """What its column holds; a token is a text, or a number converted to text."""

    type: str
    column: Name | None = None
    """Raw or derived column; null: the feature's name."""
    compute_at: ComputeAt | None = None
    """Where it is computed (docs/placement.md); null: `input.compute_at`."""

    @model_validator(mode="before")
    @classmethod
    def _bare_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    def column_types(self, name: str) -> dict[str, str]:
        """Returns raw or derived column -> type, for the columns that the feature of this name reads.

        The type is number, string, vector, image, or token (text, or a number converted to text).
        """
        return {self.column or name: self.column_holds}

    def vector_size(self) -> int:
        """Returns the number of values of a column that is a vector."""
        return 1

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields the transformed features of the feature of this name."""
        yield dense_output(name)

    def not_crossed(self, name: str) -> str | None:
        """Returns why the feature of this name, of one value per row, cannot be crossed; None if it has ids."""
        return f"{name} is a {self.type}. Accepted: category, boolean, bucketized number, part of a date."
