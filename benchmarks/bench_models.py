"""Compares the models of `fullpass init` and `run`, unchanged, with a constant, a linear model and boosted trees.

    python -m benchmarks.bench_models [SET ...] [--seeds 1] [--models ours ...] [--autogluon PYTHON] [--read FILE ...]

In every data set (benchmarks/model_sets.py, package_sets.py) a fifth of the rows is held out: the newest ones, those of
other groups, or random ones, as the set says; `--split own random` also draws random ones of each set. With a split by
time, each seed learns from another nine tenths of the older rows. The other rows go to `fullpass init` and `run`, which
split them again for early stopping, and to scikit-learn, which trains on all of them:
- constant: the mean or the most frequent class.
- linear: a ridge or a logistic regression.
- reference: HistGradientBoosting with its defaults and declared categories. For text, TF-IDF of character n-grams of
  length one to three with a logistic regression.
- lightgbm, xgboost, catboost: up to 2,000 rounds, ended by a fifth of the rows (not for texts alone); `make
  bench-models` installs the last two.
- autogluon: the preset `medium_quality` with a minute, if `--autogluon` names the Python of an environment that has
  autogluon.tabular with its libraries of boosted trees. AutoGluon needs other packages than TFX.
`network` is `ours` with the default network where `init` wrote `model: {kind: auto}`, on the first seed only. `five` is
the mean of the predictions of reference, lightgbm, xgboost, catboost and ours, of a binary task or a regression: what a
user gains who keeps five models, and what a request costs then. It has no rank, as it is no single model. All models
are measured on the held-out rows by AUC, accuracy or root mean squared error. Of `ours`, `network` and `autogluon`,
which run as commands, the peak memory is known too. A request is one row, its time the median: a raw row for `ours`, as
ServingCheck measures it, and numbers that are prepared already for the others. A gain counts beyond chance only: the
last table has the mean gain of `ours` over each other model with its 95 % interval over the sets, each of which counts
once.

Every result is printed as a line of JSON. `--read` reads such lines from files, so a long measurement can be made in
parts.
"""

import argparse
import csv
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.common import FULLPASS, Timing, time_command
from benchmarks.model_sets import SETS as MODEL_SETS
from benchmarks.model_sets import DataSet
from benchmarks.package_sets import PACKAGE_SETS

BOOSTERS = ("lightgbm", "xgboost", "catboost")
FIVE = ("reference", *BOOSTERS, "ours")
MODELS = ("constant", "linear", "reference", *BOOSTERS, "autogluon", "network", "ours", "five")
UNRANKED = ("network", "five")
SETS = {**MODEL_SETS, **PACKAGE_SETS}
_ROUNDS, _RATE, _PATIENCE = 2_000, 0.05, 50
_METRICS = {"binary": "AUC", "multiclass": "accuracy", "regression": "RMSE"}
_MOST_VALUES = 250
_AUTOGLUON_SECONDS = 60
_OLDER = 0.9
_INTERVAL = 1.96
_REQUESTS = 20


