"""Options for parsing raw text: declared once in the source, and used by ingest, plans and predictions alike."""

from collections.abc import Mapping

from fullpass.preprocessing.spec import Spec


class RawText(Spec):
    """Options that determine the value of a text; for sources without text, options that determine missing values.

    missing: texts that mean missing, in every column. missing_in: further such texts, by column. strip: strip blanks
    around cells before the comparison with missing texts. decimal: decimal separator of numbers.
    """

    missing: tuple[str, ...] = ("",)
    missing_in: Mapping[str, tuple[str, ...]] = {}
    strip: bool = False
    decimal: str = "."

    def missing_of(self, column: str) -> tuple[str, ...]:
        """Returns the texts that mean missing in one column."""
        return (*self.missing, *self.missing_in.get(column, ()))
