"""A pipeline that `init` wrote with target means of pairs of ids, from the data to answers in serving."""

import numpy as np
import pytest

from fullpass.pipeline.authoring.init.init import init
from tests.e2e.conftest import Owner

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_target_means_of_pairs_are_the_same_in_training_and_serving(tmp_path):
    random, rows = np.random.default_rng(3), 6_000
    one, other = random.integers(0, 20, rows), random.integers(0, 20, rows)
    late = random.random(rows) < 1 / (1 + np.exp(-random.choice([-2.0, 2.0], (20, 20))[one, other]))
    noise = random.normal(size=rows)
    lines = [
        f"{a},R{b},{x:.4f},{'late' if y else 'no'}" for a, b, x, y in zip(one + 1, other, noise, late, strict=True)
    ]
    (tmp_path / "rows.csv").write_text("plane,route,noise,y\n" + "\n".join(lines) + "\n")
    written = init(str(tmp_path / "rows.csv"), output=str(tmp_path / "pipeline.yaml"), label="y")
    assert "plane_route_mean: {type: target, columns: [plane, route], smoothing: 5}" in written.text
    owner = Owner(tmp_path, "rows", written.text.replace("model: {kind: auto}", "model: {kind: trees}"))
    assert "rows equal in training and serving, 0 mismatches" in owner("run", "pipeline.yaml")
    assert owner.summary()["metrics"]["auc"] > 0.8  # of one who knows the odds: 0.88
