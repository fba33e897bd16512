"""The linear model of `model: auto` against closed forms and scikit-learn on matrices that the test builds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.linear import fit_linear as module
from fullpass.trainer.linear.fit_linear import fit_linear
from fullpass.trainer.portable.portable_network import portable_network
from tests.trainer.conftest import planted_rows, prepare_by_hand

PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)
NUMBERS = ("x", "trip miles", "position")


def fitted(prepared, **training):
    data, spec, _ = prepared.loaded(model="auto", training=training)
    rows = [sample_rows(shard.split, None, 10_000) for shard in (data.train, data.validation)]
    return fit_linear(data, spec), *rows


def standardized(rows, train):
    """Returns the numbers in deviations from their means in train, float64 [rows, 5]."""
    names = ("x_xf", "trip miles_xf", "trip miles.missing_xf", "position_xf")
    both = [np.hstack([one.padded(n).reshape(len(one), -1) for n in names]) for one in (rows, train)]
    return (both[0] - both[1].mean(axis=0, dtype=float)) / both[1].std(axis=0, dtype=float)


def with_ids(rows, train):
    """Returns the numbers, `kind` one-hot, the numbers of each of the `tags`, and words by tf-idf, of length 1."""
    kinds = np.eye(5)[rows.features["kind_xf"]]
    tags = np.stack([(rows.padded("tags_xf") == i).sum(axis=1) for i in range(1, 5)], axis=1)
    words, weights = rows.padded("note_xf"), rows.padded("note.weight_xf")
    bags = np.stack([(weights * (words == i)).sum(axis=1) for i in range(1, 9)], axis=1)
    lengths = np.sqrt((bags**2).sum(axis=1, keepdims=True))
    return np.hstack(
        [standardized(rows, train), kinds, tags, np.divide(bags, lengths, where=lengths > 0, out=0 * bags)]
    )


def test_a_regression_is_a_ridge_in_closed_form(planted):
    found, train, validation = fitted(planted("regression").of(*NUMBERS))
    x, new = standardized(train, train), standardized(validation, train)
    mean = train.labels.mean(dtype=float)
    by_penalty = {p: np.linalg.solve(x.T @ x + p * np.eye(5), x.T @ (train.labels - mean)) for p in PENALTIES}
    expected = mean + new @ by_penalty[0.1]
    np.testing.assert_allclose(validation.logits(found.network)[:, 0], expected, rtol=1e-4)
    assert found.loss == pytest.approx(np.sqrt(np.mean((expected - validation.labels) ** 2)), rel=1e-3)
    assert found.again is None, "the validation rows judge the model here"


def test_classes_are_a_logistic_regression_on_numbers_ids_and_bags(planted):
    prepared = planted("binary").of(*NUMBERS, "kind", "tags", "note")
    found, train, validation = fitted(prepared)
    x, new = with_ids(train, train), with_ids(validation, train)
    models = [LogisticRegression(C=1 / p, max_iter=1000, tol=1e-8).fit(x, train.labels) for p in PENALTIES]
    answers = validation.logits(found.network)[:, 0]
    apart = [np.abs(model.decision_function(new) - answers).max() for model in models]
    assert min(apart) < 0.01 and sorted(apart)[1] > 0.02
    portable = replace(found.network, model=portable_network(found.network.model))
    np.testing.assert_allclose(validation.logits(portable)[:, 0], answers, atol=1e-4)


def test_a_class_without_rows_in_train_is_never_the_likeliest_one(tmp_path):
    """Classes are low, middle, high in the order of their ids."""
    rows = [row for row in planted_rows(200, 1) if row["group"] != "middle"]
    prepared = prepare_by_hand(tmp_path / "two", "multiclass", rows, planted_rows(100, 2))
    found, _, validation = fitted(prepared.of(*NUMBERS))
    logits, known = validation.logits(found.network), validation.labels != 1
    assert np.isfinite(logits).all() and not (logits.argmax(axis=1) == 1).any()
    assert (logits.argmax(axis=1) == validation.labels)[known].mean() > 0.9


def test_counts_are_a_poisson_regression(planted):
    found, train, validation = fitted(planted("regression").of(*NUMBERS), loss="poisson")
    x, new = standardized(train, train), standardized(validation, train)
    unit = train.labels.std()
    models = [PoissonRegressor(alpha=p / 1000, max_iter=1000).fit(x, train.labels / unit) for p in PENALTIES]
    expected = [unit * model.predict(new) for model in models]
    answers = validation.logits(found.network)[:, 0]
    assert min(np.abs(one / answers - 1).max() for one in expected) < 0.01


def test_amounts_are_a_tweedie_regression(planted):
    """At the optimum of a weak penalty the deviance has no slope: errors over mean ** power have no product with x."""
    found, train, _ = fitted(planted("regression").of(*NUMBERS), loss={"kind": "tweedie", "power": 1.3})
    mean, x = train.logits(found.network)[:, 0] / train.labels.std(), standardized(train, train)
    slopes = x.T @ ((train.labels / train.labels.std() - mean) * mean**-0.3) / len(x)
    assert mean.std() > 0.5 and np.abs(slopes).max() < 0.02


@pytest.mark.parametrize("loss", ["absolute", "huber", "quantile"])
def test_other_losses_have_no_exact_fit(planted, loss):
    assert fitted(planted("regression").of("x"), loss=loss)[0] is None


@pytest.mark.parametrize(("most", "is_fitted"), [(1000, True), (999, False)])
def test_more_values_than_are_fitted_within_seconds_have_no_model(planted, monkeypatch, most, is_fitted):
    """There are 1,000 train rows, each with a value of `kind`, and one output."""
    monkeypatch.setattr(module, "_MOST_CELLS", most)
    assert (fitted(planted("regression").of("kind"))[0] is not None) == is_fitted


@pytest.mark.parametrize(("weights", "fits"), [(30, 25), (29, 5)])
def test_the_penalty_is_chosen_by_as_many_rows_and_folds_as_take_seconds(monkeypatch, weights, fits):
    """1,000 rows with 10 values and 3 outputs are 30,000 cells. A tenth of them, 100 rows, is fitted in five folds."""
    monkeypatch.setattr(module, "_CHOICE_CELLS", 3_000)
    monkeypatch.setattr(module, "_MANY_WEIGHTS", weights)
    rows, begun = [], []

    class Regression:
        outputs = 3

        def fit(self, columns, labels, weights, penalty, near):
            rows.append(columns.shape[0])
            begun.append(near)
            return penalty

        def metrics(self, columns, labels, weights, found):
            return {"loss": abs(found - 9.0)}

    columns = sparse.csr_matrix(np.ones((1000, 10)))
    assert module._choose_penalty(Regression(), columns, np.arange(1000) % 3, np.ones(1000)) == (10.0, 10.0)
    assert rows == [80] * fits
    assert begun == [None, *PENALTIES[:-1]] * (fits // 5)


def test_the_fit_of_many_weights_begins_near_and_ends_soon_with_about_the_same_loss(planted, monkeypatch):
    prepared, losses, steps = planted("multiclass").of(*NUMBERS, "kind", "tags", "note"), [], []
    exact = module.linear_model.LogisticRegression.fit

    def count(model, *rows):
        found = exact(model, *rows)
        steps.append(int(found.n_iter_.max()))
        return found

    monkeypatch.setattr(module.linear_model.LogisticRegression, "fit", count)
    for many in (1 << 19, 0):
        monkeypatch.setattr(module, "_MANY_WEIGHTS", many)
        del steps[:]
        losses.append(fitted(prepared)[0].loss)
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)
    assert len(steps) == 6 and steps[-1] <= steps[-2], "one fold, and the last fit begins with its weights"


def test_a_number_farther_out_than_ten_deviations_counts_as_ten(planted):
    found, train, validation = fitted(planted("regression").of("x"))
    mean, deviation = train.features["x_xf"].mean(), train.features["x_xf"].std()
    of = validation.first(4)
    of.features["x_xf"][:] = mean + deviation * np.array([-10.0, 0.0, 10.0, 1e6])
    below, at_mean, above, beyond = of.logits(found.network)[:, 0]
    assert above - at_mean == pytest.approx(at_mean - below, rel=1e-4) and above - at_mean > 1000
    assert beyond == pytest.approx(above, rel=1e-6)
