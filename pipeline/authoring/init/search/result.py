"""What a search of representations found."""

from dataclasses import dataclass, field

from fullpass.pipeline.authoring.init.yaml_text import YamlLine


@dataclass(frozen=True)
class SearchResult:
    """What pays.

    Attributes:
        features: Further features.
        replaced: Name of a feature so far -> the line that takes its place.
        loss: The loss that predicts the label best, and its gain; None if none was tried.
        told: What was tried and does not pay, in words.
    """

    features: list[YamlLine] = field(default_factory=list)
    replaced: dict[str, YamlLine] = field(default_factory=dict)
    loss: tuple[str, str] | None = None
    told: list[str] = field(default_factory=list)


def announced(rows: int, seconds: float) -> str:
    """Returns what the user is told before a search begins."""
    return (
        f"trying representations on {rows:,} rows, for at most about {seconds:g} s of processor; "
        "--search-seconds 0 skips it"
    )
