"""What is wrong across sections."""

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet
import pytest

from fullpass.pipeline.authoring.checks.check import check, require
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests import REPOSITORY
from tests.pipeline.conftest import mistake, section

TRIPS = "fare,tips,company,started,hour,zone\n3.5,1,Acme,2024-02-29,7,12\n"

# Lines replaced in conftest.VALID, then what must be found: path, line, parts of the message.
MISTAKES = {
    "label is a feature": mistake({16: "  big_tipper: boolean"},
        "features.big_tipper", 16, "leaks the label", "big_tipper is what the model learns"),
    "derived from the label": mistake({7: "    big_tipper: tips > 0.2 * fare\n    twice: where(big_tipper, 2, 0)",
        15: "  twice: number"},
        "features.twice", 16, "leaks the label", "twice is computed from big_tipper"),
    "label can be computed": mistake({15: "  fare: number\n  tips: number"},
        "label.name", 12, "computed from fare, tips", "features.tips reads tips"),
    "label can be computed from a derived column": mistake({
        7: "    big_tipper: tips > 0.2 * fare\n    rate: tips / fare", 15: "  rate: number"},
        "label.name", 13, "features.rate reads fare, tips"),
    "regression of a condition": mistake({13: "  task: regression", 20: "    rmse: {max: 1}"},
        "label.task", 13, "binary"),
    "positive of a condition": mistake({13: "  task: binary\n  positive: 1"}, "label.positive", 14, "Remove it"),
    "weight of an unknown class": mistake({13: "  task: binary\n  class_weights: {yes: 2}"},
        "label.class_weights.yes", 14, "no such class", "Classes: 0, 1"),
    "weight is the label": mistake({13: "  task: binary\n  weight: big_tipper"},
        "label.weight", 14, "the label itself"),
    "name of a prediction": mistake({5: "    path: rated.csv",
        7: "    big_tipper: tips > 0.2 * fare\n    high: prediction > 1", 15: "  fare: number\n  high: number"},
        "features.high", 17, "reads prediction", "`fullpass predict` adds a column prediction", "Rename"),
    "name of a probability": mistake({5: "    path: rated.csv", 15: "  probability_1: number"},
        "features.probability_1", 15, "`fullpass predict` adds a column probability_1"),
    "whole numbers with the decimals of a comma": mistake({
        5: '    path: commas.csv\n    separator: ";"\n    decimal: ","',
        16: '  company: {type: category, vocabulary: {tokens: ["102,0", "2,5", "7.0"]}}'},
        "features.company.vocabulary.tokens", 18, '"102,0" is read as 102', 'Write "102"'),
    "misspelt function": mistake({7: "    big_tipper: tips > fare * lgo(fare)"},
        "data.derive.big_tipper", 7, 'Did you mean "log"?', "^"),
    "arithmetic on text": mistake({7: "    big_tipper: tips > company"},
        "data.derive.big_tipper", 7, 'string "company"', "types: {company: number}"),
    "text functions on a number": mistake({7: '    big_tipper: starts_with(zone, "1") and tips > 1'},
        "data.derive.big_tipper", 7, "types: {zone: string}"),
    "derived from itself": mistake({7: "    limit: limit + 1\n    big_tipper: tips > limit"},
        "data.derive.limit", 7, "reads itself"),
    "derived from below": mistake({7: "    big_tipper: tips > limit\n    limit: 0.2 * fare"},
        "data.derive.big_tipper", 7, "reads limit, which is defined below it"),
    "derived name of a column": mistake({7: "    big_tipper: tips > fare\n    zone: fare + 1"},
        "data.derive.zone", 8, "new name"),
    "derived text as a number": mistake({7: "    big_tipper: tips > fare\n    code: lower(company)",
        15: "  code: number"},
        "features.code", 16, "reads code as a number", "gives a string"),
    "no such column": mistake({15: "  fare: number\n  compani: category"},
        "features.compani", 16, 'Did you mean "company"?', "Columns: fare, tips"),
    "a column that is there twice": mistake({5: "    path: twice.csv"},
        "features.company", 16, 'the data has 2 columns "company"', "Rename one"),
    "no such column in a slice": mistake({20: "    auc: {min: 0.8}\n  slices: [[hor]]"},
        "evaluation.slices[0][0]", 21, 'Did you mean "hour"?'),
    "no such split column": mistake({10: "    column: trip_id"}, "data.split.column", 10, 'no column "trip_id"'),
    "no such column of missing texts": mistake({5: "    path: trips.csv\n    missing_in: {far: ['-1']}"},
        "data.source.missing_in.far", 6, 'no column "far" in the data', 'Did you mean "fare"?'),
    "no such column of a type": mistake({7: "    big_tipper: tips > fare\n  types: {zon: string}"},
        "data.types.zon", 8, 'no column "zon" in the data', 'Did you mean "zone"?'),
    "no such column of persons": mistake({7: "    big_tipper: tips > fare\n  personal: [fare, zon]"},
        "data.personal[1]", 8, 'no column "zon" in the data', 'Did you mean "zone"?'),
    "persons of a request log": mistake({4: "    format: serving_log", 5: "    path: logged",
        7: "    big_tipper: tips > fare\n  personal: [company, name]"},
        "features.company", 17, "reads company, which the request log does not hold", "Join it by log_id"),
    "a number and a date": mistake({17: "  started: {type: date, column: fare}"},
        "features", 14, "features.fare reads a number", "features.started reads a string"),
    "no such file": mistake({5: "    path: trip.csv"}, "data.source.path", 5, "trip.csv"),
    "a folder": mistake({4: "    format: jsonl", 5: "    path: ."}, "data.source.path", 5, "a folder"),
    "no such package": mistake({5: "    path: package:no_such/x.csv"}, "data.source.path", 5, "no_such"),
    "no such file of a split": mistake({5: "    path: {train: trips.csv, eval: none.csv}", 8: "", 9: "", 10: ""},
        "data.source.path.eval", 5, "none.csv"),
    "a file named twice": mistake({5: "    path: [trips.csv, ./trips.csv]"}, "data.source.path", 5, "named twice"),
    "no paths": mistake({5: "    path: []"}, "data.source.path", 5, "Received: nothing"),
    "another format": mistake({4: "    format: parquet"},
        "data.source.format", 4, "parquet, but trips.csv is not: it begins with"),
    "another separator": mistake({5: "    path: trips.tsv"},
        "data.source", 3, "one column only", 'Add separator: "\\t"'),
    "empty file": mistake({5: "    path: empty.csv"}, "data.source.path", 5, "empty.csv", "empty"),
    "no such function of a source": mistake({4: "    format: module", 5: "    function: own:rows"},
        "data.source.function", 5, "no function 'rows'", "Functions there: preprocess"),
    "function of a source that wants more": mistake({4: "    format: module", 5: "    function: own:preprocess"},
        "data.source.function", 5, "preprocess(columns) is called as preprocess()"),
    "no file of any span": mistake({5: "    path: trips-{YYYY}.csv"},
        "data.source.path", 5, "matches no file", "trips-["),
    "no date": mistake({5: "    path: trips-{YYYY}-{DD}.csv"}, "data.source.path", 5, "{DD} but no {MM}"),
    "one path of several without spans": mistake({5: '    path: [trips.csv, "span-{SPAN}.csv"]'},
        "data.source.path", 5, "'trips.csv' has no span fields"),
    "no such span column": mistake({10: "    ratios: {train: 8, eval: 2}\n  span: {column: start}"},
        "data.span.column", 11, 'no column "start"', 'Did you mean "started"?'),
    "a span column without dates": mistake({
        10: "    ratios: {train: 8, eval: 2}\n  span: {column: company, unit: month}"},
        "data.span", 11, "no row contains a span", "no date in the format iso"),
    "spans by path and by column": mistake({5: '    path: "span-{SPAN}.csv"',
        10: "    ratios: {train: 8, eval: 2}\n  span: {column: started}"},
        "data.span", 11, "source.path already has span fields"),
    "a window without spans": mistake({10: "    ratios: {train: 8, eval: 2}\n  window: {spans: 3}"},
        "data.window.spans", 11, "no spans", "{YYYY}"),
    "no eval split": mistake({10: "    ratios: {train: 8, validation: 2}"},
        "data.split.ratios", 10, "no eval split", "Rename validation to eval"),
    "no train split": mistake({10: "    ratios: {test: 8, eval: 2}"},
        "data.split.ratios", 10, "no train split", "Add it"),
    "odd split name": mistake({10: "    ratios: {train: 8, eval: 1, a/b: 1}"},
        "data.split.ratios.a/b", 10, "letters, digits"),
    "unreadable limit": mistake({9: "    method: time", 10: "    column: started\n    until: {train: 1 March}"},
        "data.split.until.train", 11, '"1 March"', "iso"),
    "limits out of order": mistake({9: "    method: time",
        10: "    column: started\n    until: {train: 2024-03-01, test: 2024-02-01}"},
        "data.split.until.test", 11, "not later"),
    "rest named as another": mistake({9: "    method: time",
        10: "    column: started\n    until: {train: 2024-03-01, eval: 2024-03-02}"},
        "data.split.until", 11, "two splits are named eval"),
    "a value of two splits": mistake({9: "    method: column",
        10: "    column: company\n    values: {train: [a, b], eval: b}"},
        "data.split.values.eval", 11, '"b" already belongs to train'),
    "classes of a regression": mistake({9: "    method: stratified", 12: "  name: tips", 13: "  task: regression",
        20: "    rmse: {max: 1}"},
        "data.split", 8, "tips is a number, not one of several classes", "Name a column"),
    "classes of several at once": mistake({9: "    method: stratified", 12: "  name: company",
        13: "  task: multilabel\n  separator: '|'", 16: ""},
        "data.split", 8, "company holds several classes per row"),
    "split by a derived column": mistake({10: "    column: big_tipper"},
        "data.split.column", 10, "rows are split before"),
    "cross of nothing": mistake(section("crosses: [{inputs: [company, hours]}]"),
        "crosses[0].inputs[1]", 18, 'no feature "hours"', "Features: fare, company, started"),
    "cross of a number": mistake(section("crosses: [{inputs: [company, fare]}]"),
        "crosses[0].inputs[1]", 18, "fare is a number", "bucketize"),
    "cross of a date": mistake(section("crosses: [{inputs: [company, started]}]"),
        "crosses[0].inputs[1]", 18, "started.month, started.day_of_week, started.hour"),
    "cross of an unknown part": mistake(section("crosses: [{inputs: [company, started.hours]}]"),
        "crosses[0].inputs[1]", 18, 'Did you mean "hour"?'),
    "cross of a cyclic part": mistake({17: "  started: {type: date, cyclic: true}",
        18: "crosses: [{inputs: [company, started.hour]}]\nevaluation:"},
        "crosses[0].inputs[1]", 18, "not an id", "cyclic"),
    "cross of several values": mistake({16: '  company: {type: category, separator: "|"}',
        18: "crosses: [{inputs: [company, started.hour]}]\nevaluation:"},
        "crosses[0].inputs[0]", 18, "several values per row"),
    "cross of a cross": mistake(
        section("crosses:\n- {name: a, inputs: [company, started.hour]}\n- {inputs: [a, company]}"),
        "crosses[1].inputs[0]", 20, "a cross itself"),
    "names that collide": mistake({
        15: "  fare: {type: number, indicator: true}\n  fare.missing: {type: number, column: hour}"},
        'features["fare.missing"]', 16, "fare.missing_xf", "as features.fare does"),
    "crosses of one name": mistake(
        section("crosses:\n- {inputs: [company, started.hour]}\n- {inputs: [company, started.hour]}"),
        "crosses[1]", 20, "as crosses[0] does"),
    "no vocabulary file": mistake({16: "  company: {type: category, vocabulary: {file: companies.txt}}"},
        "features.company.vocabulary.file", 16, "no such file"),
    "embedding shared with nobody": mistake({16: "  company: {type: category, encoding: {shared: firm}}"},
        "features.company.encoding.shared", 16, "no other feature shares firm"),
    "embedding of different ids": mistake({
        16: "  company: {type: category, encoding: {shared: z}}\n  zone: {type: category, encoding: {shared: z}}"},
        "features.zone.encoding.shared", 17, "features.company assigns ids in another way"),
    "embedding of two widths": mistake({
        15: "  zone: {type: category, identity: {size: 9}, encoding: {embedding: 4, shared: z}}",
        16: "  hour: {type: category, identity: {size: 9}, encoding: {embedding: 8, shared: z}}"},
        "features.hour.encoding.embedding", 16, "another width"),
    "crosses beside a function": mistake(
        section("preprocessing: own:preprocess\ncrosses: [{inputs: [company, started.hour]}]"),
        "crosses", 19, "not used"),
    "transforms beside a function": mistake({16: "  company: {type: category, column: zone, lowercase: true}",
        **section("preprocessing: own:preprocess")},
        "features.company.lowercase", 16, "not used: `preprocessing` replaces", "compute it in that function"),
    "slots kept by spans where there are none": mistake({
        16: "  company: {type: category, vocabulary: {stable_ids: {keep_spans: 9}}}"},
        "features.company.vocabulary.stable_ids.keep_spans", 16, "the source has no spans", "or give keep_models"),
    "a vocabulary shared with itself": mistake({
        16: "  company: {type: category, vocabulary: {shared_with: company}}"},
        "features.company.vocabulary.shared_with", 16, "company is this feature itself", "Name another category"),
    "stable ids of a function of one's own": mistake(section("stable_ids: true\npreprocessing: own:preprocess"),
        "stable_ids", 18, "`preprocessing` replaces the transforms"),
    "a warm start from nothing": mistake(section("training: {warm_start: serving/7}"),
        "training.warm_start", 18, "no exported model in", "serving/7", "Accepted: none, blessed"),
    "slice of a derived column": mistake({20: "    auc: {min: 0.8}\n  slices: [[big_tipper]]"},
        "evaluation.slices[0][0]", 21, "a derived column"),
    "slice of a vector": mistake({15: "  zone: {type: vector, width: 2}",
        20: "    auc: {min: 0.8}\n  slices: [[zone]]"},
        "evaluation.slices[0][0]", 21, "zone holds several values"),
    "slice twice": mistake({20: "    auc: {min: 0.8}\n  slices: [[hour], [hour]]"},
        "evaluation.slices[1]", 21, "is already given above"),
    "empty slice": mistake({20: "    auc: {min: 0.8}\n  slices: [[]]"}, "evaluation.slices[0]", 21, "always measured"),
    "no such module": mistake(section("model: {kind: module, function: no_such_module:build}"),
        "model.function", 18, "no module 'no_such_module'"),
    "smoothed numbers": mistake({7: "    tip_rate: tips / fare", 12: "  name: tip_rate", 13: "  task: regression",
        18: "training: {label_smoothing: 0.1}\nevaluation:", 20: "    rmse: {max: 1}"},
        "training.label_smoothing", 18, "regression"),
    "decision of a number": mistake({7: "    tip_rate: tips / fare", 12: "  name: tip_rate", 13: "  task: regression",
        19: "  decision: {metric: f1}\n  thresholds:", 20: "    rmse: {max: 1}"},
        "evaluation.decision", 19, "is for binary labels", "regression"),
    "metric of one of two classes": mistake({20: '    "recall[yes]": {min: 0.5}'},
        'evaluation.thresholds["recall[yes]"]', 20, "recall[yes] is for multiclass and multilabel", "binary"),
    "loss of another task": mistake(section("training: {loss: poisson}"),
        "training.loss", 18, "poisson is not for binary", "auto, focal"),
    "pushed into the root": mistake(section("push: {to: runs/serving}"), "push.to", 18, "inside root (runs)"),
    "root in the home directory": mistake(section("root: ~/runs"), "root", 18, "Write it out", "~/runs"),
    "root inside what is pushed": mistake(section("root: serving/runs"), "root", 18, "inside push.to (serving)"),
    "pushed to an address": mistake(section("push: {to: s3://bucket/serving}"),
        "push.to", 18, "folder on this machine", "s3://bucket/serving"),
    "root at an address": mistake(section("root: gs://bucket/runs"),
        "root", 18, "folder on this machine", "gs://bucket/runs"),
    "misspelt runner": mistake(section("beam: {runner: flnk}"), "beam.runner", 18, 'Did you mean "flink"?'),
    "workers of another runner": mistake(section("beam: {runner: flink, workers: 4}"), "beam.workers", 18, "direct"),
    "option with dashes": mistake(section("beam: {options: {--region: x}}"), "beam.options.--region", 18, "region."),
    "option of our own": mistake(section("beam: {options: {direct_num_workers: 2}}"),
        "beam.options.direct_num_workers", 18, "beam.workers"),
    "limits of a column that nothing reads": mistake(section("gates: {drift: {features: {fere: ignore}}}"),
        "gates.drift.features.fere", 18, 'Did you mean "fare"?', "Accepted: company, fare, started, tips."),
    "limits of the label among the features": mistake(section("gates: {drift: {features: {big_tipper: {js: 0.1}}}}"),
        "gates.drift.features.big_tipper", 18, "gates.label"),
    "limits of a derived column": mistake({7: "    rate: tips / fare\n    big_tipper: rate > 0.2",
        18: "gates: {drift: {features: {rate: ignore}}}\nevaluation:"},
        "gates.drift.features.rate", 19, "derived column"),
    "a policy that there is none of": mistake(section("gates: {drift: {policy: halt}}"),
        "gates.drift.policy", 18, "halt", "stop"),
    "a limit out of range": mistake(section("gates: {drift: {js: 2.0}}"),
        "gates.drift.js", 18, "2.0", "above 0 and at most 1"),
    "limits that say nothing": mistake(section("gates: {drift: {features: {fare: {}}}}"),
        "gates.drift.features.fare", 18, "js, linf, max_missing_change"),
}  # fmt: skip

