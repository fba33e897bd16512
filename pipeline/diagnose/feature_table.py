"""What was measured of each feature, and what to do with it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

NEARLY_CONSTANT = 0.99
"""The share of the rows with the commonest value from which a feature is near-constant."""
_SHORTEST, _LONGEST = 10, 10
"""Unless the user says how many, a tenth of the features may go, and at most ten."""


@dataclass(frozen=True)
class FeatureFacts:
    """What was measured of a feature.

    Attributes:
        missing: The share of train rows that lack one of its columns.
        commonest: The share of sampled train rows with its commonest transformed value.
        duplicate_of: The feature that stays instead of it; "" if there is none.
        equal: Whether that feature has the same transformed values, not only one for each.
        information: Mutual information with the label, in nats; None if it has none.
        importance, reach: Permutation importance and half of its 95 % interval; None if it was not measured.
    """

    name: str
    type: str
    missing: float
    commonest: float
    information: float | None = None
    importance: float | None = None
    reach: float | None = None
    duplicate_of: str = ""
    equal: bool = False

    @property
    def matters(self) -> bool | None:
        """Whether its importance is beyond chance; None if it was not measured."""
        return None if self.importance is None or self.reach is None else self.importance > self.reach

    @property
    def reason_to_go(self) -> str:
        """Why the model is expected not to miss it; "" without a reason."""
        if self.commonest == 1:
            return "one value in all rows"
        if self.duplicate_of:
            return f"{'equal to' if self.equal else 'one-to-one with'} {self.duplicate_of}, which stays"
        if self.matters is False and self.commonest >= NEARLY_CONSTANT:
            return f"one value in {self.commonest:.1%} of the rows, and importance no more than chance"
        return "importance no more than chance" if self.matters is False else ""

    @property
    def advice(self) -> str:
        """The recommendation with its reason."""
        if self.reason_to_go:
            return f"drop: {self.reason_to_go}"
        return "keep: not measured, among the weaker half" if self.matters is None else "keep: the model relies on it"


def ranked(facts: Sequence[FeatureFacts]) -> tuple[FeatureFacts, ...]:
    """Returns features from the most useful to the least: first those without a reason to go, each by importance."""

    def order(one: FeatureFacts) -> tuple[bool, bool, float]:
        return bool(one.reason_to_go), one.importance is None, -(one.importance or 0.0)

    return tuple(sorted(facts, key=order))


def with_duplicates(
    facts: Sequence[FeatureFacts], duplicates: Mapping[str, str], equal: Collection[str]
) -> tuple[FeatureFacts, ...]:
    """Returns facts that name the feature of which each is a duplicate.

    Args:
        duplicates: Feature -> the more important one with which it is one-to-one.
        equal: Those of them whose values are equal.
    """
    return tuple(replace(one, duplicate_of=duplicates.get(one.name, ""), equal=one.name in equal) for one in facts)


def how_many(facts: Sequence[FeatureFacts], last: int | None) -> int:
    """Returns how many features to leave out: `last`, or those with a reason to go, from a tenth of all to ten."""
    if last is not None:
        return last
    advised = sum(bool(one.reason_to_go) for one in facts)
    return min(_LONGEST, len(facts) - 1, max(advised, -(-len(facts) // _SHORTEST)))
