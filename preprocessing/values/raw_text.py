"""How raw text is read: stated once by the source, and the same at ingest, in plans and in predictions."""

from collections.abc import Mapping

from fullpass.preprocessing.spec import Spec


class RawText(Spec):
    """What decides which value a text is; of sources without text, what decides which values are missing.

    missing: texts that mean missing, in every column. missing_in: further ones by column. strip: drop blanks around
    cells, before missing texts are compared. decimal: what stands before the decimals of a number.
    """

    missing: tuple[str, ...] = ("",)
    missing_in: Mapping[str, tuple[str, ...]] = {}
    strip: bool = False
    decimal: str = "."

    def missing_of(self, column: str) -> tuple[str, ...]:
        """Returns the texts that mean missing in one column."""
        return (*self.missing, *self.missing_in.get(column, ()))
