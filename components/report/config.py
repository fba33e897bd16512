"""`card` of the YAML: what people say of a model, and what its card tells from the YAML."""

from fullpass.preprocessing.spec import Name, Spec


class CardConfig(Spec):
    """What the model card says beside the facts of the run."""

    owner: Name | None = None
    """Who answers for the model: a person, a team or an address."""
    intended_use: Name | None = None
    """What its predictions are for."""
    not_for: Name | None = None
    """What they must not be used for."""


class CardFacts(CardConfig):
    """The same, with facts of the other sections.

    Attributes:
        formula: The expression of a derived label; empty for a raw column.
        columns: The raw columns that a request contains.
    """

    formula: str = ""
    columns: tuple[str, ...] = ()
