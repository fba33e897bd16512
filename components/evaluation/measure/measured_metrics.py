"""The metrics of an evaluation as a JSON file, which can be read without TensorFlow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fullpass.base.errors import UserError
from fullpass.base.json_text import Number, read_parsed, to_json_text

FILE = "measured.json"
ALWAYS_MEASURED = "example_count"


@dataclass(frozen=True)
class MeasuredRows:
    """The metrics of some rows.

    Attributes:
        keys: The columns of the slice and their shared values, as text; empty for all rows.
        baseline: Metric -> value of the last blessed model, if one was compared.
        errors: Metric -> standard error of the value; NaN if it is unknown.
        difference_errors: Metric -> standard error of the difference between the new and the last blessed model.
        unsliced: Of all rows, the entries of `evaluation.slices` that have too many slices to be measured.
        doubt: Of all rows, why the model is no better than the simple reference or a baseline beyond chance; "" if it
            is.
        baselines: Of all rows, how each baseline of a forecast compares with the model, as text for people.
        not_compared: Metric -> why its two values do not compare, or why the last blessed model was not measured.
        uncounted: Metric -> why it is computed on no rows at all.
    """

    keys: tuple[tuple[str, str], ...]
    values: Mapping[str, Number]
    baseline: Mapping[str, Number] = field(default_factory=dict)
    newest: bool = False
    errors: Mapping[str, Number] = field(default_factory=dict)
    difference_errors: Mapping[str, Number] = field(default_factory=dict)
    unsliced: tuple[tuple[str, ...], ...] = ()
    doubt: str = ""
    baselines: tuple[str, ...] = ()
    not_compared: Mapping[str, str] = field(default_factory=dict)
    uncounted: Mapping[str, str] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        """Number of rows with a label and a weight above 0."""
        return int(self.values.get(ALWAYS_MEASURED, 0))


def measured_json(measured: Sequence[MeasuredRows]) -> str:
    """Returns the content of `measured.json`; a value that is undefined is null."""
    return to_json_text([vars(rows) for rows in measured])


def read_measured(evaluation_uri: str) -> Sequence[MeasuredRows]:
    """Returns all metrics of an evaluation.

    Raises:
        UserError: The evaluation has no `measured.json`.
    """
    measured = read_parsed(list[MeasuredRows], f"{evaluation_uri}/{FILE}")
    if measured is None:
        raise UserError(f"{evaluation_uri}: no {FILE}. Run the pipeline again.")
    return measured


def text_of(value: bytes | float) -> str:
    """Returns the value of a raw column as readable text; different float32 numbers have different texts.

    Example:
        >>> text_of(1234567.0), text_of(float(np.float32(0.1)))
        ('1234567', '0.1')
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    number = np.float32(value)
    # NumPy 1 and 2 choose scientific notation from different numbers on.
    plain = number == 0 or 1e-4 <= abs(number) < 1e16
    return np.format_float_positional(number, trim="-") if plain else str(number)
