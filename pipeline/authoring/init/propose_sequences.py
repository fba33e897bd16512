"""`fullpass init`: groups list columns with equal lengths in every row into one sequence."""

from collections.abc import Sequence

import numpy as np

from fullpass.pipeline.authoring.init.propose_features import feature_of
from fullpass.pipeline.authoring.init.propose_label import unique
from fullpass.pipeline.authoring.init.select_columns import FeatureCandidate, SelectedColumns
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.preprocessing.values.list_values import lengths_of

_KINDS = ("number", "category", "boolean", "date")
_LONGEST = 50
_FEWEST_LENGTHS = 3


def propose_sequences(sample: Sample, selection: SelectedColumns) -> list[YamlLine]:
    """Removes the columns of sequences from the features, and returns the entries of `sequences`.

    The fields of structs or objects in one list form a sequence. Lists of other columns form a sequence if they are
    equally long in every row and have at least three different lengths. A single column stays a list.
    """
    groups: dict[tuple[str, bytes], list[FeatureCandidate]] = {}
    for candidate in selection.features:
        name, elements = candidate.column.name, candidate.column.elements
        if candidate.column.kind == "list" and elements is not None and elements.kind in _KINDS:
            lengths = lengths_of(sample.seen_columns[name])
            if len(np.unique(lengths)) >= _FEWEST_LENGTHS:
                groups.setdefault((name.rpartition(".")[0], lengths.tobytes()), []).append(candidate)
    lines: list[YamlLine] = []
    for (within, lengths_of_group), members in groups.items():
        if 1 < len(members) < len(selection.features):  # at least one feature must remain outside the sequences
            longest = int(np.frombuffer(lengths_of_group, np.int64).max())
            name = unique(within.rpartition(".")[2] or "sequence", [line.name for line in lines])
            lines.append(_line(name, within, members, longest))
            selection.features = [one for one in selection.features if one not in members]
            selection.left_out = [line for line in selection.left_out if line.name != within]
    return lines


def _line(name: str, within: str, members: Sequence[FeatureCandidate], longest: int) -> YamlLine:
    columns = {one.column.name.removeprefix(f"{within}.") if within else one.column.name: one for one in members}
    of_list = {"within": within} if within else {}
    why = f"lists that are equally long in every row, of up to {longest}; their last elements are read in order"
    fields = {"columns": {key: _column(one) for key, one in columns.items()}, "max_length": min(longest, _LONGEST)}
    return YamlLine(name, {**of_list, **fields, "keep": "last"}, why)


def _column(candidate: FeatureCandidate) -> str | dict:
    """Returns the feature of a column as a sequence declares it: without the key `list`."""
    value = {key: field for key, field in feature_of(candidate.column, None).value.items() if key != "list"}
    return value if len(value) > 1 else value["type"]
