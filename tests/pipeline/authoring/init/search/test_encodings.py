"""Target means of the search, against values by hand."""

import numpy as np
import pytest

from fullpass.pipeline.authoring.init.search.encodings import Encoding, means_of_others

GROUPS = np.repeat([0, 1, 2], [40, 40, 1])


def test_a_row_that_judges_has_the_mean_of_all_rows_that_learn(random):
    y, learns = random.normal(size=81), np.arange(81) % 4 > 0
    learns[80] = False
    found = means_of_others(GROUPS, y, learns)
    for group in range(3):
        own = learns & (GROUPS == group)
        expected = (y[own].sum() + 5 * y[learns].mean()) / (own.sum() + 5)
        assert found[~learns & (GROUPS == group)] == pytest.approx(expected)


def test_labels_of_rows_that_judge_are_not_read(random):
    y, learns = random.normal(size=81), random.random(81) < 0.7
    other = np.where(learns, y, 1e6)
    assert np.array_equal(means_of_others(GROUPS, y, learns), means_of_others(GROUPS, other, learns))


def test_a_row_that_learns_does_not_read_its_own_label(random):
    y, everything = random.normal(size=81), np.ones(81, dtype=bool)
    other = y.copy()
    other[7], other[50] = y[50], y[7]  # the mean of all stays
    before, after = means_of_others(GROUPS, y, everything), means_of_others(GROUPS, other, everything)
    assert before[[7, 50, 80]] == pytest.approx(after[[7, 50, 80]])
    assert (before[:40] != pytest.approx(after[:40])) and (before[40:80] != pytest.approx(after[40:80]))


def test_groups_that_tell_the_errors_are_found(random):
    groups = random.integers(0, 20, 2000)
    effect = random.normal(size=20)[groups]
    errors = effect - effect.mean() + random.normal(size=2000)
    told = Encoding(groups, "means").told(errors[:, None])
    assert told == pytest.approx(effect.var(), rel=0.2)  # all but the noise, less what smoothing costs
    assert Encoding(random.permutation(groups), "means").told(errors[:, None]) < 0.05
    assert Encoding(errors).told(errors[:, None]) == 0  # numbers have no groups
