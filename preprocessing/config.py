"""The part of the configuration that determines the outputs of the transform graph and where they are computed."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.preprocessing.features.base_feature import ComputeAt
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import CustomFeature, Features
from fullpass.preprocessing.features.history import Histories
from fullpass.preprocessing.features.ids import StableIds, Vocabulary, stable_ids_of
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.sequences import SequenceSpec, sequence_of, with_columns_of, yaml_keys
from fullpass.preprocessing.features.target_feature import TargetFeature
from fullpass.preprocessing.spec import Flag, ImportPath, Name, Spec

ColumnType = Literal["number", "string"]


def in_order_of_keys(joins: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns the names of joins, each after those whose columns are its keys: TFX passes mappings on sorted by name.

    Args:
        joins: Name of a join -> the columns by which rows find those of its table.

    Example:
        >>> in_order_of_keys({"makers": ["planes.maker"], "planes": ["tail"]})
        ['planes', 'makers']
    """
    found: list[str] = []
    for _ in joins:
        later = joins.keys() - found
        found += [n for n in joins if n in later and later.isdisjoint(key.partition(".")[0] for key in joins[n])]
    return [*found, *(n for n in joins if n not in found)]  # `check` refuses a join with a key of its own


def _sorted_by_keys(lookups: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: lookups[name] for name in in_order_of_keys(lookups)}


class PreprocessingConfig(Spec):
    """Features, crosses, derived columns and label, as passed to `preprocessing_fn` in TFX's custom_config."""

    features: Features
    """All features; columns of sequences are included under the name SEQUENCE.COLUMN."""
    sequences: dict[Name, SequenceSpec] = Field(default_factory=dict)
    crosses: tuple[Cross, ...] = ()
    derive: dict[Name, str] = Field(default_factory=dict)
    """Derived column -> expression over raw columns and derived columns above it."""
    history: Histories = Field(default_factory=dict)
    types: dict[Name, ColumnType] = Field(default_factory=dict)
    """Types of raw columns whose type no feature determines."""
    label: Label
    slices: tuple[Name, ...] = ()
    """Raw columns that evaluation slices by; kept in the examples even if no feature reads them."""
    compute_at: ComputeAt = "transform"
    """Where features without their own `compute_at` are computed."""
    decimal: Literal[".", ","] = "."
    """Decimal sign of numbers in the texts of the source."""
    function: ImportPath | None = None
    """`package.module:function` that replaces the transforms of all features: columns in, transformed features out."""
    whole: bool = False
    """Whether `function` is a preprocessing_fn of TFX as it is: it gets the tensors of all columns of the schema, and
    its outputs, the label among them, are all outputs of the transform graph."""
    stable_ids: StableIds | Flag = False
    """Default for all learned vocabularies."""
    lookups: Annotated[dict[Name, tuple[Name, ...]], AfterValidator(_sorted_by_keys)] = Field(default_factory=dict)
    """Join whose table the model contains -> key columns, by which a request finds its columns JOIN.COLUMN."""

    @model_validator(mode="before")
    @classmethod
    def _columns_are_features(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not value.get("sequences"):
            return value
        sequences = {name: SequenceSpec.model_validate(written) for name, written in value["sequences"].items()}
        features = with_columns_of(sequences, value.get("features") or {})
        return {**value, "features": features, "sequences": sequences}

    def cross_of(self, feature: TargetFeature) -> Cross:
        """Returns the cross that a target feature names.

        Raises:
            UserError: There is no such cross.
        """
        known = {cross.feature_name: cross for cross in self.crosses}
        if feature.cross not in known:
            hint = did_you_mean(str(feature.cross), known)
            raise UserError(f"cross: there is no cross {feature.cross!r}.{hint} Crosses: {listed(known) or 'none'}.")
        return known[feature.cross]

    def vocabulary_owner(self, feature: str) -> str:
        """Returns the feature that owns a feature's vocabulary: the feature itself, or the one in `shared_with`."""
        return self.shared_with(feature) or feature

    def shared_with(self, feature: str) -> str | None:
        """Returns the feature that a feature's vocabulary names as its owner, or None."""
        vocabulary = getattr(self.features.get(feature), "vocabulary", None)
        return vocabulary.shared_with if isinstance(vocabulary, Vocabulary) else None

    def vocabulary_users(self) -> dict[str, list[str]]:
        """Returns vocabulary owner -> the features that use its vocabulary, including itself, in declaration order."""
        users: dict[str, list[str]] = {}
        for name in self.features:
            users.setdefault(self.vocabulary_owner(name), []).append(name)
        return users

    def sequence_of(self, feature: str) -> str | None:
        """Returns the sequence that contains a feature as a column; None for any other feature."""
        return sequence_of(self.sequences, feature)

    def path_of(self, feature: str) -> str:
        """Returns the YAML path of a feature."""
        return ".".join(yaml_keys(self.sequences, feature))

    @property
    def functions(self) -> list[str]:
        """The `module:function` paths of the user's code that becomes part of the transform graph."""
        of_features = [feature.function for feature in self.features.values() if isinstance(feature, CustomFeature)]
        return of_features + ([self.function] if self.function else [])

    @property
    def has_stable_ids(self) -> bool:
        """Whether any vocabulary keeps its ids."""
        found = [getattr(holder, "vocabulary", None) for holder in (*self.features.values(), *self.crosses)]
        return any(isinstance(v, Vocabulary) and self.stable_ids_of(v) is not None for v in found)

    def stable_ids_of(self, vocabulary: Vocabulary) -> StableIds | None:
        """Returns how long a vocabulary keeps slots; None if its ids are given or follow frequency."""
        return stable_ids_of(vocabulary, self.stable_ids)
