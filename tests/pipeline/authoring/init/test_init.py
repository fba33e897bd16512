"""What `init` writes, read back as a user and a run would read it."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ruamel.yaml import YAML

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.checks import check
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import Finding, load
from tests.pipeline.authoring.tables import write_csv as write

TFX = Path(next(iter(importlib.util.find_spec("tfx").submodule_search_locations)))
TAXI = "package:tfx/examples/chicago_taxi_pipeline/data"
ROWS = 1500


def run(tmp_path, data, **options):
    """Returns the config that `init` wrote, after it passed every check of the file and of the data."""
    written = init(str(data), output=str(tmp_path / "p.yaml"), search_seconds=0, **options)
    loaded = load(written.file)
    assert loaded.text == written.text
    assert require(loaded) == ()
    assert not check_data(loaded).has_errors
    return loaded.config


def features(config):
    """The features as YAML would say them, defaults left out."""
    dumped = {name: f.model_dump(exclude_defaults=True) for name, f in config.features.items()}
    return {name: value["type"] if set(value) == {"type"} else value for name, value in dumped.items()}


@pytest.fixture
def shop(tmp_path, random):
    """Orders: every kind of column once."""
    returned = random.random(ROWS) < 0.3
    start = np.datetime64("2023-01-01T00:00:00") + random.integers(0, 300 * 86_400, ROWS).astype("timedelta64[s]")
    columns = {
        "order_id": range(ROWS),
        "ordered_at": [str(t).replace("T", " ") for t in start],
        "shipped_at": [
            str(t + np.timedelta64(int(s), "s")).replace("T", " ")
            for t, s in zip(start, random.exponential(9e4, ROWS), strict=True)
        ],
        "amount": [f"{x:.2f}" for x in random.lognormal(3, 1, ROWS)],
        "age": ["?" if x < 20 else x for x in random.integers(18, 80, ROWS)],
        "price": [f"${x:,.2f}" for x in random.exponential(2000, ROWS)],
        "country": random.choice(["NO", "IT", "FR"], ROWS),
        "product_id": random.integers(0, 60, ROWS),
        "gift": random.choice(["yes", "no"], ROWS),
        "tags": ["|".join(random.choice(list("abcde"), random.integers(1, 4), replace=False)) for _ in range(ROWS)],
        "note": [" ".join(random.choice("please leave it at the green door by noon".split(), 8)) for _ in range(ROWS)],
        "currency": ["EUR"] * ROWS,
        "unused": [""] * ROWS,
        "refund": np.where(returned, random.lognormal(3, 1, ROWS).round(2), 0),
        "returned": np.where(returned, "Y", "N"),
    }
    return write(tmp_path / "shop.csv", columns)


@pytest.mark.integration
def test_every_kind_of_column_becomes_a_feature(tmp_path, shop):
    config = run(tmp_path, shop, label="returned")
    assert features(config) == {
        "ordered_at": "date",  # month, day_of_week and hour are the usual parts
        "shipped_at": "date",
        "amount": {"type": "number", "transforms": ("log1p", "z_score")},
        "age": {"type": "number", "missing": "median", "indicator": True},
        "country": {"type": "category", "vocabulary": {}},
        "product_id": {"type": "category", "vocabulary": {"min_count": 5, "oov_buckets": 4}},
        "gift": "boolean",
        "tags": {"type": "category", "separator": "|", "vocabulary": {"top_k": 10_000, "min_count": 2}},
        "note": "text",
        "price": {"type": "number", "format": "$1,234.5", "transforms": ("log1p", "z_score")},
        "duration": {
            "type": "duration",
            "start": "ordered_at",
            "end": "shipped_at",
            "missing": "median",
            "transforms": ({"clip": {"min": 0, "max_quantile": 0.999}}, "log1p", "z_score"),
            "unit": "hours",
        },
    }
    assert config.data.derive == {} and config.data.types == {}
    assert "?" in config.data.source.missing
    label = {"name": "returned", "task": "binary", "classes": ("N", "Y")}
    assert config.label.model_dump(exclude_defaults=True) == label


@pytest.mark.integration
def test_every_line_says_why(tmp_path, shop):
    text = init(str(shop), output=str(tmp_path / "p.yaml"), label="returned").text
    lines = text.splitlines()
    first, last = lines.index("features:") + 1, lines.index("  ## Left out:")
    for number, line in enumerate(lines[first:last], start=first):
        if line.strip() and line[2] not in "# ":
            assert "  # " in line or lines[number - 1].startswith("  ## "), line
    left_out = {line.split()[1].rstrip(":"): line for line in lines[last + 1 :] if line.startswith("  # ")}
    assert "an id" in left_out["order_id"]
    assert "nothing but EUR" in left_out["currency"]
    assert "no value" in left_out["unused"]
    assert "gives the label away: AUC 1.00 alone" in left_out["refund"]
    assert [line for line in lines if len(line) > 120] == []


def test_one_hot_columns_and_codes_of_the_label_are_left_out_with_the_evidence(tmp_path, random):
    label, x = random.integers(0, 4, ROWS), random.normal(size=ROWS)
    columns = {"x": x, **{f"target_{i}": (label == i).astype(int) for i in range(4)}}
    columns |= {"known": (label == 2).astype(int), "target": [f"Class {i}" for i in label]}
    columns["code"] = [f"{random.integers(100, 999)}class {i}" for i in label]
    columns["fee"] = [1.5 * i if k == 1 else "" for i, k in enumerate(label)]
    written = init(str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="target")
    lines = "\n".join(written.summary)
    assert "left out: target_1 (gives the label away: 1 exactly where target is Class 1; target_0," in lines
    told = (
        r"left out: code \(gives the label away: accuracy 1\.00 \(constant 0\.2\d\) by the value of target in its text"
    )
    assert re.search(told, lines)
    assert "# gives the label away: missing exactly where target is not Class 1" in written.text
    assert set(load(written.file).config.features) == {"x"}


def test_label_by_a_condition_leaves_out_what_tells_it(tmp_path, random):
    fare, tips = random.exponential(10, ROWS), random.exponential(2, ROWS)
    columns = {"fare": fare, "tips": tips, "toll": random.exponential(1, ROWS), "zone": random.integers(0, 9, ROWS)}
    columns["total"] = columns["fare"] + columns["tips"] + columns["toll"]
    data = write(tmp_path / "trips.csv", columns)
    config = run(tmp_path, data, label="big_tipper = tips > 0.2 * fare")
    assert config.data.derive == {"big_tipper": "tips > 0.2 * fare"}
    assert config.label.name == "big_tipper" and config.label.task == "binary"
    assert set(config.features) == {"fare", "toll", "zone"}


def test_a_model_is_compared_with_the_last_blessed_one_whatever_the_task(tmp_path, random):
    """1,000 rows, 150 of them eval: half of 0.5 / sqrt(150 * 4 * 0.2 * 0.8) is 0.0255, of 1 / sqrt(150) is 0.041."""
    columns = {
        "yes": random.permutation(np.repeat(["a", "b"], [200, 800])),
        "several": random.permutation(np.repeat(["a", "b", "c"], [400, 300, 300])),
        "large": random.permutation(np.repeat(["a", "b", "c"], [800, 100, 100])),
        "size": random.normal(size=1000),
        "x": random.normal(size=1000),
    }
    data, found = write(tmp_path / "a.csv", columns), {}
    for label in ("yes", "several", "large", "size"):
        (tmp_path / label).mkdir()
        found |= run(tmp_path / label, data, label=label).evaluation.thresholds
    # 0.6 is how far accuracy is from 1; 0.6390 the entropy of 0.8, 0.1, 0.1.
    tolerances = {"auc": 0.03, "multiclass_accuracy": 0.02, "multiclass_log_loss": 0.03, "explained": 0.04}
    assert {name: bounds.tolerance for name, bounds in found.items()} == tolerances
    assert {(bounds.not_worse_than, bounds.confidence) for bounds in found.values()} == {("blessed", 0.95)}


def test_pipelines_beside_each_other_have_names_and_folders_of_their_own(tmp_path, random):
    columns = {name: random.normal(size=ROWS) for name in ("x", "y")} | {"label": random.choice(["a", "b"], ROWS)}
    configs = []
    for data, output in (("a.csv", "a.yaml"), ("b.csv", "b.yaml"), ("a.csv", "other.yaml"), ("a.csv", "other.yml")):
        init(str(write(tmp_path / data, columns)), output=str(tmp_path / output), label="label")
        configs.append(load(tmp_path / output).config)
    assert [config.name for config in configs] == ["a", "b", "a-other", "a-2"]
    assert [config.push.to for config in configs] == ["serving/a", "serving/b", "serving/a-other", "serving/a-2"]


def test_thresholds_are_what_knowing_nothing_gives(tmp_path, random):
    label = random.choice(["a", "b", "c"], ROWS, p=[0.45, 0.35, 0.2])
    config = run(tmp_path, write(tmp_path / "a.csv", {"kind": label, "x": random.normal(size=ROWS)}), label="kind")
    assert config.label.task == "multiclass"
    expected = (label == "a").mean()
    assert config.evaluation.thresholds["multiclass_accuracy"].min == pytest.approx(expected, abs=1e-3)


def test_one_large_class_is_judged_by_the_log_loss_of_the_shares(tmp_path, random):
    """An entropy of 0.9 ln(1/0.9) + 2 * 0.05 ln(1/0.05) = 0.3944."""
    label = np.repeat(["a", "b", "c"], [ROWS * 9 // 10, ROWS // 20, ROWS // 20])
    data = {"kind": label, "x": random.normal(size=len(label))}
    thresholds = run(tmp_path, write(tmp_path / "a.csv", data), label="kind").evaluation.thresholds
    assert list(thresholds) == ["multiclass_log_loss"]
    bounds = thresholds["multiclass_log_loss"]
    assert (bounds.max, bounds.beyond_chance) == (pytest.approx(0.3944, abs=2e-3), 0.95)


@pytest.mark.parametrize(("rows", "kind"), [(199, "wide_deep"), (ROWS, "auto")])
def test_positions_become_a_distance(tmp_path, random, rows, kind):
    spans = {"lat": (41, 42), "lon": (-88, -87)}
    columns = {f"{end}_{axis}": random.uniform(*span, rows) for end in ("from", "to") for axis, span in spans.items()}
    columns["y"] = random.choice(["a", "b"], rows)
    config = run(tmp_path, write(tmp_path / "a.csv", columns))
    assert config.data.derive == {"distance_km": "haversine(from_lat, from_lon, to_lat, to_lon)"}
    assert set(config.features) == {*columns, "distance_km"} - {"y"}
    assert (config.model.kind, config.crosses) == (kind, ())


def test_a_column_named_like_a_part_of_a_date_is_renamed(tmp_path, random):
    days, hours = random.integers(1, 29, ROWS), random.integers(0, 24, ROWS)
    at = [f"2023-01-{day:02d} {hour:02d}:00:00" for day, hour in zip(days, hours, strict=True)]
    columns = {"at": at, "at.hour": random.integers(0, 24, ROWS), "y": random.choice(["a", "b"], ROWS)}
    config = run(tmp_path, write(tmp_path / "a.csv", columns))
    assert config.features["at.hour_"].column == "at.hour"


@pytest.mark.integration
def test_names_that_need_quotes_are_quoted(tmp_path, random):
    names = ["a b", "a.b", 'say "x"', "it's", "#1", "true", "a: b", "ärger", "[x]", "-", "null"]
    columns = {name: random.normal(size=ROWS) for name in names}
    columns["the label?"] = random.choice(["a", "b"], ROWS)
    config = run(tmp_path, write(tmp_path / "a.csv", columns), label="the label?")
    assert list(config.features) == names


@pytest.mark.parametrize(
    ("train", "test", "error"),
    [
        (["<=50K", ">50K"], ["<=50K.", ">50K."], None),
        (["a", "b"], ["c", "d"], r"no value of eval \(c, d\) is one of train \(a, b\)"),
    ],
)
def test_labels_of_given_splits_may_differ_by_a_full_stop_only(tmp_path, random, train, test, error):
    for split, values in (("train", train), ("test", test)):
        columns = {"x": random.normal(size=ROWS), "income": random.choice(values, ROWS)}
        write(tmp_path / f"adult-{split}.csv", columns)
    if error is None:
        config = run(tmp_path, tmp_path, label="income")
        assert config.data.source.given_splits == ("train", "eval")
        assert config.data.derive == {"label": 'replace(income, ".", "")'}
    else:
        with pytest.raises(UserError, match=error):
            init(str(tmp_path), output=str(tmp_path / "p.yaml"), label="income")


def test_few_different_rows_are_not_split_by_content(tmp_path):
    data = write(tmp_path / "a.csv", {"x": [0, 1] * 100, "y": ["a", "b", "b", "b"] * 50})
    init(str(data), output=str(tmp_path / "p.yaml"))
    assert load(tmp_path / "p.yaml").config.data.split.method == "random"
    priced = write(
        tmp_path / "b.csv",
        {"price": [f"${i % 61}.5" for i in range(240)], "y": ["aab"[i % 61 % 3] for i in range(240)]},
    )
    init(str(priced), output=str(tmp_path / "q.yaml"))
    assert load(tmp_path / "q.yaml").config.data.split.method == "hash"


def test_nothing_is_left_behind_where_the_file_would_not_do(tmp_path, monkeypatch):
    data = write(tmp_path / "data.csv", {"x": [0, 5, 3] * 33, "y": ["ab"[i * 7 % 11 % 2] for i in range(99)]})
    monkeypatch.setattr(check, "CHECKS", (lambda loaded: [Finding(("data", "source"), "not this one")],))
    with pytest.raises(UserError, match="(?s)not written.*data.source: not this one"):
        init(str(data), output=str(tmp_path / "p.yaml"), label="y")
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("retruned", 'no such column. Did you mean "returned"'),
        ("amount >", "--label:"),
        ("amount > 'x'", "Cannot order string"),
        ("age = amount > 3", "age is a column already"),
        ("order_id", "a different value in nearly every row"),
        ("currency", "same value"),
    ],
)
def test_labels_that_cannot_be_are_refused(tmp_path, shop, label, message):
    with pytest.raises(UserError, match=message):
        init(str(shop), output=str(tmp_path / "p.yaml"), label=label)
    assert not (tmp_path / "p.yaml").exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("data", "label", "left_out"),
    [
        (f"{TAXI}/big_tipper_label/data.csv", None, {"tips", "pickup_census_tract", "big_tipper"}),
        (f"{TAXI}/simple/data.csv", "tips > 0.2 * fare", {"tips", "pickup_census_tract"}),
        (TFX / "components/testdata/external/csv", "tips", {"tips"}),
        (TFX / "components/testdata/external/parquet", "tips > 0.2 * fare", {"tips", "pickup_census_tract"}),
    ],
)
def test_data_of_tfx_gives_a_file_without_leaks(tmp_path, data, label, left_out):
    config = run(tmp_path, data, label=label)
    assert not left_out & {feature.column or name for name, feature in config.features.items()}
    assert config.features["trip_start_timestamp"].format == "epoch_seconds"
    assert config.features["payment_type"].type == "category"
    assert len(config.features) > 15


@pytest.mark.parametrize(
    ("folder", "errors"), [("csv_empty", []), ("csv_multi_line_string", ["no row falls into split eval."])]
)
def test_three_rows_are_enough_for_a_file(tmp_path, folder, errors):
    data = TFX / "components/testdata/external" / folder / "data.csv"
    init(str(data), output=str(tmp_path / "p.yaml"), label="C")
    loaded = load(tmp_path / "p.yaml")
    assert require(loaded) == ()
    assert [problem.message for problem in check_data(loaded).problems if problem.severity == "error"] == errors


@pytest.mark.integration
def test_what_the_label_is_made_of_counts_or_predicts_is_left_out(tmp_path, random):
    """As in data of hired bicycles: hours are codes by their name, and `kind` by its effects."""
    rows = 4000
    hour, kind, heat = np.arange(rows) % 24, random.integers(0, 9, rows), random.integers(0, 30, rows)
    casual = random.poisson(5 + 0.3 * heat)
    registered = random.poisson(20 + 60 * np.exp(-((hour - 17) ** 2) / 8) + 15 * (kind % 3 == 1))
    columns = {
        "instant": np.arange(rows) + 7,
        "hr": hour,
        "kind": kind,
        "heat": heat,
        "casual": casual,
        "registered": registered,
        "cnt_predicted": casual + registered + random.normal(0, 30, rows).round(),
        "cnt": casual + registered,
    }
    text = init(str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="cnt").text
    kinds = {name: feature.type for name, feature in load(tmp_path / "p.yaml").config.features.items()}
    assert kinds == {"hr": "category", "kind": "number", "kind_value": "category", "heat": "number"}
    assert "# registered: number" in text and "that is this + casual" in text
    assert "# casual: number" in text and "that is this + registered" in text
    assert "by its name, the prediction of another model" in text


@pytest.mark.integration
def test_every_omitted_line_can_be_switched_on(tmp_path, shop):
    """Each line that begins with one # is YAML without it, and those of columns make a file that loads."""
    text = init(str(shop), output=str(tmp_path / "p.yaml"), label="returned").text
    lines = text.splitlines()
    switched_off = [i for i, line in enumerate(lines) if re.match(r" *# ", line)]
    assert switched_off
    for i in switched_off:
        bare = re.sub("# ", "", lines[i], count=1)
        assert isinstance(YAML(typ="safe").load(bare), dict), bare
        if "split:" not in bare:
            (tmp_path / "q.yaml").write_text("\n".join([*lines[:i], bare, *lines[i + 1 :]]))
            load(tmp_path / "q.yaml")


