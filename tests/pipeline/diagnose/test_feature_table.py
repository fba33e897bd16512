"""What is recommended for planted features, their order, and how many may go."""

import pytest

from fullpass.pipeline.diagnose.feature_table import FeatureFacts, how_many, ranked, with_duplicates


def facts(name, importance, reach=0.01, commonest=0.2) -> FeatureFacts:
    return FeatureFacts(name, "number", 0.0, commonest, 0.1, importance, reach)


FACTS = (
    facts("noise", 0.009),
    facts("strong", 0.5),
    facts("copy", 0.3),
    facts("rare", -0.001, commonest=0.995),
    facts("rare_but_strong", 0.2, commonest=0.995),
    facts("constant", 0.0, 0.0, 1.0),
    facts("unmeasured", None, None),
)
ADVICE = {
    "strong": "keep: the model relies on it",
    "rare_but_strong": "keep: the model relies on it",
    "unmeasured": "keep: not measured, among the weaker half",
    "copy": "drop: one-to-one with strong, which stays",
    "noise": "drop: importance no more than chance",
    "constant": "drop: one value in all rows",
    "rare": "drop: one value in 99.5% of the rows, and importance no more than chance",
}


def test_features_are_ranked_by_advice_and_then_by_importance():
    found = ranked(with_duplicates(FACTS, {"copy": "strong"}, ()))
    assert {one.name: one.advice for one in found} == ADVICE
    assert [one.name for one in found] == list(ADVICE)
    equal = with_duplicates(FACTS, {"copy": "strong"}, {"copy"})
    assert equal[2].advice == "drop: equal to strong, which stays"


@pytest.mark.parametrize(
    ("weak", "strong", "last", "expected"),
    [
        (0, 5, None, 1),
        (0, 100, None, 10),
        (4, 9, None, 4),
        (40, 9, None, 10),
        (4, 9, 2, 2),
        (0, 25, None, 3),
        (4, 0, None, 3),
    ],
)
def test_those_with_a_reason_go_but_at_least_a_tenth_and_at_most_ten(weak, strong, last, expected):
    assert how_many([facts("w", 0.0)] * weak + [facts("s", 0.5)] * strong, last) == expected
