"""The rows and the text of a leaderboard, from the facts of a run."""

from fullpass.trainer.insight.leaderboard import cells, leaderboard


def candidate(kind: str, log_loss: float, validation: float | None = None, weight: float | None = None):
    measured = {"loss": log_loss, "log_loss": log_loss, "auc": 0.9}
    times = {"train_seconds": 1234.5, "predict_ms": 2.25}
    return {"kind": kind, "weight": weight, "validation": validation, "eval": measured, **times}


TRIED = {
    "model": {"monitor": "log_loss"},
    "compared": {"trees": 0.31, "wide_deep": 0.29},
    "candidates": [
        candidate("trees", 0.3, 0.31, 0.25),
        candidate("wide_deep", 0.4, 0.29, 0.75),
        candidate("blend", 0.2),
    ],
    "blend": {"kept": True},
}


def test_models_stand_by_their_score_on_eval_and_what_was_exported_is_marked():
    rows = leaderboard(TRIED)
    assert [(row["model"], row["kept"]) for row in rows] == [("blend", True), ("trees", False), ("wide_deep", False)]
    assert "eval_loss" not in rows[0] and rows[0]["eval_log_loss"] == 0.2
    alone = leaderboard(TRIED | {"blend": {"kept": False}})
    assert [row["model"] for row in alone if row["kept"]] == ["wide_deep"], "the validation rows chose"


def test_trials_follow_and_the_first_was_trained():
    trials = [{"auc": 0.9, "hyperparameters": {"training.learning_rate": 0.012345, "model.hidden": [8]}}]
    headings, rows = cells(leaderboard({}, [*trials, *trials]))
    assert headings == ("model", "kept", "metric", "validation")
    named = "training.learning_rate: 0.01235, model.hidden: [8]"
    assert rows == [(named, "kept", "auc", "0.9000"), (named, "", "auc", "0.9000")]


def test_a_table_has_all_columns_with_a_value_as_text():
    headings, rows = cells(leaderboard(TRIED))
    assert headings[2:5] == ("in the blend", "metric", "validation") and headings[-1] == "1,000 rows, ms"
    assert rows[1] == ("trees", "", "0.25", "log_loss", "0.3100", "0.3000", "0.9000", "1,234.5", "2.2")
    assert cells(leaderboard({})) == ((), []), "one model was trained"