@dataclass(frozen=True)
class Result:
    """The result on one data set with one seed.

    Attributes:
        name: Name of the data set.
        task: Task of the data set.
        scores: Model -> metric on the held-out rows.
        seconds: Model -> CPU seconds of training; for `ours`, of `init` and the whole run.
        seed: Seed that selects the held-out rows.
        peaks: Model -> peak MiB of the largest process of training; empty in lines of earlier versions.
        split: How rows were held out.
        requests: Model -> milliseconds of one row, the median; empty in lines of earlier versions.
    """

    name: str
    task: str
    scores: Mapping[str, float]
    seconds: Mapping[str, float]
    seed: int = 0
    peaks: Mapping[str, float] = field(default_factory=dict)
    split: str = "random"
    requests: Mapping[str, float] = field(default_factory=dict)

    def gain_over(self, model: str) -> float:
        """Returns how much better `ours` is than another model, as a share of the score of the other one."""
        sign = -1 if self.task == "regression" else 1
        return sign * (self.scores["ours"] - self.scores[model]) / abs(self.scores[model])

    def ranks(self) -> dict[str, int]:
        """Returns the rank of each single model, 1 for the best; equal scores share the better rank."""
        sign = 1 if self.task == "regression" else -1
        keys = {model: sign * score for model, score in self.scores.items() if model not in UNRANKED}
        return {model: 1 + sum(other < key for other in keys.values()) for model, key in keys.items()}

    def gaps(self) -> dict[str, float]:
        """Returns how far each single model is behind the best one, as a share of the best score."""
        single = {model: score for model, score in self.scores.items() if model not in UNRANKED}
        best = (min if self.task == "regression" else max)(single.values())
        return {model: abs(score - best) / abs(best) for model, score in single.items()}

    def joined(self, other: "Result") -> "Result":
        """Returns the result with the models of both; `other` has the same set and seed."""
        return replace(
            self,
            scores={**self.scores, **other.scores},
            seconds={**self.seconds, **other.seconds},
            peaks={**self.peaks, **other.peaks},
            requests={**self.requests, **other.requests},
        )


def parts_of(data: DataSet, split: str, seed: int) -> tuple[DataSet, np.ndarray]:
    """Returns the rows to learn from and to judge by, and which of them judge, bool [rows]."""
    random, rows = np.random.default_rng(seed), len(data.label)
    if split == "group" and data.group is not None:
        groups = np.unique(data.group)
        return data, np.isin(data.group, random.permutation(groups)[: len(groups) // 5])
    if split == "time" and data.order is not None:
        newest = np.argsort(np.argsort(data.order, kind="stable")) >= rows - rows // 5
        used = newest | (random.random(rows) < _OLDER)
        return data.only(used), newest[used]
    return data, np.argsort(random.permutation(rows)) < rows // 5


def measure(name: str, seed: int, models: Sequence[str], autogluon: str | None = None, split: str = "random") -> Result:
    """Trains models on one data set and returns their scores; the seed selects the held-out rows.

    Args:
        autogluon: The Python that has AutoGluon.
        split: How rows are held out: time, group or random.
    """
    data, held_out = parts_of(SETS[name](), split, seed)
    scores, seconds, peaks, requests, predicted = {}, {}, {}, {}, dict[str, np.ndarray]()
    for model in models:
        if model == "five" or (model in BOOSTERS and data.text is not None):
            continue
        if model in ("ours", "network", "autogluon"):
            if model == "autogluon":
                answers, timings = _of_autogluon(data, held_out, str(autogluon))
            else:
                answers, timings, requests[model] = _ours(data, held_out, network=model == "network")
            seconds[model] = sum(timing.cpu for timing in timings)
            peaks[model] = max(timing.peak_mib for timing in timings)
        else:
            began = time.process_time()
            predict, rows = (_booster_predict if model in BOOSTERS else _sklearn_predict)(model, data, held_out)
            seconds[model], answers = time.process_time() - began, predict(rows)
            requests[model] = _request_ms(predict, rows)
        predicted[model] = answers
        scores[model] = metric(data.task, data.label[held_out], answers)
    if "five" in models and data.task != "multiclass" and predicted.keys() >= {*FIVE}:
        mean = np.mean([predicted[model] for model in FIVE], axis=0)
        scores["five"] = metric(data.task, data.label[held_out], mean)
        seconds["five"], requests["five"] = (sum(of[model] for model in FIVE) for of in (seconds, requests))
    return Result(name, data.task, scores, seconds, seed, peaks, split, requests)


def _request_ms(predict: Callable[[Any], np.ndarray], rows: Any) -> float:
    """Returns the median time of predicting one row, in milliseconds."""
    spent = []
    for i in range(min(_REQUESTS, len(rows))):
        began = time.perf_counter()
        predict(rows[i : i + 1])
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1e3


def metric(task: str, truth: np.ndarray, answers: np.ndarray) -> float:
    """Returns the metric of a task: AUC of the scores of the alphabetically last class, accuracy, or RMSE."""
    if task == "regression":
        return float(np.sqrt(np.mean((truth - answers) ** 2)))
    if task == "multiclass":
        return float(np.mean(truth == answers))
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth == max(truth), answers))


