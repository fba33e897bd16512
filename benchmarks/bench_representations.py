"""Compares what `init` and `run` reach with and without the search of representations, and boosted trees.

    python -m benchmarks.bench_representations [SET ...] [--seeds 0 1 2]

A fifth of the rows of each set (benchmarks/representation_sets.py) is set aside, by the seed. The other rows go to
`fullpass init`, once with `--search-seconds 0` and once as by default, and to `fullpass run`, whose latency of one row
is printed too; a run ends if its parity finds a mismatch. LightGBM and CatBoost are given the ids as categories, and
are ended by a fifth of their rows (`make bench-representations` installs CatBoost).
"""

import argparse
import csv
import importlib.util
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.bench_models import answers_of, booster_answers, metric, write_rows
from benchmarks.common import FULLPASS, table_of, time_command, write_results
from benchmarks.model_sets import SETS as MODEL_SETS
from benchmarks.model_sets import DataSet
from benchmarks.representation_sets import SETS

_ALSO = ("flights", "taxi")
_SEARCHES = {"before": ("--search-seconds", "0"), "after": ()}


def fullpass(data: DataSet, held_out: np.ndarray, options: tuple[str, ...]) -> dict[str, float]:
    """Returns the metric on the held-out rows, the features, the latency in ms, and processor seconds of both steps."""
    with tempfile.TemporaryDirectory(prefix="bench_representations_") as temporary:
        folder = Path(temporary)
        write_rows(folder / "rows.csv", data, ~held_out)
        write_rows(folder / "new.csv", data, held_out)
        config, out = folder / "pipeline.yaml", folder / "out.csv"
        init = [*FULLPASS, "init", str(folder / "rows.csv"), "--label", "label", "--task", data.task, "-o", str(config)]
        timings = [time_command([*init, *options], log=folder / "init.log")]
        text = config.read_text()
        config.write_text(text.replace("beyond_chance: 0.95, ", ""))  # a model that chance explains is compared, too
        timings.append(time_command([*FULLPASS, "run", str(config)], log=folder / "run.log"))
        (summary,) = (json.loads(path.read_text()) for path in folder.glob("runs/*/logs/*/run.json"))
        export = max(folder.glob("runs/*/Trainer/model/*/Format-Serving"))
        command = [*FULLPASS, "predict", str(export), str(folder / "new.csv"), "-o", str(out)]
        time_command(command, log=folder / "predict.log")
        with out.open(newline="") as file:
            score = metric(data.task, data.label[held_out], answers_of(data, list(csv.DictReader(file))))
        features = len(YAML(typ="safe").load(config)["features"])
    spent = {name: timing.cpu for name, timing in zip(("init_s", "run_s"), timings, strict=True)}
    return {"score": score, "features": features, "ms": summary["latency_ms"], **spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    every = {**SETS, **{name: MODEL_SETS[name] for name in _ALSO}}
    parser.add_argument("sets", nargs="*", default=list(every), metavar="SET", help=f"of {', '.join(every)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="each has other held-out rows")
    options = parser.parse_args()
    boosters = [name for name in ("lightgbm", "catboost") if importlib.util.find_spec(name)]
    of_searches = [f"{key} {name}" for key in _SEARCHES for name in ("score", "features", "ms", "init_s", "run_s")]
    table = table_of("means over seeds, of rows set aside", ["set"], [*of_searches, *boosters])
    results: dict[str, list[dict[str, float]]] = {}
    for name in options.sets:
        data = every[name]()
        for seed in options.seeds:
            rows = len(data.label)
            held_out = np.argsort(np.random.default_rng(seed).permutation(rows)) < rows // 5
            found = {
                f"{key} {figure}": value
                for key, arguments in _SEARCHES.items()
                for figure, value in fullpass(data, held_out, arguments).items()
            }
            for model in boosters:
                found[model] = metric(data.task, data.label[held_out], booster_answers(model, data, held_out))
            results.setdefault(name, []).append(found)
            print(json.dumps({"set": name, "seed": seed, **found}), flush=True)
        means = (statistics.mean(one[key] for one in results[name]) for key in (*of_searches, *boosters))
        table.add_row(name, *(f"{value:,.4g}" for value in means))
    Console(width=200).print(table)
    write_results("representations", [], {"results": results})


if __name__ == "__main__":
    main()
