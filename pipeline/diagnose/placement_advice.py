"""Recommends where to compute the features, from the measured cost of each placement."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from fullpass.base.json_text import to_json_text
from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.diagnosis_report import aligned
from fullpass.trainer.diagnosis.placements import LATENCY_BATCH, PlacementCost

MIXTURE = "as written"
"""The name of the placement in the YAML, if it mixes several."""
_CLOSE = 0.05


@dataclass(frozen=True)
class Measurements:
    """The measurements of all placements on a sample.

    Attributes:
        rows: The rows of the sample.
        train_rows: The rows of its train split.
        total: The rows of all data, as far as known.
        batch_size: The batch size of training.
        epochs: The most epochs of training.
        analysis_seconds: The time of the full pass over the sample, the same for all placements.
        gpu: Whether training uses a GPU.
        costs: The cost of each placement.
    """

    rows: int
    train_rows: int
    total: int
    batch_size: int
    epochs: int
    analysis_seconds: float
    gpu: bool
    costs: tuple[PlacementCost, ...]


@dataclass(frozen=True)
class Comparison:
    """The measurements on the sample, and the estimate for all data.

    Attributes:
        measured: The measurements.
        run_seconds: The estimated time to write, read and train on all data, by placement.
        recommended: The recommended placement.
        advice: The recommendation in words, with the reason.
    """

    measured: Measurements
    run_seconds: Mapping[str, float]
    recommended: str
    advice: str


def compare(measured: Measurements) -> Comparison:
    """Returns the estimates for all data, and the recommended placement.

    It is the one with the shortest estimated run; of those within 5%, the one that writes least.
    """
    seconds = {cost.compute_at: _seconds(cost, measured) for cost in measured.costs}
    close = [cost for cost in measured.costs if seconds[cost.compute_at] <= min(seconds.values()) * (1 + _CLOSE)]
    best = min(close, key=lambda cost: (cost.written_bytes, seconds[cost.compute_at]))
    advice = "\n".join(_advice(best, measured, seconds))
    return Comparison(measured, seconds, best.compute_at, advice)


def table(comparison: Comparison) -> str:
    """Returns the comparison as lines for people."""
    m = comparison.measured
    head = (
        f"{m.rows:,} rows measured, {m.train_rows:,} of them to train on, in batches of {m.batch_size:,}, on "
        f"{usable_cores()} cores and {'a' if m.gpu else 'no'} GPU. The analysis of the sample took "
        f"{m.analysis_seconds:.1f} s, whatever the placement."
    )
    lines = [["", *(cost.compute_at for cost in m.costs)]]
    lines += [[title, *(cell(cost) for cost in m.costs)] for title, cell in _ROWS]
    whole = f"run over {m.total:,} rows, {m.epochs} epochs, s"
    lines.append([whole, *(f"{comparison.run_seconds[cost.compute_at]:,.0f}" for cost in m.costs)])
    return "\n".join([head, "", *aligned(lines), "", comparison.advice])


def report_json(comparison: Comparison) -> str:
    """Returns the comparison as JSON text."""
    return to_json_text(asdict(comparison), indent=2)


_ROWS: tuple[tuple[str, Callable[[PlacementCost], str]], ...] = (
    ("written to disk, MB", lambda c: f"{c.written_bytes / 1e6:,.2f}"),
    ("to begin writing, s", lambda c: f"{c.start_seconds:,.1f}"),
    ("to write a million rows, s", lambda c: f"{c.seconds_per_row * 1e6:,.0f}"),
    ("read per epoch, MB", lambda c: f"{c.read_bytes / 1e6:,.2f}"),
    ("input from files, examples/s", lambda c: f"{c.streamed:,.0f}"),
    ("taken by rows that are kept, MB", lambda c: f"{c.memory_bytes / 1e6:,.2f}"),
    ("all train rows are kept in", lambda c: "nothing" if c.kept == "files" else c.kept),
    ("input from there, examples/s", lambda c: f"{c.later:,.0f}"),
    ("training step, ms", lambda c: f"{c.step_ms:,.2f}"),
    ("request of 1 row, p50 ms", lambda c: f"{c.row_ms:,.2f}"),
    (f"request of {LATENCY_BATCH} rows, p50 ms", lambda c: f"{c.batch_ms:,.2f}"),
)


def _seconds(cost: PlacementCost, measured: Measurements) -> float:
    """Returns the estimated time to write, read and train on all data."""
    step = cost.step_ms / 1000 / measured.batch_size
    first = _per_row(cost.streamed, step, gpu=measured.gpu)
    later = _per_row(cost.later, step, gpu=measured.gpu)
    write = cost.start_seconds + cost.seconds_per_row * measured.total if cost.written_bytes else 0.0
    train_rows = measured.train_rows * measured.total / measured.rows
    return write + train_rows * (first + (measured.epochs - 1) * later)


def _per_row(examples_per_second: float, step: float, *, gpu: bool) -> float:
    """Returns seconds per row: a GPU trains while the CPU reads; a CPU alternates."""
    read = 1 / examples_per_second
    return max(read, step) if gpu else read + step


def _advice(best: PlacementCost, measured: Measurements, seconds: Mapping[str, float]) -> list[str]:
    name = best.compute_at
    to_write = "keep each `compute_at` of the YAML" if name == MIXTURE else f"`input: {{compute_at: {name}}}`"
    took = f"{seconds[name]:,.0f} s for {measured.epochs} epochs, writing included"
    lines = [f"Advice: {to_write}. {_reason(best)}: {took}."]
    for cost in measured.costs:
        if cost is not best:
            more = (cost.written_bytes - best.written_bytes) / 1e6
            disk = f", and {abs(more):,.2f} MB {'more' if more > 0 else 'less'} on disk" if more else ""
            lines.append(
                f"  {cost.compute_at}: {seconds[cost.compute_at] / seconds[best.compute_at]:.2f} times as long{disk}"
            )
    return lines


def _reason(best: PlacementCost) -> str:
    if best.compute_at == "transform":
        return "Computing the features once and reading them in every epoch is the shortest"
    if best.compute_at == "input" and best.kept != "files":
        return f"The rows are kept in {best.kept}, so the features are also computed once, and nothing is written"
    if best.compute_at == "input":
        return "Computing the features anew in every epoch costs less than writing and reading them"
    if best.compute_at == "model":
        return "Computing the features in the training step costs less than writing or transferring them"
    return "It is the shortest, with each feature where it costs least"