def test_a_file_to_be_predicted_beside_train_is_no_split(tmp_path, random):
    columns = {"x": random.normal(size=ROWS), "y": random.choice(["a", "b"], ROWS)}
    write(tmp_path / "train.csv", columns)
    write(tmp_path / "test.csv", {"x": columns["x"]})
    write(tmp_path / "sample_submission.csv", {"id": range(9), "y": ["a"] * 9})
    text = init(str(tmp_path), output=str(tmp_path / "p.yaml"), label="y").text
    assert "path: train.csv" in text and "test.csv left out: no column y" in text


@pytest.mark.integration
@pytest.mark.parametrize(
    ("rows", "ratios"),
    [
        (400, {"train": 8, "eval": 2}),
        (2_000, {"train": 14, "validation": 3, "eval": 3}),
        (20_001, {"train": 16, "validation": 2, "eval": 1, "test": 1}),
    ],
)
def test_rows_that_end_and_choose_are_not_those_that_judge(tmp_path, random, rows, ratios):
    columns = {"x": random.normal(size=rows).round(6), "y": random.choice(["a", "b"], rows)}
    init(str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="y")
    assert load(tmp_path / "p.yaml").config.data.split.ratios == ratios


@pytest.mark.integration
def test_a_dictionary_of_arrow_is_a_category_whatever_it_holds(tmp_path, random):
    bands = pd.Categorical(random.integers(0, 9, ROWS))
    table = pd.DataFrame({"band": bands, "x": random.normal(size=ROWS), "y": random.choice(["a", "b"], ROWS)})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_feather(tmp_path / "a.feather")
    for file in ("a.parquet", "a.feather"):
        init(str(tmp_path / file), output=str(tmp_path / f"{file}.yaml"), label="y")
        assert load(tmp_path / f"{file}.yaml").config.features["band"].type == "category"


