"""Formats the result of a collection for the terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fullpass.pipeline.registry.retention.collect_garbage import Freed

_UNITS = ("B", "KB", "MB", "GB", "TB")


def table(freed: Freed, *, dry_run: bool) -> RenderableType:
    """Returns a table of the removed sizes and numbers, and the number of kept runs and models."""
    verb = "Would free" if dry_run else "Freed"
    runs, models = freed.kept["runs"], freed.kept["models"]
    kept = f"Kept: {runs} run{'s' * (runs != 1)}, {models} model{'s' * (models != 1)}, and the window."
    if freed.links:
        kept += f"\nNot searched, because they are links: {', '.join(freed.links)}."
    words = {what: what if count > 1 else what.removesuffix("s") for what, count in freed.records.items()}
    taken = ", ".join(f"{count:,} {words[what]}" for what, count in freed.records.items() if count)
    if not freed.counts and not taken:
        return Text(f"Nothing to free. {kept}")
    shown = Table(box=box.SIMPLE)
    shown.add_column("what")
    shown.add_column("files and folders", justify="right")
    shown.add_column("size", justify="right")
    for kind in sorted({*freed.sizes, *freed.counts}):
        shown.add_row(kind, str(freed.counts.get(kind, "")), size_text(freed.sizes.get(kind, 0)))
    total = f"{verb} {size_text(sum(freed.sizes.values()))}"
    records = f"; records of the metadata: {taken}" if taken else ""
    return Group(shown, Text(f"{total}{records}.\n{kept}"))


def size_text(size: float) -> str:
    """Returns a size in bytes as `1.5 MB`, by powers of 1,024."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
