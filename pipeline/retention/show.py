"""What a collection frees, for people."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.retention.collect import Freed

_UNITS = ("B", "KB", "MB", "GB", "TB")


def table(freed: Freed, *, dry_run: bool) -> RenderableType:
    """Returns what is freed, by kind, and what is kept."""
    verb = "Would free" if dry_run else "Freed"
    runs, models = freed.kept["runs"], freed.kept["models"]
    kept = f"Kept: {runs} run{'s' * (runs != 1)}, {models} model{'s' * (models != 1)}, and the window."
    words = {what: what if count > 1 else what.removesuffix("s") for what, count in freed.records.items()}
    taken = ", ".join(f"{count:,} {words[what]}" for what, count in freed.records.items() if count)
    if not freed.counts and not taken:
        return Text(f"Nothing to free. {kept}")
    shown = Table(box=box.SIMPLE)
    shown.add_column("what")
    shown.add_column("files and folders", justify="right")
    shown.add_column("size", justify="right")
    for kind in sorted({*freed.sizes, *freed.counts}):
        shown.add_row(kind, str(freed.counts.get(kind, "")), size_in_words(freed.sizes.get(kind, 0)))
    total = f"{verb} {size_in_words(sum(freed.sizes.values()))}"
    records = f"; records of the metadata: {taken}" if taken else ""
    return Group(shown, Text(f"{total}{records}.\n{kept}"))


def size_in_words(size: float) -> str:
    """Returns bytes as `1.5 MB`, by powers of 1,024."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