@pytest.mark.integration
def test_classes_of_texts_alone_are_told_by_words_and_pairs_of_them(tmp_path, random):
    """The class is which of three words follows `do`; all three stand in every row."""
    words = [f"word{i}" for i in range(300)]
    intents = random.choice(["pay", "ask", "stop"], ROWS)
    others = [random.permutation([*random.choice(words, 5), "pay", "ask", "stop"]) for _ in range(ROWS)]
    queries = [" ".join([*other, "do", intent]) for other, intent in zip(others, intents, strict=True)]
    columns = {"query": queries, "intent": intents}
    config = run(tmp_path, write(tmp_path / "a.csv", columns))
    assert features(config) == {"query": {"type": "text", "ngrams": (1, 2), "output": "tf_idf"}}
    assert config.model.kind == "linear" and config.training.learning_rate == 0.02
    assert config.training.time == "15m"
    (tmp_path / "p.yaml").unlink()
    config = run(tmp_path, write(tmp_path / "a.csv", {**columns, "age": random.normal(size=ROWS)}), label="intent")
    assert features(config)["query"]["output"] == "tf_idf" and config.model.kind == "auto"
    assert config.training.time == "15m"


@pytest.mark.integration
def test_two_classes_of_texts_alone_are_told_by_a_linear_model_where_a_blend_is_too_much_work(
    tmp_path, random, monkeypatch
):
    words = np.array([f"word{i}" for i in range(300)])
    y = random.choice(["good", "bad"], ROWS)
    data = write(tmp_path / "a.csv", {"note": [" ".join([*random.choice(words, 6), one]) for one in y], "y": y})
    config = run(tmp_path, data, label="y")
    assert (config.model.kind, config.training.learning_rate, config.training.time) == ("auto", "auto", "15m")
    (tmp_path / "p.yaml").unlink()
    monkeypatch.setattr("fullpass.pipeline.authoring.init.propose_model._BLEND_UP_TO", ROWS - 1)
    config = run(tmp_path, data, label="y")
    assert (config.model.kind, config.model.l2, config.training.learning_rate) == ("linear", 0.0001, 0.01)


