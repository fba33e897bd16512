"""A small pipeline after two runs, and checks of the commands that follow after one of its files is damaged."""

import hashlib
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import Owner

YAML = """\
name: nightly
data:
  source: {format: csv, path: data.csv}
  span: {column: at, unit: day}
  window: {spans: 2}
  split: {method: hash, column: id, ratios: {train: 3, eval: 1}}
  bad_rows: {max_fraction: 0.1}
label: {name: good, task: binary}
features:
  x: number
  zone: {type: category, encoding: {embedding: 2}}
stable_ids: true
model: {kind: mlp, hidden: [4]}
training: {epochs: 1, warm_start: blessed}
input: {cache: disk}
evaluation:
  metrics: [auc]
  thresholds: {auc: {not_worse_than: blessed, tolerance: 1.0}}
push: {to: serving, keep: 5}
"""
NEXT = ("run", "pipeline.yaml", "--span", "2026-01-03")
COMMANDS = (("models", "serving"), ("gc", "--dry-run"), ("rollback", "serving"), NEXT)
QUICK = COMMANDS[:-1]
_NO_SENTENCE = ("Traceback", "is a defect")


def _flipped(data: bytes) -> bytes:
    """Flips one bit at a pseudorandom place that is derived from the content."""
    place = random.Random(data).randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << 2]) + data[place + 1 :]


WAYS: Mapping[str, Callable[[bytes], bytes | None]] = {
    "flipped": _flipped,
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "removed": lambda data: None,
}


def write_rows(folder: Path) -> None:
    """Writes three days with 120 rows and one bad row each."""
    draw = random.Random(5)
    lines = ["id,at,x,zone,good"]
    for day in (1, 2, 3):
        for i in range(120):
            x, zone = draw.gauss(0, 1), draw.choice("abc")
            lines.append(f"{day}-{i},2026-01-0{day},{x:.4f},{zone},{int(x > 0)}")
        lines.append(f"{day}-bad,2026-01-0{day},many,a,1")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Finished:
    """A pipeline folder with its owner, and a copy of the folder after two runs."""

    owner: Owner
    copy: Path

    def state_files(self) -> list[str]:
        """Returns all files that the runs wrote, relative to the folder."""
        found = (path.relative_to(self.copy) for path in self.copy.rglob("*") if path.is_file())
        return sorted(str(name) for name in found if len(name.parts) > 1 and "current" not in name.parts)

    def restore(self) -> None:
        """Restores the folder to its state after the two runs."""
        shutil.rmtree(self.owner.folder)
        shutil.copytree(self.copy, self.owner.folder, symlinks=True)

    def outcome(self) -> dict[str, object]:
        """Returns the results of the newest run: counts, metrics, and digests of the pushed weights and assets."""
        told = self.owner.summary()
        newest = self.owner.versions()[-1]
        kept = [newest / "variables/variables.data-00000-of-00001", *sorted((newest / "assets").iterdir())]
        return {
            **{name: told[name] for name in ("rows", "rows_read", "rows_quarantined", "blessed")},
            "metrics": {name: round(value, 6) for name, value in told["metrics"].items()},
            "pushed": {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:8] for file in kept},
        }

    def complaints(
        self,
        name: str,
        way: str,
        expected: Mapping[str, object],
        commands: Sequence[Sequence[str]] = COMMANDS,
    ) -> list[str]:
        """Damages a file, runs commands, and returns one message per wrong reaction; an empty list if there is none."""
        self.restore()
        file = self.owner.folder / name
        changed = WAYS[way](file.read_bytes()) if file.stat().st_size or way == "removed" else b"x"
        file.unlink() if changed is None else file.write_bytes(changed)
        found, said = [], ""
        for words in commands:
            done = self.owner.run(*words)
            text = done.stdout + done.stderr
            said += text
            if any(mark in text for mark in _NO_SENTENCE) or not 0 <= done.returncode < 70:
                found.append(f"{' '.join(words)}: {done.returncode}: {text[-1500:]}")
            elif done.returncode and not _names(text, name):
                found.append(f"{' '.join(words)} fails and does not name the file: {text[-1500:]}")
        if commands[-1] == NEXT and done.returncode == 0 and not _names(said, name):
            outcome = self.outcome()
            if outcome != expected:
                found.append(f"silently something else: {outcome} instead of {expected}")
        return found


def _names(text: str, name: str) -> bool:
    """Returns whether a text names a file, or the folder of its artifact or pushed version."""
    joined = "".join(text.split())
    parts = Path(name).parts
    depth = 2 if parts[0] == "serving" else 5
    return Path(name).name in joined or (len(parts) >= depth and "/".join(parts[:depth]) in joined)


def finished(folder: Path) -> Finished:
    """Returns the pipeline after two runs, each of which pushed a model."""
    here = folder / "here"
    here.mkdir(parents=True)
    owner = Owner(here, "nightly", YAML)
    write_rows(here)
    for day in ("01", "02"):
        owner("run", "pipeline.yaml", "--span", f"2026-01-{day}")
    assert len(owner.versions()) == 2
    shutil.copytree(here, folder / "copy", symlinks=True)
    return Finished(owner, folder / "copy")
