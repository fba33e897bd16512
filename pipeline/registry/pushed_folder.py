"""Finds the folder of pushed models that a command line names."""

from pathlib import Path


def pushed_to(target: Path) -> Path:
    """Returns the folder of pushed models that a YAML names, or `target` if it is a folder."""
    if target.is_dir():
        return target
    from fullpass.pipeline.authoring.loading.load import load

    loaded = load(target)
    return Path(loaded.resolve(loaded.config.push.to))