@pytest.mark.integration
def test_trees_for_tables_and_networks_for_the_rest(tmp_path, random, monkeypatch):
    """From 200 rows on trees are tried, up to 200,000 beside others; fewer rows, and vectors, are for networks."""
    rows = 200
    table = {
        "fare": random.normal(size=rows),
        "zone": random.choice(["a", "b", "c"], rows),
        "paid": random.choice(["yes", "no"], rows),
    }
    words = [f"word{i}" for i in range(300)]
    text = {"query": [" ".join(random.choice(words, 9)) for _ in range(rows)]}

    def model(columns):
        (tmp_path / "p.yaml").unlink(missing_ok=True)
        return run(tmp_path, write(tmp_path / "a.csv", columns), label="paid").model.kind

    assert model(table) == "auto"
    assert model({name: values[: rows - 1] for name, values in table.items()}) == "wide_deep"
    assert model({**table, **text}) == "auto"
    monkeypatch.setattr("fullpass.pipeline.authoring.init.propose_model._BLEND_UP_TO", rows - 1)
    assert model(table) == "trees"
    assert model({**table, **text}) == "wide_deep"


@pytest.mark.integration
@pytest.mark.parametrize(("rows", "hidden"), [(2140, (32,)), (2150, (128, 64))])
def test_few_rows_have_a_small_network(tmp_path, random, monkeypatch, rows, hidden):
    """Seven tenths are train: of 2,140 rows these are 1,498, of 2,150 they are 1,505."""
    monkeypatch.setattr("fullpass.pipeline.authoring.init.propose_model._BLEND_UP_TO", 1)
    words = [f"word{i}" for i in range(300)]
    columns = {"query": [" ".join(random.choice(words, 9)) for _ in range(rows)], "fare": random.normal(size=rows)}
    data = write(tmp_path / "a.csv", {**columns, "paid": random.choice(["yes", "no"], rows)})
    assert run(tmp_path, data, label="paid").model.hidden == hidden


