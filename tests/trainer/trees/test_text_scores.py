"""Scores of texts for trees, against ridge regressions in closed form, and trees that read nothing else of a text."""

import keras
import numpy as np
import pytest
from scipy import sparse

from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs
from fullpass.trainer.trees import text_scores, tree_columns
from fullpass.trainer.trees.text_scores import components, id_rows, learn_scores, ridge

_CELLS = np.random.default_rng(1).random((2, 60, 25))
ROWS = sparse.csr_matrix(np.where(_CELLS[0] < 0.3, _CELLS[1], 0.0))


def in_closed_form(rows: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    return np.linalg.solve(rows.T @ rows + strength * np.eye(rows.shape[1]), rows.T @ y)


@pytest.mark.parametrize("strength", [0.3, 30.0])
def test_a_ridge_regression_solves_the_normal_equations(strength):
    y = np.random.default_rng(0).normal(size=(60, 3)) * [1, 100, 0]
    weight = np.arange(60) % 4  # as if each row were there so many times
    rows, targets = np.repeat(ROWS.toarray(), weight, axis=0), np.repeat(y, weight, axis=0)
    found = ridge(ROWS, y, weight, strength)
    wanted = rows.T @ targets
    missing = wanted - (rows.T @ rows @ found + strength * found)
    assert (np.linalg.norm(missing, axis=0) <= 1e-3 * np.linalg.norm(wanted, axis=0)).all()
    expected = in_closed_form(rows, targets, strength)
    assert (np.linalg.norm(found - expected, axis=0) <= 5e-3 * np.linalg.norm(expected, axis=0)).all()


def test_components_are_singular_vectors_however_few_there_are():
    exact = np.linalg.svd(ROWS.toarray())[2]
    np.testing.assert_allclose(np.abs(np.diag(exact[:3] @ components(ROWS, 3))), 1, atol=1e-2)
    assert components(ROWS[:, :2], 9).shape == (2, 2)
    assert np.isfinite(components(sparse.csr_matrix((4, 5)), 2)).all(), "rows without ids"


@pytest.mark.integration
@pytest.mark.parametrize("every", [1, 2])
def test_train_rows_have_scores_of_models_of_other_rows(planted, monkeypatch, every):
    """The labels are noise, so the scores of a row tell nothing of its own label."""
    data, spec, _ = planted("binary").of("note").loaded(model="trees")
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    note, count = inputs["note_xf"], data.train.counts.weighted_rows
    noise = np.random.default_rng(1).normal(size=(count, 1))
    waiting = [noise[::every]]
    monkeypatch.setattr(text_scores, "_LEARNED_BYTES", count * data.train.split.row_bytes // every)
    monkeypatch.setattr(text_scores, "_STRENGTHS", (1.0,))
    found = learn_scores(data.train.split, [note], lambda _: waiting.pop(), (), None)[note.name]
    (batch, *_) = next(iter(data.train.split.batches(BatchOrder(batch_size=count))))
    ids, weights = (batch[tensor.name].numpy() for tensor in (note.keras_input, note.weights))
    dense = np.zeros((count, note.size))
    np.add.at(dense, (np.arange(count)[:, None], ids), weights)
    dense[:, 0] = 0
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    numbers = np.arange(count)
    learned, y = numbers % every == 0, noise - noise[::every].mean()
    scores = found.of_train(id_rows(note, batch), numbers)
    for fold in range(5):
        own = numbers // every % 5 == fold
        kernel = in_closed_form(dense[learned & ~own], y[learned & ~own], 1.0)
        np.testing.assert_allclose(scores[own], dense[own] @ kernel, atol=2e-3)
    whole = in_closed_form(dense[learned], y[learned], 1.0)
    served = keras.Model([note.keras_input, note.weights], found.columns(note))([ids, weights]).numpy()
    np.testing.assert_allclose(served[:, :1], dense @ whole, atol=2e-3)
    assert np.abs(served[:, :1] - scores).max() > 0.05


@pytest.mark.integration
@pytest.mark.parametrize("compute_at", ["transform", "model"])
def test_what_trees_export_is_what_was_measured_while_they_grew(planted, monkeypatch, compute_at):
    """The note names kind and tags, so with x it decides `likes`. LightGBM and the network read the same rows."""
    monkeypatch.setattr(tree_columns, "_MOST_COLUMNS", 3)
    prepared = planted("binary").of("x", "note", "tags")
    data, found = prepared.trained(model="trees", training={"epochs": 6}, input={"compute_at": compute_at})
    rows = sample_rows(data.validation.split, data.in_model, 1000)
    margin = (2 * rows.labels - 1) * rows.logits(found.network)[:, 0]
    history = found.fitted.history
    assert np.log1p(np.exp(-margin)).mean() == pytest.approx(history["val_log_loss"][-1], rel=1e-5)
    assert history["val_auc"][-1] > 0.95
