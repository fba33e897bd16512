"""The search: it finds what was planted, adds nothing for noise, and stays within its bounds."""

import re

import numpy as np
import pytest

from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load
from tests.pipeline.authoring.tables import write_csv as write

ROWS = 3_000


def searched(tmp_path, columns, *, seconds=5.0):
    """Returns the file that `init` wrote and what it said before the search."""
    said: list[str] = []
    data = write(tmp_path / "rows.csv", columns)
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
    return init(str(data), output=str(file), label="y", search_seconds=seconds, say=said.append), said


def features_of(written):
    return {name: f.model_dump(exclude_defaults=True) for name, f in load(written.file).config.features.items()}


@pytest.fixture
def pairs(random):
    """Two columns of ids of which only the pair tells the label."""
    one, other = random.integers(0, 12, ROWS), random.integers(0, 12, ROWS)
    odds = random.choice([-2.0, 2.0], (12, 12))[one, other]
    late = random.random(ROWS) < 1 / (1 + np.exp(-odds))
    noise = random.normal(size=ROWS)
    named = {"plane": [f"N{i}" for i in one], "route": [f"R{i}" for i in other]}
    return {**named, "noise": noise, "y": np.where(late, "late", "no")}


def test_numbers_that_count_ids_are_encoded_with_their_gain(tmp_path, random):
    giver, taker = random.permutation(np.arange(ROWS) % 150) + 1, random.integers(1, 40, ROWS)
    y = random.normal(size=151)[giver] + random.normal(size=40)[taker] + random.normal(0, 0.5, ROWS)
    written, said = searched(tmp_path, {"giver": giver, "taker": taker, "y": y.round(3)})
    features = features_of(written)
    assert features["giver"] == "number" or features["giver"] == {"type": "number"}
    assert features["giver_mean"] == {"type": "target", "column": "giver", "smoothing": 5.0}
    assert re.search(r"one of 2 target means: \+0\.\d+ ± 0\.\d+ explained variance in five folds", written.text)
    assert said == [
        "trying representations on 3,000 rows, for at most about 5 s of processor; --search-seconds 0 skips it"
    ]


def test_of_several_classes_a_pair_of_ids_tells_the_share_of_each(tmp_path, random):
    one, other = random.integers(0, 14, ROWS), random.integers(0, 14, ROWS)
    y = np.where(random.random(ROWS) < 0.7, random.integers(0, 4, (14, 14))[one, other], random.integers(0, 4, ROWS))
    columns = {"plane": [f"N{i}" for i in one], "route": [f"R{i}" for i in other], "y": [f"c{i}" for i in y]}
    written, _ = searched(tmp_path, columns)
    assert features_of(written)["plane_route_mean"]["columns"] == ("plane", "route")
    assert sorted(load(written.file).config.label.classes) == ["c0", "c1", "c2", "c3"]
    assert re.search(r"target mean of a pair: \+0\.\d+ ± 0\.\d+ log likelihood in five folds", written.text)


def test_noise_adds_nothing_and_says_so(tmp_path, random):
    columns = {"x": random.normal(size=ROWS), "id": [f"a{i}" for i in random.integers(0, 300, ROWS)]}
    columns["y"] = (columns["x"] + random.normal(size=ROWS)).round(3)
    written, _ = searched(tmp_path, columns)
    assert set(features_of(written)) == {"x", "id"}
    (line,) = (line for line in written.summary if line.startswith("tried, does not pay: "))
    assert "1 target mean: " in line and "1 count: " in line


def test_rows_that_repeat_by_nature_are_in_several_folds(tmp_path, pairs):
    """With equal rows in one fold, all late rows of a pair would be judged by those that are not: AUC 0.43 less."""
    written, _ = searched(tmp_path, {name: column for name, column in pairs.items() if name != "noise"})
    (line,) = (line for line in written.summary if line.startswith("tried, does not pay: "))
    assert min(float(gain) for gain in re.findall(r"([-+]0\.\d+) ±", line)) > -0.05


def test_equal_input_gives_the_equal_file(tmp_path, pairs):
    first, second = (searched(tmp_path, pairs)[0] for _ in range(2))
    assert first.text.partition("features:")[2].partition("push:")[0] in second.text
    assert first.summary[1:-1] == second.summary[1:-1]


def test_no_seconds_and_few_rows_try_nothing(tmp_path, pairs):
    written, said = searched(tmp_path, pairs, seconds=0)
    few, said_of_few = searched(tmp_path, {name: column[:1_900] for name, column in pairs.items()})
    assert said == said_of_few == []
    assert set(features_of(written)) == set(features_of(few)) == {"plane", "route", "noise"}


def test_too_little_time_is_said(tmp_path, pairs):
    written, said = searched(tmp_path, pairs, seconds=0.001)
    assert said == [] and any("representations: they would take about" in line for line in written.summary)


def test_counts_of_many_orders_of_magnitude_are_learned_by_their_spread(tmp_path, random):
    """They vary by more than chance: the variance grows with more than the mean."""
    size = np.exp(random.normal(2, 2.2, 2 * ROWS))
    kind = random.integers(0, 3, 2 * ROWS)
    y = random.poisson(size * np.array([0.3, 1.0, 3.0])[kind] * random.gamma(4, 0.25, 2 * ROWS))
    written, _ = searched(tmp_path, {"size": size.round(2), "kind": [f"k{i}" for i in kind], "y": y})
    assert load(written.file).config.training.loss.kind == "tweedie"