@pytest.mark.parametrize(
    ("write_cell", "formula"),
    [
        (lambda n: f"{n // 12}'{n % 12}\"", 'number(height, "5\'11\\"")'),
        (lambda n: f"{n // 60}h {n % 60}m", 'number(height, "2h 10m")'),
    ],
)
def test_a_label_of_written_numbers_is_derived(tmp_path, random, write_cell, formula):
    x = random.normal(100, 20, ROWS)
    columns = {"x": x, "height": [write_cell(int(v)) for v in x + random.normal(0, 20, ROWS)]}
    data = write(tmp_path / "a.csv", columns)
    init(str(data), output=str(tmp_path / "p.yaml"), label="height")
    config = load(tmp_path / "p.yaml").config
    assert config.data.derive == {"height_number": formula}
    assert config.label.task == "regression"


def test_ids_of_persons_and_codes_of_states_are_no_quantities(tmp_path, random):
    table = {
        "subject": random.integers(1, 43, ROWS),
        "STATE_FIPS": random.choice([1, 2, 4, 5, 6, 8, 48, 56], ROWS),
        "members": random.integers(1, 9, ROWS),  # how many
        "y": random.choice(["a", "b"], ROWS),
    }
    write(tmp_path / "rows.csv", table)
    config = run(tmp_path, tmp_path / "rows.csv", label="y")
    assert [config.features[name].type for name in table if name != "y"] == ["category", "category", "number"]
    assert "# split: {method: hash, column: subject," in (tmp_path / "p.yaml").read_text()


