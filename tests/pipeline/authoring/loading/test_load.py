"""What is wrong inside one section: line, path, what was received, what is accepted, how to mend it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem, format_path
from tests.pipeline.conftest import mistake, section

# Lines replaced in conftest.VALID, then what must be found: path, line, parts of the message.
MISTAKES = {
    "name with capitals": mistake({1: "name: Taxi"}, "name", 1, "lower-case", 'text "Taxi"'),
    "name that Kubeflow refuses": mistake({1: "name: taxi-"}, "name", 1, "inner dashes", 'text "taxi-"'),
    "misspelt section": mistake({14: "featurs:"}, "featurs", 14, 'Did you mean "features"?'),
    "key of another section": mistake({18: "thresholds:", 19: "  x: 1", 20: ""},
        "thresholds", 18, "belongs under evaluation"),
    "a positive class that is no text": mistake({13: "  task: binary\n  positive: true"},
        "label.positive", 14, "Received: true. Accepted: text or a number. Put it in quotes."),
    "misspelt key": mistake({5: "    path: trips.csv\n    missng: [x]"},
        "data.source.missng", 6, 'Did you mean "missing"?'),
    "unknown key of a feature": mistake({15: "  fare: {type: number, transform: [log1p]}"},
        "features.fare.transform", 15, 'Did you mean "transforms"?',
        "Accepted: type, column, compute_at, missing, indicator, transforms, encoding"),
    "misspelt format": mistake({4: "    format: cvs"},
        "data.source.format", 4, '"cvs"', 'Did you mean "csv"?', "parquet"),
    "no format": mistake({4: ""}, "data.source", 3, "the key format is missing", "source: {format: csv"),
    "misspelt method": mistake({9: "    method: hsh"}, "data.split.method", 9, 'Did you mean "hash"?'),
    "bare split": mistake({8: "  split: hash", 9: "", 10: ""}, "data.split", 8, 'text "hash"', "split: {method: hash"),
    "bare label": mistake({11: "label: big_tipper", 12: "", 13: ""},
        "label", 11, "label: {name: big_tipper, task: binary}"),
    "no task": mistake({13: ""}, "label.task", 11, "missing", '"binary"', '"regression"'),
    "misspelt task": mistake({13: "  task: binnary"}, "label.task", 13, 'text "binnary"', 'Did you mean "binary"?'),
    "list of features": mistake({14: "features: [fare, company]", 15: "", 16: "", 17: ""},
        "features", 14, "a list of 2", "features: {fare: number, company: category}"),
    "no features": mistake({14: "features: {}", 15: "", 16: "", 17: ""}, "features", 14, "an empty mapping"),
    "misspelt feature type": mistake({16: "  company: categroy"}, "features.company", 16, 'Did you mean "category"?'),
    "no feature type": mistake({15: "  fare: {missing: mean}"}, "features.fare", 15, "the key type is missing"),
    "number as feature type": mistake({15: "  fare: 5"}, "features.fare", 15, "the number 5", "Accepted types: number"),
    "empty feature": mistake({15: "  fare:"}, "features.fare", 15, "nothing (null)", "fare: {type: number"),
    "bare type that needs keys": mistake({15: "  fare: {type: duration, start: a}"},
        "features.fare.end", 15, "missing"),
    "bare transform": mistake({15: "  fare: {type: number, transforms: z_score}"},
        "features.fare.transforms", 15, 'text "z_score"', "Write a list: [z_score]"),
    "misspelt transform": mistake({15: "  fare:\n    type: number\n    transforms:\n    - log1p\n    - z_scor"},
        "features.fare.transforms[1]", 19, 'unknown transform "z_scor"', 'Did you mean "z_score"?'),
    "transform of another type": mistake({15: "  fare: {type: number, transforms: [{pca: {dimensions: 2}}]}"},
        "features.fare.transforms[0]", 15, 'unknown transform "pca"', "log1p, sqrt, power"),
    "transform that needs keys": mistake({15: "  fare: {type: number, transforms: [power]}"},
        "features.fare.transforms[0].power.exponent", 15, "missing", "a number"),
    "two transforms in one item": mistake({15: "  fare: {type: number, transforms: [{log1p: {}, sqrt: {}}]}"},
        "features.fare.transforms[0]", 15, "one transform per item", "log1p, sqrt"),
    "text for a number": mistake({15: '  fare: {type: number, transforms: [{clip: {min: "0"}}]}'},
        "features.fare.transforms[0].clip.min", 15, 'text "0"', "a number", "Remove the quotes"),
    "bounds in the wrong order": mistake({15: "  fare: {type: number, transforms: [{clip: {min: 5, max: 2}}]}"},
        "features.fare.transforms[0].clip", 15, "min must be below max"),
    "misspelt word": mistake({15: "  fare: {type: number, missing: medain}"},
        "features.fare.missing", 15, '"median"', "or a number", 'Did you mean "median"?'),
    "yes for true": mistake({15: "  fare: {type: number, indicator: yes}"},
        "features.fare.indicator", 15, 'text "yes"', "true or false", "write true"),
    "number for text": mistake({16: "  company: {type: category, vocabulary: {tokens: [a, 7]}}"},
        "features.company.vocabulary.tokens[1]", 16, "the number 7", "Put it in quotes"),
    "ordinal without an order": mistake({16: "  company: ordinal"}, "features.company.order", 16, "missing"),
    "empty order": mistake({16: "  company: {type: ordinal, order: []}"}, "features.company.order", 16, "at least 2"),
    "order of numbers": mistake({16: "  company: {type: ordinal, order: [1, 2]}"},
        "features.company.order[0]", 16, "the number 1", "Put it in quotes"),
    "a word twice in an order": mistake({16: '  company: {type: ordinal, order: ["7", low, "7.0"]}'},
        "features.company.order", 16, "every word must be listed only once; '7' and '7.0' are one token"),
    "two ways to ids": mistake({16: "  company: {type: category, hash: {buckets: 9}, identity: {size: 3}}"},
        "features.company", 16, "give one of vocabulary, hash, identity"),
    "misspelt key deep inside": mistake({16: "  company: {type: category, encoding: {embeding: 8}}"},
        "features.company.encoding.embeding", 16, 'Did you mean "embedding"?'),
    "number out of range": mistake({16: "  company: {type: category, encoding: {embedding: 0}}"},
        "features.company.encoding.embedding", 16, "the number 0", '"auto" or a whole number of at least 1'),
    "unknown date directive": mistake({17: '  started: {type: date, format: "%Y-%q"}'},
        "features.started.format", 17, "%q", "Accepted: %Y"),
    "unknown part of a date": mistake({17: "  started: {type: date, parts: [mont]}"},
        "features.started.parts", 17, "'mont'"),
    "model of another name": mistake(section("model: {kind: xgboost}"),
        "model.kind", 18, 'unknown kind "xgboost". Did you mean "trees"?'),
    "misspelt model": mistake(section("model: wide_dep"), "model", 18, 'Did you mean "wide_deep"?'),
    "key of another model": mistake(section("model: {kind: linear, hidden: [5]}"),
        "model.hidden", 18, "unknown key", "Accepted: kind, l1, l2"),
    "no import path": mistake(section("model: {kind: module, function: my_model.build}"),
        "model.function", 18, "an import path such as package.module:function"),
    "fraction for a count": mistake(section("training: {epochs: 1.5}"), "training.epochs", 18, "a whole number"),
    "bare threshold": mistake({20: "    auc: 0.8"},
        "evaluation.thresholds.auc", 20, "the number 0.8", "auc: {min: 0.8, not_worse_than: blessed}"),
    "empty threshold": mistake({20: "    auc: {}"}, "evaluation.thresholds.auc", 20, "at least one of min, max"),
    "tolerance alone": mistake({20: "    auc: {min: 0.8, tolerance: 0.1}"},
        "evaluation.thresholds.auc", 20, "tolerance requires not_worse_than"),
    "bare slice": mistake({20: "    auc: {min: 0.8}\n  slices: [hour]"},
        "evaluation.slices[0]", 21, "Write a list: [hour]"),
    "one cross as a mapping": mistake(section("crosses: {inputs: [a]}"), "crosses", 18, "a dash"),
    "cross of one": mistake(section("crosses: [{inputs: [company]}]"), "crosses[0].inputs", 18, "at least 2"),
    "four fields of cron": mistake(section('schedule: {cron: "0 3 * *"}'), "schedule.cron", 18, "five fields"),
    "hour 25": mistake(section('schedule: {cron: "0 25 * * *"}'), "schedule.cron", 18, "hour takes 0 to 23"),
    "stands twice": mistake({17: "  fare: category"}, "features.fare", 17, "is given twice, first in line 15"),
    "variable": mistake({5: "    path: ${HOME}/trips.csv"}, "data.source.path", 5, "${HOME}", "not substituted"),
    "credential": mistake(section("beam: {options: {api_key: hunter2}}"),
        "beam.options.api_key", 18, "credential", "environment"),
    "credential in the name of a column": mistake(section("beam: {options: {'redis://:hunter2@cache/0': 1}}"),
        "beam.options", 18, "a name in it", "a login"),
    "credential under an unknown key": mistake(section("password: hunter2"), "password", 18, "credential"),
    "login in an address": mistake(section("beam: {options: {flink_master: 'http://me:hunter2@host'}}"),
        "beam.options.flink_master", 18, "a login"),
    "infinity": mistake({15: "  fare: {type: number, missing: .inf}"}, "features.fare.missing", 15, "no finite number"),
    "infinity as a bound": mistake({15: "  fare: {type: number, transforms: [{bucketize: {boundaries: [1, .inf]}}]}"},
        "features.fare.transforms[0].bucketize.boundaries[1]", 15, "no finite number"),
    "beyond float32": mistake({15: "  fare: {type: number, missing: 1e39}"},
        "features.fare.missing", 15, "1e+39 is outside the range of float32: up to 3.40282e+38"),
    "beyond 64 bits": mistake(section("training: {epochs: 9223372036854775808}"),
        "training.epochs", 18, "9223372036854775808 does not fit into 64 bits", "up to 9223372036854775807"),
    "seed beyond 32 bits": mistake(section("training: {seed: 4294967296}"),
        "training.seed", 18, "the number 4294967296", "from 0 to 4294967295"),
    "tag of Python": mistake({15: "  fare: !!python/name:os.system number"}, "features.fare", 15, "tags", "remove it"),
    "list as key": mistake({15: "  ? [a, b]\n  : number"}, "features", 15, "a list cannot be a key"),
    "template": mistake({15: "  fare: {{ type }}"}, "features.fare", 15, "a mapping cannot be a key", "in quotes"),
    "empty name": mistake({15: '  "": number'}, 'features[""]', 15, "must not be empty"),
    "files and split": mistake({5: "    path: {train: trips.csv, eval: trips.csv}"},
        "data", 2, "split has no effect; remove one of them"),
}  # fmt: skip

# Lines replaced, line of the error, column, parts of the message.
NO_YAML = {
    "two colons": ({7: "    big_tipper: tips: 5"}, 7, 21, ["in quotes", "big_tipper: tips: 5"]),
    "tab": ({15: "\tfare: number"}, 15, 1, ["a tab", "blanks only"]),
    "open quote": ({5: "    path: 'trips.csv"}, 5, 11, ["never closed"]),
    "open bracket": ({15: "  fare: {type: number, transforms: [log1p}"}, 15, 36, ["not closed"]),
    "comma in text": (
        {15: '  fare: {type: number, column: min(fare, "x")}'},
        15,
        9,
        ["text with a comma but no quotes"],
    ),
    "indentation": ({17: " started: date"}, 17, 2, ["this indentation fits no level above it"]),
    "percent": ({15: "  fare: %number"}, 15, 9, ["Put it in quotes"]),
    "unknown alias": ({15: "  fare: *number"}, 15, 9, ["no anchor", "in quotes"]),
    "backslash": ({5: '    path: "C:\\qata"'}, 5, 15, ["single quotes"]),
    "nothing after a bracket": ({20: "    auc: ["}, 21, 1, ["a value or a closing bracket is missing"]),
    "two documents": ({14: "---\nfeatures:"}, 14, 1, ["one"]),
}


NOT_OURS = ("Input should", "pydantic", "hunter2", "https://", "validation error", "tagged-union")


@pytest.mark.parametrize(("lines", "path", "line", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place_and_its_remedy(edited, problems_of, lines, path, line, says):
    problems = problems_of(edited(lines))
    found = [problem for problem in problems if problem.path == path]
    assert [problem.line for problem in found] == [line], problems
    assert [part for part in says if part not in found[0].message] == [], found[0].message
    text = "\n".join(problem.message for problem in problems)
    assert [words for words in NOT_OURS if words in text] == []


@pytest.mark.parametrize(("lines", "line", "column", "says"), NO_YAML.values(), ids=NO_YAML.keys())
def test_broken_yaml_is_shown_where_it_breaks(edited, problems_of, lines, line, column, says):
    (problem,) = problems_of(edited(lines))
    assert (problem.path, problem.line) == ("", line), problem
    assert f"column {column}:" in problem.message, problem.message
    assert [part for part in says if part not in problem.message] == [], problem.message


def test_all_problems_come_at_once_in_file_order(edited):
    file = edited({4: "    format: cvs", 13: "  task: binnary", 15: "  fare: numbr", 20: "    auc: 0.8"})
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert [problem.line for problem in caught.value.problems] == [4, 13, 15, 20]
    assert str(caught.value).splitlines()[1].startswith(f"{file}:13: label.task: Received: text")


def test_an_unknown_key_does_not_hide_what_else_is_wrong_with_it(edited, problems_of):
    problems = problems_of(edited({5: "    path: 5", 6: "  derived:"}))
    assert [problem.path for problem in problems] == ["data.source.path", "data.derived"]


MULTIPLYING_ALIASES = "\n".join(
    ["a: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
)
CHANNELS = """\
name: x
data: {source: {format: images, path: ., decode: {height: 2, width: 2, channels: 2}}}
label: {name: label, task: multiclass, classes: [a, b]}
features: {pixels: {type: vector, width: 12}}
"""
# The whole text of a file, and what is said of it.
REFUSED = {
    "nothing": ("# nothing yet\n", r"the file is empty.*(?s:.)*label: \{name: big_tipper, task: binary\}"),
    "a list": ("- a\n- b\n", "a list of 2"),
    "a text": ("hello", 'text "hello"'),
    "a number": ("5", "number 5"),
    "deep nesting": ("name: " + "[" * 400 + "]" * 400, "nested too deeply"),
    "deep indentation": ("".join("\n" + " " * i + "name:" for i in range(150)), "nested too deeply, over 100 levels"),
    "braces and brackets": ("name: " + "{a: [" * 200 + "]}" * 200, "nested too deeply"),
    "a table instead": ("a,b\n" + "1,2\n" * 250_000, "1,000,004 characters; at most 1,000,000"),
    "two merges": ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", r"pipeline.yaml:4: b: << is given twice, first in line 3"),
    "aliases that multiply": (MULTIPLYING_ALIASES, "aliases multiply"),
    "an alias of what holds it": ("name: &x [*x]\n", "an alias of something that holds it"),
    "a number of a few": (CHANNELS, "data.source.decode.channels: Received: the number 2. Accepted: 1 or 3."),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_is_refused_with_what_is_wrong_with_it(tmp_path, text, says):
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load(file)


def test_a_missing_file_points_at_one_nearby(edited):
    file = edited()
    with pytest.raises(ConfigError, match=r'no such file\. Did you mean ".*pipeline\.yaml"\?'):
        load(file.with_name("pipelin.yml"))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no folder .*nowhere either"):
        load(tmp_path / "nowhere" / "pipeline.yaml")


def test_a_folder_points_at_the_file_in_it(edited):
    with pytest.raises(ConfigError, match=r'is a folder.*Did you mean ".*pipeline\.yaml"\?'):
        load(edited().parent)


def test_another_encoding_is_named_with_its_line(tmp_path, problems_of):
    file = tmp_path / "pipeline.yaml"
    file.write_bytes("name: taxi\nlabel: größe\n".encode("latin-1"))
    (problem,) = problems_of(file)
    assert problem.line == 2
    assert "0xf6 is not UTF-8" in problem.message


def test_a_byte_order_mark_is_read_over(edited):
    file = edited()
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load(file).config.name == "taxi"


def test_a_control_character_is_named(edited, problems_of):
    (problem,) = problems_of(edited({15: "  fare: num\x01ber"}))
    assert problem.line == 15
    assert "U+0001" in problem.message


def test_keys_and_dates_are_text_as_written(edited):
    file = edited({13: "  task: binary\n  class_weights: {0: 1, 1: 5}", 16: "  2024-01-01: number\n  no: boolean"})
    config = load(file).config
    assert config.label.class_weights == {"0": 1.0, "1": 5.0}
    assert list(config.features) == ["fare", "2024-01-01", "no", "started"]


def test_numbers_are_those_of_yaml_1_2(edited):
    file = edited({15: "  fare: {type: number, transforms: [{clip: {min: -1e-3, max: 0x1F}}]}"})
    (clip,) = load(file).config.features["fare"].transforms
    assert (clip.min, clip.max) == (-0.001, 31.0)


def test_anchors_and_merges_are_followed_and_own_keys_win(edited):
    money = "{type: number, missing: median, indicator: true}"
    file = edited({15: f"  fare: &money {money}\n  tolls: {{<<: *money, indicator: false}}\n  extras: *money"})
    features = load(file).config.features
    assert (features["tolls"].missing, features["tolls"].indicator) == ("median", False)
    assert features["extras"] == features["fare"]


def test_a_problem_in_merged_keys_has_the_line_of_its_anchor(edited, problems_of):
    file = edited({15: "  fare: &money\n    type: number\n    missng: mean\n  tolls: {<<: *money}"})
    assert {(p.path, p.line) for p in problems_of(file)} == {
        ("features.fare.missng", 17),
        ("features.tolls.missng", 17),
    }


def test_paths_begin_at_the_folder_of_the_file(edited, monkeypatch):
    file = edited()
    monkeypatch.chdir(file.parent)
    loaded = load("pipeline.yaml")
    assert loaded.resolve("data/trips.csv") == str(file.parent / "data" / "trips.csv")
    assert loaded.resolve("/data/trips.csv") == "/data/trips.csv"
    assert loaded.resolve("gs://bucket/trips.csv") == "gs://bucket/trips.csv"


def test_a_package_path_is_the_file_in_the_package(edited):
    import pytest as installed

    resolved = load(edited()).resolve("package:pytest/__init__.py")
    assert Path(resolved) == Path(installed.__file__)
    with pytest.raises(UserError, match="no_such_package"):
        load(edited()).resolve("package:no_such_package/data.csv")


def test_the_line_of_a_place_is_that_of_its_key_or_of_what_is_around_it(edited):
    loaded = load(edited())
    assert loaded.line("label", "task") == 13
    assert loaded.line("label", "weight") == 11
    assert loaded.line() == 1


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((), ""),
        (("label", "task"), "label.task"),
        (("features", "fare", "transforms", 1, "clip", "min"), "features.fare.transforms[1].clip.min"),
        (("features", "trip miles", "type"), 'features["trip miles"].type'),
        (("features", "a.b"), 'features["a.b"]'),
    ],
)
def test_paths_are_written_as_people_read_them(keys, text):
    assert format_path(keys) == text


def test_a_problem_without_a_line_or_a_path_still_names_the_file():
    assert Problem("", None, "no such file.").located("p.yaml") == "p.yaml: no such file."
    assert Problem("a.b", 3, "odd.", "warning").located("p.yaml") == "p.yaml:3: warning: a.b: odd."


WORDS = """
name data label features type number category transforms clip min kind mlp model source format csv path split method
hash task binary crosses inputs vocabulary encoding embedding evaluation thresholds auc slices derive <<
""".split()


def words():
    """Text that a pipeline file might hold, right and wrong."""
    return st.one_of(st.sampled_from(WORDS), st.text(max_size=8))


def trees():
    """Trees of what YAML can hold."""
    numbers = st.one_of(st.integers(), st.floats(), st.integers(min_value=10**30, max_value=10**400))
    scalars = st.one_of(st.none(), st.booleans(), numbers, words())
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words(), inner, max_size=5)),
        max_leaves=25,
    )


def sections():
    """Trees that begin as a pipeline does."""
    keys = "name data label features model training evaluation crosses beam push schedule"
    return st.fixed_dictionaries({}, optional={key: trees() for key in keys.split()})


@pytest.mark.integration
@settings(max_examples=150, deadline=None)
@given(tree=st.one_of(trees(), sections()))
def test_any_tree_is_loaded_or_refused_in_our_words(tree, tmp_path_factory):
    file = tmp_path_factory.mktemp("any") / "pipeline.yaml"
    with file.open("w", encoding="utf-8", errors="surrogatepass") as stream:
        YAML(typ="safe", pure=True).dump(tree, stream)
    try:
        load(file)
    except ConfigError as error:
        assert error.problems
        assert all(problem.message for problem in error.problems)


@pytest.mark.integration
@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("ab:-[]{}'\"\n #&*!|>%@`?,\t.0\\"), max_size=60))
def test_any_text_is_loaded_or_refused_in_our_words(text, tmp_path_factory):
    file = tmp_path_factory.mktemp("any") / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file)
