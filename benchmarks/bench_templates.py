"""Runs TFX's taxi and penguin templates with none and some of their components replaced, and prints seconds and AUC.

    python -m benchmarks.bench_templates [--repeat 1] [--keep FOLDER]

Each run is a fresh process under TFX's LocalDagRunner, from an empty root to a pushed model; the variants alternate.
The modules of the templates are called as they are installed. `three` reads the rows with Ingest, whose split is not
that of CsvExampleGen, and so does `yaml`, the pipeline of `fullpass.tfx_pipeline`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.common import Timing, median_timing, time_command

TEMPLATES = ("taxi", "penguin")
VARIANTS = {
    "stock": "stock TFX",
    "transform": "Transform replaced",
    "evaluator": "Evaluator replaced",
    "three": "Ingest, Transform, Evaluator replaced",
    "yaml": "all by the YAML, with the same two modules",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    table = Table("template", "under LocalDagRunner", "seconds", "AUC", "eval rows")
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.keep or Path(scratch)
        for template in TEMPLATES:
            found: dict[str, list[tuple[Timing, dict[str, float]]]] = {variant: [] for variant in VARIANTS}
            for number in range(arguments.repeat):
                for variant in VARIANTS:
                    directory = work / f"{template}-{variant}-{number}"
                    log = directory.with_suffix(".log")
                    command = [sys.executable, "-m", "benchmarks.template_pipeline", str(directory)]
                    timing = time_command([*command, "--template", template, "--variant", variant], log=log)
                    found[variant].append((timing, json.loads(log.read_text().splitlines()[-1])))
            for variant, runs in found.items():
                timing = median_timing([timing for timing, _ in runs])
                scored = runs[0][1]
                cells = f"{timing.seconds:.0f}", f"{scored['auc']:.4f}", f"{scored['rows']:,}"
                table.add_row(template, VARIANTS[variant], *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
