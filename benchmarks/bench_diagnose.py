"""Compares the gain that `fullpass diagnose` promises with the gain reached, on six planted bottlenecks.

    python -m benchmarks.bench_diagnose [--cases 'slow disk' 'tiny files'] [--seconds 40] [--repeat 2]

Each case is a separate pipeline, run to Transform. `diagnose` names a stage and recommends a setting with a gain, which
is written into the YAML. If the setting requires new records, the pipeline runs again. Then the training with the old
YAML and the training with the new YAML are measured alternately, each in its own process, so that other load on the
machine affects both. The reached gain is the new rate divided by the old rate, as the median over the turns.
"""

import argparse
import io
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.bench_images import photo
from benchmarks.common import FULLPASS, machine, run_json, table_of, time_command, write_results, write_yaml

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
    """A pipeline with one planted bottleneck.

    Attributes:
        stage: The stage that the diagnosis should name.
        rows: Number of rows of the data.
        features: Features in addition to the plain ones.
        sections: YAML sections that override those shared by all cases.
        files: Number of files into which the train split is rewritten; 0 leaves the split unchanged.
        gzip: Whether the rewritten files are gzipped.
        sleep: Delay per record of each file, in microseconds.
    """

    stage: str
    rows: int
    features: Mapping[str, object] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    files: int = 0
    gzip: bool = False
    sleep: int = 0


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
}


@dataclass(frozen=True)
class Outcome:
    """The promised and the measured gain of a diagnosis.

    Attributes:
        case: Name of the case.
        bound: The bound that the diagnosis found.
        stage: The stage that the diagnosis found.
        expected: The planted stage.
        changes: Settings written into the YAML.
        promised: Promised ratio of examples per second, new to old.
        before: Measurements with the old YAML, one per turn, as `trained` of diagnose_side returns them.
        after: The same with the new YAML, in the same turns.
        found: The whole diagnosis as JSON.
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
        """The reached gain divided by the promised gain."""
        return self.reached / self.promised


def write_pipeline(case: Case, folder: Path) -> Path:
    """Writes the data, the functions and the YAML of a case, and returns the path of the YAML."""
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
    return write_yaml(folder / "pipeline.yaml", given)


def _jpeg(random: np.random.Generator) -> bytes:
    stream = io.BytesIO()
    photo(random, (480, 640)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


@dataclass(frozen=True)
class Planted:
    """A case on disk, run to Transform.

    Attributes:
        case: The case.
        work: Folder of all its files.
    """

    case: Case
    work: Path

    @property
    def file(self) -> Path:
        """The path of the YAML."""
        return self.work / "pipeline/pipeline.yaml"

    @property
    def root(self) -> Path:
        """The pipeline root of its run."""
        return self.work / "root"

    def run(self, root: Path, log: str) -> None:
        """Runs the pipeline to Transform."""
        command = [*FULLPASS, "run", str(self.file), "--root", str(root), "--to", "Transform"]
        time_command(command, log=self.work / log)

    def side(self, what: str, *options: str, log: str, yaml: Path | None = None, root: Path | None = None) -> dict:
        """Returns the JSON object that diagnose_side prints."""
        given = [str(yaml or self.file), f"--root={root or self.root}", f"--sleep={self.case.sleep}", *options]
        return run_json([sys.executable, "-m", "benchmarks.diagnose_side", what, *given], log=self.work / log)


def plant(case: Case, work: Path) -> Planted:
    """Writes a pipeline, runs it to Transform, and rewrites its train split if the case requests it."""
    write_pipeline(case, work / "pipeline")
    planted = Planted(case, work)
    planted.run(planted.root, "run.log")
    if case.files:
        planted.side("spread", f"--files={case.files}", *["--gzip"] * case.gzip, log="spread.log")
    return planted


def examine(name: str, planted: Planted, seconds: float, repeat: int) -> Outcome:
    """Diagnoses a case, writes the recommended settings, and measures the training with the old and the new YAML."""
    case, was = planted.case, planted.file.with_name("was.yaml")
    was.write_bytes(planted.file.read_bytes())
    found = planted.side("diagnose", f"--seconds={seconds}", log="diagnose.log")
    changes = found["recommended"]
    write_yaml(planted.file, changed(YAML(typ="safe").load(was), changes))
    promised = next(trial["gain"] for trial in found["trials"] if trial["changes"] == changes) if changes else 1.0
    now = planted.root
    if any(path.startswith("data.records.") for path in changes):
        now = planted.work / "root_now"
        planted.run(now, "run_again.log")
    before, after = [], []
    for turn in range(repeat if changes else 0):
        before.append(planted.side("train", log=f"before-{turn}.log", yaml=was))
        after.append(planted.side("train", log=f"after-{turn}.log", root=now))
    return Outcome(name, found["bound"], found["stage"], case.stage, changes, promised, before, after, found)


def changed(tree: Mapping[str, Any], changes: Mapping[str, object]) -> Mapping[str, Any]:
    """Returns a YAML with new values at some paths; a name of a feature contains no dot here."""
    for path, value in changes.items():
        first, _, rest = path.partition(".")
        tree = {**tree, first: changed(tree.get(first, {}), {rest: value}) if rest else value}
    return tree


def show(outcomes: list[Outcome], console: Console) -> None:
    host = machine()
    words = ("case", "named", "written into the YAML")
    figures_of = ("before, examples/s", "after", "wait, before", "after", "promised", "reached", "reached / promised")
    caption = f"{host['cpu']}, {host['cores']} cores"
    table = table_of("planted, diagnosed, written", words, figures_of, caption=caption)
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
    parser.add_argument("--seconds", type=float, default=40.0, help="seconds per diagnosis")
    parser.add_argument("--repeat", type=int, default=2, help="number of turns; the median counts")
    parser.add_argument("--keep", type=Path, help="keep all files in this folder")
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
    write_results("diagnose", [], details)


if __name__ == "__main__":
    main()
