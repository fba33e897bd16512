"""Finds files beside the data that lack a column, such as the rows to predict of a competition: it may be the label."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.pipeline.authoring.profile.detect_source import FoundSource, column_names

_MOST_FILES = 20
_TO_PREDICT = re.compile(r"test|predict|scor|unlabel|holdout|unseen|new", re.IGNORECASE)
_SPLIT_FOLDER = re.compile(r"train|label", re.IGNORECASE)


@dataclass(frozen=True)
class Unlabelled:
    """A file with the same columns as the data, but without some.

    Attributes:
        lacking: The columns that it lacks; those that a submission file holds, if there is one.
        unknown: All columns that it lacks.
    """

    file: str
    lacking: frozenset[str]
    unknown: frozenset[str]


def find_unlabelled(found: FoundSource) -> Unlabelled | None:
    """Returns a file beside the data that lacks one of its columns; None if there is none.

    A file with a name such as test may lack several, up to half of them. If the data is in a folder with a name such as
    train, files in the folders beside that folder count too.
    """
    first = found.files[0]
    path = Path(first.path)
    if is_address(first.path) or not path.is_file() or getattr(found.source, "columns", None):
        return None
    ending = "".join(path.suffixes[-2:] if len(path.suffixes) > 1 else path.suffixes)
    own = {PurePath(file.path) for file in found.files}
    beside = sorted(path.parent.glob(f"*{ending}"))
    if _SPLIT_FOLDER.search(path.parent.name):
        beside += sorted(path.parent.parent.glob(f"*/*{ending}"))
    others = [other for other in beside if other not in own][:_MOST_FILES]
    columns = column_names(first, found.source)
    held = {other: _columns(other, found) for other in others}
    for other in sorted(others, key=lambda o: not _TO_PREDICT.search(o.name)):
        lacking = frozenset(columns) - held[other]
        is_by_name = _TO_PREDICT.search(f"{other.parent.name}/{other.name}") is not None
        most = len(columns) // 2 if is_by_name else 1
        if held[other] < set(columns) and len(held[other]) > 1 and 0 < len(lacking) <= most:
            submitted = [lacking & held[file] for file in others if len(held[file]) <= len(lacking) + 1]
            answers = next((names for names in submitted if names), lacking)
            return Unlabelled(other.name, answers, lacking)
    return None


def _columns(file: Path, found: FoundSource) -> frozenset[str]:
    try:
        return frozenset(column_names(SourceFile(str(file), None, file.stat().st_size, ""), found.source))
    except UserError:
        return frozenset()