def test_small_skewed_numbers_have_no_log1p(tmp_path, random):
    rate = np.exp(random.normal(-28, 1.5, ROWS))
    write(tmp_path / "rows.csv", {"rate": rate, "large": rate * 1e14, "y": random.choice(["a", "b"], ROWS)})
    found = features(run(tmp_path, tmp_path / "rows.csv", label="y"))
    assert found["rate"] == {"type": "number", "transforms": ("quantile_scale",)}
    assert "log1p" in found["large"]["transforms"]


@pytest.mark.parametrize(
    ("spread", "least", "loss"), [(2.0, 0.0, "log_normal"), (0.5, 0.0, "auto"), (2.0, -9.0, "auto")]
)
def test_a_label_of_many_orders_of_magnitude_is_learned_by_its_logarithm(tmp_path, random, spread, least, loss):
    x = random.normal(size=ROWS)
    cost = np.exp(spread * x + 5) + least
    write(tmp_path / "rows.csv", {"x": x + random.normal(size=ROWS), "cost": [f"{one:.4f}" for one in cost]})
    written = init(str(tmp_path / "rows.csv"), output=str(tmp_path / "p.yaml"), label="cost")
    assert load(written.file).config.training.loss.kind == loss
    assert ("orders of magnitude" in written.text) == (loss == "log_normal")