def _ours(data: DataSet, held_out: np.ndarray, *, network: bool) -> tuple[np.ndarray, list[Timing], float]:
    """Returns the predictions of the pipeline that `init` writes, for the held-out rows, and what it took.

    The last value is the milliseconds of a request of one row.

    With `network`, the default network is trained where `init` wrote `auto`; otherwise the pipeline is unchanged.
    """
    with tempfile.TemporaryDirectory(prefix="bench_models_") as folder:
        directory = Path(folder)
        write_rows(directory / "rows.csv", data, ~held_out)
        write_rows(directory / "new.csv", data, held_out)
        config, out = directory / "pipeline.yaml", directory / "out.csv"
        init = [*FULLPASS, "init", f"{directory}/rows.csv", "--label", "label", "--task", data.task, "-o", str(config)]
        timings = [time_command(init, log=directory / "init.log")]
        if network:
            text = config.read_text()
            config.write_text(text.replace("\nmodel: {kind: auto}", "\nmodel: {kind: wide_deep}"))
        timings.append(time_command([*FULLPASS, "run", str(config)], log=directory / "run.log"))
        export = max(directory.glob("runs/*/Trainer/model/*/Format-Serving"))
        command = [*FULLPASS, "predict", str(export), str(directory / "new.csv"), "-o", str(out)]
        time_command(command, log=directory / "predict.log")
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        served = json.loads(max(directory.glob("runs/*/ServingCheck/report/*/serving.json")).read_text())
    return answers_of(data, rows), timings, served["latency_ms"]


def answers_of(data: DataSet, rows: Sequence[Mapping[str, str]]) -> np.ndarray:
    """Returns the predictions in what `fullpass predict` wrote: probabilities of the last class, classes or numbers."""
    answer = f"probability_{max(data.label)}" if data.task == "binary" else "prediction"
    if answer not in rows[0]:
        answer = sorted(column for column in rows[0] if column.startswith("probability_"))[-1]
    values = [row[answer] for row in rows]
    return np.array(values) if data.task == "multiclass" else np.array(values, float)


def _of_autogluon(data: DataSet, held_out: np.ndarray, python: str) -> tuple[np.ndarray, list[Timing]]:
    """Returns the predictions of AutoGluon for the held-out rows, and what it took."""
    with tempfile.TemporaryDirectory(prefix="bench_models_") as folder:
        directory = Path(folder)
        write_rows(directory / "rows.csv", data, ~held_out)
        write_rows(directory / "new.csv", data, held_out)
        command = [python, "benchmarks/autogluon_side.py", folder, data.task, str(_AUTOGLUON_SECONDS)]
        timings = [time_command(command, log=directory / "run.log")]
        with (directory / "out.csv").open(newline="") as file:
            values = [row["prediction"] for row in csv.DictReader(file)]
    return np.array(values) if data.task == "multiclass" else np.array(values, float), timings


def write_rows(path: Path, data: DataSet, chosen: np.ndarray) -> None:
    columns = [*data.columns.values(), data.label]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*data.columns, "label"])
        writer.writerows(zip(*(_cells(column[chosen]) for column in columns), strict=True))


def _cells(column: np.ndarray) -> list[str]:
    if column.dtype.kind != "f":
        return column.tolist()
    return ["" if np.isnan(value) else repr(float(value)) for value in column]


def _sklearn_predict(model: str, data: DataSet, held_out: np.ndarray) -> tuple[Callable[[Any], np.ndarray], Any]:
    """Returns a trained model as a function of rows, and the held-out rows."""
    estimator, x = _estimator(model, data, held_out)
    estimator.fit(x[~held_out], data.label[~held_out])
    if data.task == "binary":
        return lambda rows: estimator.predict_proba(rows)[:, 1], x[held_out]
    return estimator.predict, x[held_out]


