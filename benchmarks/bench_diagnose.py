"""Does what `fullpass diagnose` recommends give what it promised? Seven trainings, each slow in one planted way.

    python -m benchmarks.bench_diagnose [--cases 'slow disk' 'tiny files'] [--seconds 40] [--repeat 2]

Each case is a pipeline of its own, run to Transform. `diagnose --apply` names a stage, promises a gain and writes the
setting into the YAML; where that has records written anew, the pipeline is run again. Then the training as it was and
the training as it is now are measured in turn, each in a process of its own, so that what else the machine does meets
both. Reached is the second by the first; the median of the turns counts. A batch size counts where nothing else helps,
as with a heavy model.
"""

import argparse
import io
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from benchmarks.bench_images import photo
from benchmarks.common import ROOT, machine, run_json, time_command, write_results

WIDTH = 512
WITHIN = 0.3
_WIDTH = 150
FUNCTIONS = '''"""A function that takes its time: of every number thousands of sines, and little memory."""

import tensorflow as tf


def slow(columns):
    angles = columns["x0"][:, tf.newaxis] * tf.range(1.0, 201.0)
    for _ in range(80):
        angles = tf.sin(3.0 * angles)
    return tf.reduce_mean(angles, axis=1)
'''


@dataclass(frozen=True)
class Case:
    """A pipeline with one thing wrong.

    Attributes:
        stage: that ought to be named.
        rows: of the data.
        features: besides the plain ones.
        sections: of the YAML, over those that all cases share.
        files: that the train split is written anew in, by hand; 0 leaves it.
        gzip: these files.
        sleep: microseconds that every file takes for a record.
        batch_size: apply a batch size too: nothing else helps.
    """

    stage: str
    rows: int
    features: Mapping[str, object] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    files: int = 0
    gzip: bool = False
    sleep: int = 0
    batch_size: bool = False


