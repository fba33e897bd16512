"""What differs between two sides, such as splits or sources, by the data gate's measure and limits."""

from collections.abc import Collection, Mapping

from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import GateVerdict
from fullpass.components.data_gate.judge import judge_span
from fullpass.components.data_gate.series import LABEL, Series
from fullpass.components.data_gate.span_summary import SpanSummary
from fullpass.pipeline.authoring.data_page.cells import Cells

Side = Mapping[str, Cells]
"""Column -> its cells on one side; all columns have the same number of rows."""


def compare_sides(
    before: tuple[str, Side],
    now: tuple[str, Side],
    gates: GatesConfig,
    *,
    label: str,
    ignored: Collection[str] = (),
    looks: int = 1,
) -> GateVerdict:
    """Returns what differs in the columns that both sides have, the largest difference first.

    Numbers of rows are not compared, since those of a sample say nothing, and neither are dates, which always advance.

    Args:
        before, now: Name and cells of each side.
        label: The column of the label, which has limits of its own.
        ignored: Checks of the gate that do not apply.
        looks: As in `judge_span`.
    """
    names = [name for name, cells in before[1].items() if name in now[1] and cells.reading.what != "date"]
    series = [
        Series(
            f"{LABEL} {name}" if name == label else name,
            name,
            "token" if before[1][name].numbers is None else "number",
        )
        for name in names
    ]
    sides = [
        SpanSummary(number, side, "", _rows(cells), {one.name: cells[one.column].distribution for one in series})
        for number, (side, cells) in enumerate((before, now))
    ]
    checks = {name: gates.checks[name].model_copy(update={"policy": "ignore"}) for name in ("rows", *ignored)}
    return judge_span(sides[1], [], [sides[0]], series, gates.model_copy(update=checks), looks=looks)


def _rows(cells: Side) -> int:
    return max((one.values.rows for one in cells.values()), default=0)