# Lines replaced, then what is allowed though it looks like a mistake.
ALLOWED = {
    "a label's input as a feature": {},
    "the other input as a feature": {15: "  tips: number"},
    "a cross of parts and buckets": {
        15: "  fare: {type: number, transforms: [{bucketize: {buckets: 4}}]}",
        18: "crosses: [{inputs: [fare, started.hour]}, {inputs: [fare, company]}]\nevaluation:",
    },
    "an embedding of equal ids": {
        16: "  zone: {type: category, identity: {size: 9}, encoding: {shared: z}}\n"
        "  hour: {type: category, identity: {size: 9}, encoding: {shared: z}}"
    },
    "an upper bound where more is better": {20: "    auc: {min: 0.8, max: 0.999}"},
    "two features of one column": {15: "  fare: number\n  fare_bucket: {type: count, column: fare}"},
    "a runner of Beam's": {18: "beam: {runner: PortableRunner}\nevaluation:"},
    "a manifest of images": {4: "    format: images", 5: "    path: manifest.csv\n    labels: manifest"},
    "a probability of something else": {5: "    path: rated.csv", 15: "  probability_of_rain: number"},
    "credentials as columns": {15: "  fare: number\n  token: {type: category, column: company}"},
}


def test_a_path_that_is_no_file_says_what_it_is(folder, edited, problems_of):
    os.mkfifo(folder / "pipe.csv")
    (folder / "link.csv").symlink_to("gone.csv")
    for name, says in (("pipe.csv", "is a pipe or a device"), ("link.csv", "a link to gone.csv, which does not exist")):
        (problem,) = problems_of(edited({5: f"    path: {name}"}))
        assert says in problem.message and "Did you mean" not in problem.message