def _estimator(model: str, data: DataSet, held_out: np.ndarray) -> tuple[Any, np.ndarray]:
    """Returns a scikit-learn estimator and its input matrix."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline

    number = data.task == "regression"
    if model == "constant":
        return (DummyRegressor() if number else DummyClassifier()), np.zeros((len(held_out), 1))
    linear = Ridge() if number else LogisticRegression(max_iter=1000)
    if data.text is not None:
        runs = (1, 1) if model == "linear" else (1, 3)
        return make_pipeline(TfidfVectorizer(analyzer="char", ngram_range=runs), linear), data.columns[data.text]
    codes = {name: _codes(column, ~held_out) for name, column in data.columns.items()}
    texts = [column.dtype.kind != "f" for column in data.columns.values()]
    matrix = np.stack(list(codes.values()), axis=1)
    if model == "linear":
        return make_pipeline(_encoder(texts), linear), matrix
    trees = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
    return trees(categorical_features=texts, random_state=0), matrix


def booster_answers(model: str, data: DataSet, held_out: np.ndarray) -> np.ndarray:
    """Returns the predictions of a library of boosted trees, with its own handling of categories."""
    predict, rows = _booster_predict(model, data, held_out)
    return predict(rows)


def _booster_predict(model: str, data: DataSet, held_out: np.ndarray) -> tuple[Callable[[Any], np.ndarray], Any]:
    """Returns a trained library of boosted trees as a function of rows, and the held-out rows."""
    import pandas

    texts = [name for name, column in data.columns.items() if column.dtype.kind != "f"]
    rows = pandas.DataFrame({name: _codes(column, ~held_out, len(column)) for name, column in data.columns.items()})
    rows[texts] = rows[texts].fillna(-1).astype(int).astype("category")
    classes, label = (None, data.label) if data.task == "regression" else np.unique(data.label, return_inverse=True)
    order = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
    ends, learns = order[: len(order) // 5], order[len(order) // 5 :]
    estimator = _booster(model, texts, regression=classes is None)
    train, ending = (rows.iloc[learns], label[learns]), [(rows.iloc[ends], label[ends])]
    if model == "lightgbm":
        import lightgbm

        estimator.fit(*train, eval_set=ending, callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)])
    else:
        estimator.fit(*train, eval_set=ending, verbose=False)
    if data.task == "binary":
        return lambda some: estimator.predict_proba(some)[:, 1], rows[held_out]
    if classes is None:
        return lambda some: np.ravel(estimator.predict(some)), rows[held_out]
    return lambda some: classes[np.ravel(estimator.predict(some)).astype(int)], rows[held_out]


def _booster(model: str, texts: Sequence[str], *, regression: bool) -> Any:
    if model == "lightgbm":
        import lightgbm

        made = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        return made(n_estimators=_ROUNDS, learning_rate=_RATE, verbosity=-1)
    if model == "xgboost":
        import xgboost

        made = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
        options: dict[str, Any] = {"enable_categorical": True, "early_stopping_rounds": _PATIENCE}
        return made(n_estimators=_ROUNDS, learning_rate=_RATE, **options)
    import catboost

    made = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    options = {"early_stopping_rounds": _PATIENCE, "cat_features": list(texts), "allow_writing_files": False}
    return made(iterations=_ROUNDS, learning_rate=_RATE, **options)


def _encoder(texts: Sequence[bool]) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers, categories = np.flatnonzero(~np.array(texts)), np.flatnonzero(texts)
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return make_column_transformer((scale, numbers), (OneHotEncoder(handle_unknown="ignore"), categories))


def _codes(column: np.ndarray, fit: np.ndarray, most: int = _MOST_VALUES) -> np.ndarray:
    """Returns numbers unchanged, and the most frequent texts of the `fit` rows as codes 0, 1, 2 ...; others are NaN."""
    if column.dtype.kind == "f":
        return column
    values, counts = np.unique(column[fit & (column != "")], return_counts=True)
    common = values[np.argsort(-counts, kind="stable")][:most].tolist()
    code = {value: float(i) for i, value in enumerate(common)}
    return np.array([code.get(value, np.nan) for value in column.tolist()])


def print_results(results: Sequence[Result]) -> None:
    """Prints tables with one line per data set, the mean over its seeds, and the mean rank of each model."""
    console = Console(width=180)
    _print_means(console, "score on rows set aside, mean over seeds", results, "scores", 4)
    _print_means(console, "processor seconds of learning", results, "seconds", 0)
    _print_means(console, "peak memory of learning, MiB", results, "peaks", 0)
    _print_means(console, "a request of one row, ms", results, "requests", 1)
    models = [model for model in MODELS if any(model in result.scores for result in results)]
    behind = Table(title="of all sets and seeds")
    for heading in ("model", "mean rank", "worst gap to the best", "gain of ours over it, 95 %"):
        behind.add_column(heading)
    for model in models:
        gaps = [result.gaps()[model] for result in results if model in result.gaps()]
        ranks = _mean([result.ranks().get(model) for result in results], 2)
        behind.add_row(model, ranks, f"{max(gaps):.1%}" if gaps else "-", _interval(results, model))
    console.print(behind)


def _print_means(console: Console, title: str, results: Sequence[Result], kind: str, digits: int) -> None:
    models = [model for model in MODELS if any(model in getattr(result, kind) for result in results)]
    table = Table(title=title)
    for heading in ("set", "metric", *models):
        table.add_column(heading, justify="left" if heading in ("set", "metric") else "right")
    for name, split in dict.fromkeys((result.name, result.split) for result in results):
        of_set = [result for result in results if (result.name, result.split) == (name, split)]
        means = [_mean([getattr(result, kind).get(model) for result in of_set], digits) for model in models]
        table.add_row(f"{name}, {split}", _METRICS[of_set[0].task], *means)
    if models:
        console.print(table)


def _interval(results: Sequence[Result], model: str) -> str:
    """Returns the mean gain of `ours` over a model, and its 95 % interval over sets: seeds of a set share rows."""
    of_sets: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if {"ours", model} <= set(result.scores) and model != "ours":
            of_sets.setdefault((result.name, result.split), []).append(result.gain_over(model))
    gains = [statistics.mean(each) for each in of_sets.values()]
    if len(gains) < 2:  # noqa: PLR2004 - no deviation of one
        return "-"
    reach = _INTERVAL * statistics.stdev(gains) / len(gains) ** 0.5
    return f"{statistics.mean(gains):+.2%} ± {reach:.2%}"


def _mean(values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.{digits}f}" if known else "-"


def read_results(files: Sequence[str]) -> dict[tuple[str, str, int], Result]:
    """Returns the results in the JSON lines of files, by set, split and seed; other lines are ignored."""
    found: dict[tuple[str, str, int], Result] = {}
    for file in files:
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                one = Result(**json.loads(line))
                key = (one.name, one.split, one.seed)
                found[key] = found[key].joined(one) if key in found else one
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measures the data sets one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"one of {', '.join(SETS)}; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, each with other held-out rows")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="by default all")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="print the table of results in files, measure none")
    parser.add_argument("--autogluon", metavar="PYTHON", help="the Python of an environment that has AutoGluon")
    parser.add_argument("--split", nargs="+", choices=("own", "random"), default=["own"], help="how rows are held out")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.sets) - set(SETS))
    if unknown:
        parser.error(f"no set {unknown[0]!r}. There are: {', '.join(SETS)}.")
    if options.read:
        print_results(list(read_results(options.read).values()))
        return 0
    results = []
    for name in options.sets or SETS:
        splits = dict.fromkeys(SETS[name]().split if split == "own" else split for split in options.split)
        for split, seed in product(splits, range(options.seeds)):
            models = [model for model in MODELS if model in options.models and (seed == 0 or model != "network")]
            models = [model for model in models if options.autogluon or model != "autogluon"]
            results.append(measure(name, seed, models, options.autogluon, split))
            print(json.dumps(vars(results[-1])), flush=True)
    print_results(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
