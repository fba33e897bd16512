"""Checks of `compute_at`."""

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError


def found(file) -> list[tuple[str, str, str]]:
    return [(problem.path, problem.severity, problem.message) for problem in check(load(file))]


def test_text_in_the_model_is_a_warning_that_names_the_feature(edited):
    [(path, severity, message)] = found(
        edited({15: "  fare: {type: number, compute_at: model}", 16: "  company: {type: category, compute_at: model}"})
    )
    assert (path, severity) == ("features.company.compute_at", "warning")
    assert message.startswith("company: computed in the model with text, which only a CPU works on")


@pytest.mark.parametrize(
    ("training", "said"), [("distribution: tpu", "a TPU cannot work on"), ("xla: true", "XLA cannot compile")]
)
def test_text_in_the_model_is_an_error_on_a_tpu_and_with_xla(edited, training, said):
    file = edited({14: f"input: {{compute_at: model}}\ntraining: {{{training}}}\nfeatures:"})
    [(path, severity, message)] = found(file)
    assert (path, severity) == ("input.compute_at", "error")
    assert message.startswith("company, started: ") and said in message


def test_a_cross_is_computed_where_its_latest_input_is(edited):
    crosses = "crosses:\n  - {inputs: [company, bucket], hash_buckets: 10}\nevaluation:"
    bucket = "  bucket: {type: number, column: fare, compute_at: model, transforms: [{bucketize: {buckets: 4}}]}"
    [(path, severity, message)] = found(edited({17: f"  started: date\n{bucket}", 18: crosses}))
    assert (path, severity) == ("crosses[0]", "warning") and message.startswith("company_x_bucket: ")


def test_numbers_in_the_model_and_text_before_it_are_fine(edited):
    lines = {15: "  fare: {type: number, compute_at: model}", 16: "  company: {type: category, compute_at: input}"}
    assert found(edited(lines)) == []


def test_a_number_derived_from_text_is_text(edited):
    lines = {
        7: "    big_tipper: tips > 0.2 * fare\n    letters: length(company)",
        15: "  letters: {type: number, compute_at: model}",
    }
    assert [path for path, _, _ in found(edited(lines))] == ["features.letters.compute_at"]


def test_a_function_of_ones_own_has_one_compute_at(edited, folder):
    (folder / "own.py").write_text("def columns_of(columns):\n    return {}\n")
    file = edited({14: "preprocessing: own:columns_of\nfeatures:", 15: "  fare: {type: number, compute_at: input}"})
    [(path, severity, message)] = found(file)
    assert (path, severity) == ("features.fare.compute_at", "error") and "input.compute_at" in message


@pytest.mark.parametrize("compute_at", ["nowhere", "Model"])
def test_an_unknown_value_names_the_accepted_ones(edited, compute_at):
    with pytest.raises(ConfigError, match='Accepted: "transform", "input" or "model"') as caught:
        load(edited({15: f"  fare: {{type: number, compute_at: {compute_at}}}"}))
    assert caught.value.problems[0].path == "features.fare.compute_at"


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ({17: "  started: {type: date, column: fare}"}, "features"),
        ({7: "    big_tipper: tips > fare * lgo(fare)"}, "data.derive.big_tipper"),
    ],
)
def test_columns_that_cannot_be_are_named_by_their_own_check_alone(edited, mistake, named):
    file = edited({15: "  fare: {type: number, compute_at: model}"} | mistake)
    assert [path for path, _, _ in found(file)] == [named]