@pytest.fixture(autouse=True)
def own_module(folder):
    (folder / "own.py").write_text("def preprocess(columns):\n    return columns\n")
    (folder / "trips.tsv").write_text(TRIPS.replace(",", "\t"))
    (folder / "empty.csv").write_text("")
    (folder / "span-1.csv").write_text(TRIPS)
    (folder / "commas.csv").write_text("fare;tips;company;started;hour;zone\n3,5;1;Acme;2024-02-29;7;12\n")
    (folder / "twice.csv").write_text("fare,tips,company,company,started\n")
    (folder / "logged").write_text('{"log_id": "a", "fare": 1.5, "tips": 0.5, "started": "2024-02-29"}\n')
    (folder / "rated.csv").write_text("fare,tips,company,started,prediction,probability_1,probability_of_rain\n")
    (folder / "manifest.csv").write_text("file,tips,fare,company,started\na.png,1,2,a,2024-01-01\n")


@pytest.mark.integration
@pytest.mark.parametrize(("lines", "path", "line", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place_and_its_remedy(assert_told, lines, path, line, says):
    assert_told(lines, path, line, says)


@pytest.mark.parametrize("lines", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_is_no_mistake_passes(edited, problems_of, lines):
    assert problems_of(edited(lines)) == ()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("tips > 1 and zone", "Compare it, as in fare > 0."),  # of neither type is it a condition
        ("past_mean(zone) > 1", "Name a list of data.history"),
        ("tips > number(substr(company, fare))", "start must be a whole-number literal"),
    ],
)
def test_a_type_is_not_proposed_where_it_mends_nothing(edited, problems_of, expression, says):
    (problem,) = (
        p for p in problems_of(edited({7: f"    big_tipper: {expression}"})) if p.path == "data.derive.big_tipper"
    )
    assert says in problem.message and "types:" not in problem.message


def test_a_circle_of_derived_columns_is_named_at_each(edited, problems_of):
    problems = problems_of(edited({7: "    a: b + 1\n    b: a + 1\n    big_tipper: tips > a"}))
    assert [(problem.path, problem.message) for problem in problems] == [
        ("data.derive.a", "is computed from itself, by way of b."),
        ("data.derive.b", "is computed from itself, by way of a."),
    ]


def test_stable_ids_of_no_vocabulary_are_a_warning(edited):
    lines = {16: "  company: {type: category, hash: {buckets: 9}}", 18: "stable_ids: true\nevaluation:"}
    (problem,) = require(load(edited(lines)))
    assert (problem.path, problem.severity) == ("stable_ids", "warning")
    assert "no feature learns a vocabulary" in problem.message


def test_an_unused_derived_column_is_a_warning(edited):
    (problem,) = check(load(edited({7: "    big_tipper: tips > 0.2 * fare\n    odd: zone + 1"})))
    assert (problem.path, problem.line, problem.severity) == ("data.derive.odd", 8, "warning")


def test_errors_are_raised_with_the_warnings(edited):
    file = edited({18: "schedule: {poll: 5m}\nevaluation:", 20: "    acu: {min: 0.8}"})
    with pytest.raises(ConfigError) as caught:
        require(load(file))
    assert [problem.severity for problem in caught.value.problems] == ["warning", "error"]


def test_columns_of_a_parquet_file_are_known(edited, folder, problems_of):
    table = pa.table({"fare": [1.0], "tips": [1.0], "company": ["a"], "start": ["2024-01-01"]})
    pyarrow.parquet.write_table(table, folder / "trips.parquet")
    (problem,) = problems_of(edited({4: "    format: parquet", 5: "    path: trips.parquet"}))
    assert problem.path == "features.started"
    assert 'Did you mean "start"?' in problem.message


def test_columns_that_the_yaml_names_are_known(edited, problems_of):
    columns = "    columns: [fare, tips, company, start]"
    (problem,) = problems_of(edited({5: f"    path: trips.csv\n{columns}"}))
    assert 'Did you mean "start"?' in problem.message


@pytest.mark.parametrize("declared", ["jsonl", "csv"])
def test_the_format_is_that_of_the_content_not_of_the_name(edited, folder, problems_of, declared):
    (folder / "trips.txt").write_text('{"fare": 1, "tips": 1, "company": "a", "start": "2024-01-01"}\n')
    found = problems_of(edited({4: f"    format: {declared}", 5: "    path: trips.txt"}))
    assert [problem.message for problem in found if problem.path == "data.source.format"] == (
        [] if declared == "jsonl" else ["csv, but trips.txt is jsonl."]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("a\nb\na\n", "'a' is on lines 1 and 3"),
        ("rome\n\noslo\n", "line 2: empty"),
        ("a\x0bb\nc\u2028b\nd\x85b\n", None),
    ],
    ids=["empty", "twice", "blank_line", "fine"],
)
def test_a_vocabulary_file_is_read_as_in_the_run(edited, folder, problems_of, text, says):
    (folder / "companies.txt").write_bytes(text.encode())
    found = problems_of(edited({16: "  company: {type: category, vocabulary: {file: companies.txt}}"}))
    assert [problem.message for problem in found if says and says in problem.message] == [p.message for p in found]
    assert bool(found) == (says is not None)


