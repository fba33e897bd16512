"""What each choice of places costs, which of them the figures speak for, and both in words."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from preprocessing.cores import usable_cores

MIXTURE = "as written"
"""The places that the YAML names, where these are several."""
NOWHERE = "nothing"
LATENCY_BATCH = 256
_CLOSE = 0.05


@dataclass(frozen=True)
class Cost:
    """What one choice of places costs, on the sample.

    Attributes:
        place: transform, input, model, or MIXTURE.
        written_bytes: of the transformed examples; 0 if none are written.
        start_seconds: that computing and writing take for any number of rows.
        seconds_per_row: that each row adds.
        read_bytes: that one epoch reads from disk.
        streamed: examples/s of the input from files.
        kept: where the train rows of all data are kept between epochs: memory, disk, or nowhere.
        later: examples/s of the input from the second epoch on, from there.
        memory_bytes: of the train split in memory.
        step_ms: of one update on a batch that is there already, median.
        row_ms: of one request of one row to the export, median.
        batch_ms: of one request of LATENCY_BATCH rows, median.
    """

    place: str
    written_bytes: int
    start_seconds: float
    seconds_per_row: float
    read_bytes: int
    streamed: float
    kept: str
    later: float
    memory_bytes: int
    step_ms: float
    row_ms: float
    batch_ms: float


@dataclass(frozen=True)
class Measured:
    """All choices, measured on a sample.

    Attributes:
        rows: of the sample.
        train_rows: of them, for training.
        total: rows of all data, as far as known.
        batch_size: of training.
        epochs: of training, at most.
        analysis_seconds: of the full pass over the sample, the same for all places.
        gpu: whether a GPU trains.
        costs: of each choice.
    """

    rows: int
    train_rows: int
    total: int
    batch_size: int
    epochs: int
    analysis_seconds: float
    gpu: bool
    costs: tuple[Cost, ...]


@dataclass(frozen=True)
class Comparison:
    """What was measured, and what follows for all of the data.

    Attributes:
        measured: on the sample.
        run_seconds: writing, reading and training with all data, reckoned from the sample, per choice.
        recommended: the choice that the figures speak for.
        advice: the same in words, with the reason.
    """

    measured: Measured
    run_seconds: Mapping[str, float]
    recommended: str
    advice: str


def compare(measured: Measured) -> Comparison:
    """Returns what the figures mean for all of the data.

    Advised is the shortest of the reckoned runs; of those that are about as short, the one that writes least.
    """
    seconds = {cost.place: _seconds(cost, measured) for cost in measured.costs}
    close = [cost for cost in measured.costs if seconds[cost.place] <= min(seconds.values()) * (1 + _CLOSE)]
    best = min(close, key=lambda cost: (cost.written_bytes, seconds[cost.place]))
    advice = "\n".join(_advice(best, measured, seconds))
    return Comparison(measured, seconds, best.place, advice)


def table(comparison: Comparison) -> str:
    """Returns the comparison as lines for people."""
    m = comparison.measured
    head = (
        f"{m.rows:,} rows measured, {m.train_rows:,} of them to train on, in batches of {m.batch_size:,}, on "
        f"{usable_cores()} cores and {'a' if m.gpu else 'no'} GPU. The analysis of the sample took "
        f"{m.analysis_seconds:.1f} s, whatever the places."
    )
    lines = [["", *(cost.place for cost in m.costs)]]
    lines += [[title, *(cell(cost) for cost in m.costs)] for title, cell in _LINES]
    whole = f"run over {m.total:,} rows, {m.epochs} epochs, s"
    lines.append([whole, *(f"{comparison.run_seconds[cost.place]:,.0f}" for cost in m.costs)])
    return "\n".join([head, "", *_aligned(lines), "", comparison.advice])


def report_json(comparison: Comparison) -> str:
    """Returns the comparison as JSON text."""
    return json.dumps(asdict(comparison), indent=2)


_LINES: tuple[tuple[str, Callable[[Cost], str]], ...] = (
    ("written to disk, MB", lambda c: f"{c.written_bytes / 1e6:,.2f}"),
    ("to begin writing, s", lambda c: f"{c.start_seconds:,.1f}"),
    ("to write a million rows, s", lambda c: f"{c.seconds_per_row * 1e6:,.0f}"),
    ("read per epoch, MB", lambda c: f"{c.read_bytes / 1e6:,.2f}"),
    ("input from files, examples/s", lambda c: f"{c.streamed:,.0f}"),
    ("taken by rows that are kept, MB", lambda c: f"{c.memory_bytes / 1e6:,.2f}"),
    ("all train rows are kept in", lambda c: c.kept),
    ("input from there, examples/s", lambda c: f"{c.later:,.0f}"),
    ("training step, ms", lambda c: f"{c.step_ms:,.2f}"),
    ("request of 1 row, p50 ms", lambda c: f"{c.row_ms:,.2f}"),
    (f"request of {LATENCY_BATCH} rows, p50 ms", lambda c: f"{c.batch_ms:,.2f}"),
)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    cells = ([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines)
    return ["  ".join(line).rstrip() for line in cells]


def _seconds(cost: Cost, measured: Measured) -> float:
    """Returns what writing, reading and training take with all of the data."""
    step = cost.step_ms / 1000 / measured.batch_size
    first = _per_row(cost.streamed, step, gpu=measured.gpu)
    later = _per_row(cost.later, step, gpu=measured.gpu)
    write = cost.start_seconds + cost.seconds_per_row * measured.total if cost.written_bytes else 0.0
    train_rows = measured.train_rows * measured.total / measured.rows
    return write + train_rows * (first + (measured.epochs - 1) * later)


def _per_row(examples_per_second: float, step: float, *, gpu: bool) -> float:
    """Returns seconds per row: a GPU trains while the CPU reads, a CPU does one after the other."""
    read = 1 / examples_per_second
    return max(read, step) if gpu else read + step


def _advice(best: Cost, measured: Measured, seconds: Mapping[str, float]) -> list[str]:
    to_write = "keep the places of the YAML" if best.place == MIXTURE else f"`input: {{place: {best.place}}}`"
    took = f"{seconds[best.place]:,.0f} s for {measured.epochs} epochs, writing included"
    said = [f"Advice: {to_write}. {_reason(best)}: {took}."]
    for cost in measured.costs:
        if cost is not best:
            more = (cost.written_bytes - best.written_bytes) / 1e6
            disk = f", and {abs(more):,.2f} MB {'more' if more > 0 else 'less'} on disk" if more else ""
            said.append(f"  {cost.place}: {seconds[cost.place] / seconds[best.place]:.2f} times as long{disk}")
    return said


def _reason(best: Cost) -> str:
    if best.place == "transform":
        return "Computing the features once and reading them in every epoch is the shortest"
    if best.place == "input" and best.kept != NOWHERE:
        return f"The rows are kept in {best.kept}, so the features are computed once there too, and nothing is written"
    if best.place == "input":
        return "Computing the features anew in every epoch costs less than writing and reading them"
    if best.place == "model":
        return "The step computes the features at less cost than writing, or than handing over, what they become"
    return "It is the shortest, with each feature where it costs least"