@pytest.mark.integration
def test_rows_that_a_split_by_content_parts_by_their_label_are_split_by_chance(tmp_path, random):
    """Hashes of 120 pairs with both labels would put all rows of a pair and a label into one split."""
    shop, product = random.integers(0, 12, 3_000), random.integers(0, 10, 3_000)
    late = random.random(3_000) < (shop + product) / 30
    columns = {"shop": [f"s{one}" for one in shop], "product": [f"p{one}" for one in product], "late": late}
    split = run(tmp_path, write(tmp_path / "late.csv", columns), label="late").data.split
    assert split.method == "random" and split.ratios.keys() == {"train", "validation", "eval"}
    (tmp_path / "p.yaml").unlink()
    known = {**columns, "late": (shop + product) > 10}  # equal rows have one label, so they stay together
    assert run(tmp_path, write(tmp_path / "known.csv", known), label="late").data.split.method == "hash"
    (tmp_path / "p.yaml").unlink()
    apart = {"order": range(3_000), **columns}  # no row repeats
    assert run(tmp_path, write(tmp_path / "apart.csv", apart), label="late").data.split.method == "hash"


@pytest.mark.parametrize("rows", [600, 2_400])
def test_few_words_with_an_order_become_their_rank(tmp_path, random, rows):
    risk, age = random.integers(0, 3, rows), random.integers(0, 5, rows)
    y = risk + random.normal(0, 0.4, rows) + (age == 4)
    table = {"risk": np.array(["Low", "Medium", "High"])[risk], "y": np.where(y > 1.4, "yes", "no")}
    table["age"] = np.array(["<18", "18-39", "40-64", "65+", "Unknown"])[age]
    written = init(str(write(tmp_path / "rows.csv", table)), output=str(tmp_path / "p.yaml"), label="y")
    found = load(written.file).config.features
    if rows < 2_000:
        assert (found["risk"].type, found["risk"].order) == ("ordinal", ("Low", "Medium", "High"))
        assert (found["age"].order, found["age"].indicator) == (("<18", "18-39", "40-64", "65+"), True)
        assert "3 words in order, Low to High" in written.text and "others are missing" in written.text
    else:  # one id per value tells as much, and the search says so
        assert (found["risk"].type, found["age"].type) == ("category", "category")
        assert "2 ranks of ordered words: " in next(x for x in written.summary if x.startswith("tried"))


def test_a_column_that_renames_the_values_of_another_is_left_out(tmp_path, random):
    """Codes and names of cities; a third column that parts the cities otherwise stays, and so does a rare remark."""
    city, x = random.integers(0, 12, ROWS), random.normal(size=ROWS)
    columns = {
        "city_code": [f"C{i:02}" for i in city],
        "x": x,
        "city_name": [f"Town of {'abcdefghijkl'[i]}" for i in city],
        "region": [f"R{i // 2}" for i in city],
        "odd": np.where(np.arange(ROWS) < 4, "a", "b"),
        "remark": np.where(np.arange(ROWS) < 4, "seen", "not"),
        "y": (x + city + random.normal(size=ROWS)).round(2),
    }
    written = init(
        str(write(tmp_path / "a.csv", columns)), output=str(tmp_path / "p.yaml"), label="y", search_seconds=0
    )
    assert set(load(written.file).config.features) == {"city_code", "x", "region", "odd", "remark"}
    assert "# one to one with city_code: each value goes with one of its values" in written.text