@pytest.mark.parametrize("example", ["taxi", "flights", "joins"])
def test_the_examples_are_right(example):
    assert check(load(REPOSITORY / "examples" / example / "pipeline.yaml")) == ()


def test_the_example_of_a_custom_model_is_right(tmp_path):
    example = REPOSITORY / "examples" / "custom_model"
    for name in ("pipeline.yaml", "census_model.py"):
        (tmp_path / name).write_text((example / name).read_text())
    row = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, Peru, <=50K\n"
    )
    (tmp_path / "data").mkdir()
    for name in ("adult-train.csv", "adult-test.csv"):
        (tmp_path / "data" / name).write_text(row + row.replace("<=50K", ">50K."))
    assert check(load(tmp_path / "pipeline.yaml")) == ()


def test_gaps_and_a_window_that_is_not_full_yet_are_warnings(edited, folder):
    for day in (1, 2, 4):
        (folder / f"2024-01-0{day}.csv").write_text(TRIPS)
    lines = {5: '    path: "{YYYY}-{MM}-{DD}.csv"', 10: "    ratios: {train: 8, eval: 2}\n  window: {spans: 9}"}
    found = check(load(edited(lines)))
    assert [(p.path, p.severity, p.message) for p in found] == [
        ("data.window", "warning", "these spans of the window are missing: 2024-01-03."),
        ("data.window.spans", "warning", "the window has 9 spans, but the source has 3 so far."),
    ]
    lines[10] = "    ratios: {train: 8, eval: 2}\n  window: {spans: 2}"
    assert [p.message for p in check(load(edited(lines)))] == ["these spans of the window are missing: 2024-01-03."]
    lines[10] = "    ratios: {train: 8, eval: 2}"
    assert check(load(edited(lines))) == ()


