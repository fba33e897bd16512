"""The folder that a command means by a YAML or a folder."""

from pathlib import Path


def pushed_to(target: Path) -> Path:
    """Returns the folder of pushed models that a YAML names, or `target` itself if it is a folder."""
    if target.is_dir():
        return target
    from pipeline.loading.load import load

    loaded = load(target)
    return Path(loaded.resolve(loaded.config.push.to))
