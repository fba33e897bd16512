"""Checks of image features: the files of pretrained weights, and the inputs that mixup cannot blend."""

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load

IMAGE = "{type: image, column: company, size: [8, 8]"


def _with_weights(weights: str) -> dict[int, str]:
    encoder = f'{{pretrained: {{architecture: MobileNetV2, weights: "{weights}"}}}}'
    return {16: f"  picture: {IMAGE}, encoder: {encoder}}}"}


@pytest.mark.parametrize("weights", ["gs://bucket/m.weights.h5", "memory://m.weights.h5"])
def test_weights_at_an_address_are_refused(edited, problems_of, weights):
    (problem,) = problems_of(edited(_with_weights(weights)))
    assert (problem.path, problem.severity) == ("features.picture.encoder.pretrained.weights", "error")
    assert weights in problem.message and "local file" in problem.message


def test_weights_may_be_a_file_address(edited, folder, problems_of):
    address = f"file://{folder}/m.weights.h5"
    (problem,) = problems_of(edited(_with_weights(address)))
    assert "no file" in problem.message
    (folder / "m.weights.h5").touch()
    assert problems_of(edited(_with_weights(address))) == ()


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({}, ""),
        ({17: "  fare: number"}, "fare"),
        ({18: "sequences: {visits: {columns: {zone: category}}}\nevaluation:"}, "sequences.visits"),
    ],
)
def test_mixup_needs_images_alone(edited, others, named):
    lines = {15: f"  picture: {IMAGE}, augment: {{mixup: 0.2}}}}", 16: "", 17: "", **others}
    problems = check(load(edited(lines)))
    assert [problem.path for problem in problems] == (["features.picture.augment.mixup"] if named else [])
    assert not named or f"but {named} cannot be blended" in problems[0].message