def test_a_window_is_too_long_for_the_spans_up_to_the_requested_one_only(edited, folder):
    for day in range(1, 6):
        (folder / f"2024-01-0{day}.csv").write_text(TRIPS)
    loaded = load(edited({5: '    path: "{YYYY}-{MM}-{DD}.csv"\n  window: {spans: 3}'}))
    assert check(replace(loaded, span="2024-01-04:2024-01-05")) == (), "a range has its own length"
    assert check(replace(loaded, span="2024-01-03")) == ()
    (found,) = check(replace(loaded, span="2024-01-02"))
    assert found.message == "the window has 3 spans, but the source has 2 up to 2024-01-02."


def test_the_data_of_the_requested_span_is_checked_and_not_that_of_a_newer_one_which_still_arrives(edited, folder):
    for day in (1, 2):
        (folder / f"2024-01-0{day}.csv").write_text(TRIPS)
    (folder / "2024-01-04.csv").write_text("fare;ti")
    loaded = load(edited({5: '    path: "{YYYY}-{MM}-{DD}.csv"'}))
    (found,) = check(loaded)
    assert found.severity == "error" and "2024-01-04.csv has one column only" in found.message
    assert check(replace(loaded, span="2024-01-02")) == check(replace(loaded, span="2024-01-01:2024-01-02")) == ()
    assert check(replace(loaded, span="2024-01-03")) == (found,), "the run tells that there is no such span"