_VECTOR = {"v": {"type": "vector", "column": "v", "width": WIDTH, "transforms": []}}
_SLOW = {"slow": {"type": "custom", "function": "functions:slow", "columns": {"x0": "number"}, "compute_at": "input"}}
_PHOTO = {"photo": {"type": "image", "size": [16, 16], "encoder": {"cnn": {"width": 8}}}}
_STREAMED = {"cache": "none"}
CASES = {
    "slow map": Case("transform", 30_000, _SLOW, {"input": {**_STREAMED, "compute_at": "input"}}),
    "gzip, one file": Case(
        "decompress",
        20_000,
        _VECTOR,
        {"input": _STREAMED, "data": {"records": {"compression": "gzip"}}},
        files=1,
        gzip=True,
    ),
    "tiny files": Case("open", 30_000, sections={"input": _STREAMED, "data": {"records": {"shard_mb": 1}}}, files=3000),
    "one reader": Case("read", 8_000, sections={"input": {**_STREAMED, "readers": 1}}, files=8, sleep=250),
    "slow disk": Case("read", 8_000, sections={"input": _STREAMED}, files=1, sleep=250),
    "photographs": Case(
        "transform",
        1_200,
        _PHOTO,
        {"input": _STREAMED, "model": {"kind": "mlp", "hidden": [16]}, "training": {"epochs": 5, "batch_size": 64}},
    ),
    "heavy model": Case(
        "model",
        4_000,
        sections={
            "model": {"kind": "mlp", "hidden": [1500, 1500], "members": 1},
            # So small that an update is as dear as its gradient: what larger batches spare.
            "training": {"epochs": 5, "batch_size": 32},
        },
        batch_size=True,
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What a diagnosis promised, and what came of it.

    Attributes:
        case: name.
        bound: as found.
        stage: as found.
        expected: stage that was planted.
        changes: written into the YAML.
        promised: times as many examples per second.
        before: what each turn measured of the training as it was, `trained` of diagnose_side.
        after: the same of the training as it is now, in the same turns.
        found: all that the diagnosis said.
    """

    case: str
    bound: str
    stage: str
    expected: str
    changes: Mapping[str, object]
    promised: float
    before: list[dict[str, float]]
    after: list[dict[str, float]]
    found: Mapping[str, object]

    @property
    def reached(self) -> float:
        turns = zip(self.before, self.after, strict=True)
        return statistics.median(after["per_second"] / before["per_second"] for before, after in turns)

    @property
    def share(self) -> float:
        """What was reached of what was promised; 1 is all of it."""
        return self.reached / self.promised


def write_pipeline(case: Case, folder: Path) -> Path:
    """Writes the data, the functions and the YAML of a case, and returns the YAML."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    numbers = {f"x{i}": random.normal(size=case.rows).astype("float32") for i in range(8)}
    columns: dict[str, object] = {**numbers, "kind": random.choice(list("abcdefgh"), case.rows)}
    if "v" in case.features:
        values = pa.array(random.normal(size=case.rows * WIDTH).astype("float32"))
        columns["v"] = pa.ListArray.from_arrays(np.arange(0, len(values) + 1, WIDTH, dtype="int32"), values)
    if "photo" in case.features:
        columns["photo"] = [_jpeg(random) for _ in range(case.rows)]
    columns["y"] = (numbers["x0"] + random.normal(size=case.rows) > 0).astype("int64")
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    (folder / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    given = {
        "name": "planted",
        "data": {
            "source": {"format": "parquet", "path": "rows.parquet"},
            "split": {"method": "random", "ratios": {"train": 99, "eval": 1}},
            **case.sections.get("data", {}),
        },
        "label": {"name": "y", "task": "binary"},
        "features": {**dict.fromkeys(numbers, "number"), "kind": "category", **case.features},
        "model": "linear",
        "training": {"epochs": 5, "batch_size": 512},
        "evaluation": {"metrics": ["auc"], "thresholds": {"auc": {"min": 0.5}}},
        **{name: section for name, section in case.sections.items() if name != "data"},
    }
    file = folder / "pipeline.yaml"
    with file.open("w", encoding="utf-8") as opened:
        YAML().dump(given, opened)
    return file


def _jpeg(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    photo(random, (480, 640)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


@dataclass(frozen=True)
class Planted:
    """A case on disk, run to Transform.

    Attributes:
        case: what was planted.
        work: folder of all that belongs to it.
    """

    case: Case
    work: Path

    @property
    def file(self) -> Path:
        """The YAML."""
        return self.work / "pipeline/pipeline.yaml"

    @property
    def root(self) -> Path:
        """Of its run."""
        return self.work / "root"

    def run(self, root: Path, log: str) -> None:
        """Runs the pipeline to Transform."""
        command = ["-m", "fullpass", "run", str(self.file), "--root", str(root), "--to", "Transform"]
        time_command([sys.executable, *command], log=self.work / log)

    def side(self, what: str, *options: str, log: str, yaml: Path | None = None, root: Path | None = None) -> dict:
        """Returns what diagnose_side prints."""
        given = [str(yaml or self.file), f"--root={root or self.root}", f"--sleep={self.case.sleep}", *options]
        return run_json([sys.executable, "-m", "benchmarks.diagnose_side", what, *given], log=self.work / log)


def plant(case: Case, work: Path) -> Planted:
    """Writes a pipeline, runs it to Transform and writes its files anew if the case has that."""
    write_pipeline(case, work / "pipeline")
    planted = Planted(case, work)
    planted.run(planted.root, "run.log")
    if case.files:
        planted.side("spread", f"--files={case.files}", *["--gzip"] * case.gzip, log="spread.log")
    return planted


def examine(name: str, planted: Planted, seconds: float, repeat: int) -> Outcome:
    """Diagnoses, applies, and measures the training as it was and as it is now."""
    case, was = planted.case, planted.file.with_name("was.yaml")
    was.write_bytes(planted.file.read_bytes())
    apply = ["--apply", "--batch-size"] if case.batch_size else ["--apply"]
    found = planted.side("diagnose", f"--seconds={seconds}", *apply, log="diagnose.log")
    changes = found["applied"]
    promised = next(trial["gain"] for trial in found["trials"] if trial["changes"] == changes) if changes else 1.0
    now = planted.root
    if any(path.startswith("data.records.") or path.endswith(".compute_at") for path in changes):
        now = planted.work / "root_now"
        planted.run(now, "run_again.log")
    before, after = [], []
    for turn in range(repeat if changes else 0):
        before.append(planted.side("train", log=f"before-{turn}.log", yaml=was))
        after.append(planted.side("train", log=f"after-{turn}.log", root=now))
    return Outcome(name, found["bound"], found["stage"], case.stage, changes, promised, before, after, found)


def show(outcomes: list[Outcome], console: Console) -> None:
    host = machine()
    table = Table(title="planted, diagnosed, applied", caption=f"{host['cpu']}, {host['cores']} cores")
    for heading in ("case", "named", "written into the YAML"):
        table.add_column(heading)
    for heading in (
        "before, examples/s",
        "after",
        "wait, before",
        "after",
        "promised",
        "reached",
        "reached / promised",
    ):
        table.add_column(heading, justify="right")
    for found in outcomes:
        stage = found.stage if found.stage == found.expected else f"{found.stage} (not {found.expected})"
        changes = "\n".join(f"{path}: {value}" for path, value in found.changes.items()) or "nothing"
        figures = [""] * 7
        if found.changes:
            gains = (f"{gain:.2f}" for gain in (found.promised, found.reached, found.share))
            waits = (f"{statistics.median(t['wait'] for t in turns):.0%}" for turns in (found.before, found.after))
            figures = [_speed(found.before), _speed(found.after), *waits, *gains]
        table.add_row(found.case, stage, changes, *figures)
    console.print(table)


def _speed(turns: list[dict[str, float]]) -> str:
    return f"{statistics.median(turn['per_second'] for turn in turns):,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seconds", type=float, default=40.0, help="for each diagnosis")
    parser.add_argument("--repeat", type=int, default=2, help="turns, of which the median counts")
    parser.add_argument("--keep", type=Path, help="folder that keeps what is written")
    arguments = parser.parse_args()
    console = Console(width=max(Console().width, _WIDTH))
    outcomes = []
    for name in arguments.cases:
        with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
            work = (arguments.keep or Path(temporary)).resolve() / name.replace(" ", "_").replace(",", "")
            outcomes.append(examine(name, plant(CASES[name], work), arguments.seconds, arguments.repeat))
        show(outcomes[-1:], console)
    show(outcomes, console)
    within = [found for found in outcomes if found.changes and abs(found.share - 1) <= WITHIN]
    console.print(f"within {WITHIN:.0%} of what was promised: {len(within)} of {len(outcomes)}")
    details: dict[str, object] = {
        "cases": [
            asdict(found) | ({"reached": found.reached, "share": found.share} if found.changes else {})
            for found in outcomes
        ]
    }
    console.print(f"written to {write_results('diagnose', [], details).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
