"""The files of a joined table, and the spans whose rows see them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.files import SourceFile


@dataclass(frozen=True)
class Tables:
    """The files of a joined table.

    Attributes:
        spans: The span of each file, ascending; None if the rows of all spans see all files.
        before: A row sees the files of its own span and of this number of spans before it.
    """

    files: tuple[SourceFile, ...]
    spans: tuple[int, ...] | None = None
    before: int = 0

    def seen_by(self, numbers: Collection[int]) -> "Tables":
        """Returns the files that rows of some spans see."""
        if self.spans is None:
            return self
        begin = bisect_left(self.spans, min(numbers, default=0) - self.before)
        end = bisect_right(self.spans, max(numbers, default=0))
        near = zip(self.files[begin:end], self.spans[begin:end], strict=True)
        seen = [(file, span) for file, span in near if any(0 <= n - span <= self.before for n in numbers)]
        return replace(self, files=tuple(file for file, _ in seen), spans=tuple(span for _, span in seen))


@contextmanager
def of_join(name: str) -> Iterator[None]:
    """Names the join in the errors of a block: `data.source` becomes `data.joins.NAME.source`."""
    try:
        yield
    except UserError as error:
        path = f"data.joins.{name}"
        text = str(error).replace("data.source", f"{path}.source")
        raise UserError(text if text.startswith(path) else f"{path}: {text}") from error
