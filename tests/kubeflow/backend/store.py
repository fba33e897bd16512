"""An object store in a folder: keys and bytes, no folders."""

import shutil
from pathlib import Path


class ObjectStore:
    """Objects by URI."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, prefix: str = "") -> list[str]:
        """Returns the URIs that begin with `prefix`, sorted."""
        found = [_address(p.relative_to(self._folder)) for p in self._folder.rglob("*") if p.is_file()]
        return sorted(key for key in found if key.startswith(prefix))

    def path(self, uri: str) -> Path:
        """Returns the path of an object's bytes."""
        return self._folder / uri.replace("://", "/", 1)

    def upload(self, source: Path, uri: str) -> bool:
        """Uploads files only, so empty folders are lost (v2/objectstore/object_store.go:88). Returns False if there is
        no file."""
        if not source.exists():
            return False
        files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
        for file in files:
            target = self.path(uri) / file.relative_to(source) if source.is_dir() else self.path(uri)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        return True

    def download(self, uri: str, target: Path, *, whole_names: bool) -> None:
        """Lists objects by prefix and copies them (object_store.go:123).

        whole_names: Whether to copy only objects under `uri/`. Before 2.17, objects with the same prefix were copied
        too, such as `model_run` for `model` (2.17.0 object_store.go:171 isBlobKeyUnderPrefix).
        """
        for key in self.keys(uri):
            if whole_names and key != uri and not key.startswith(f"{uri}/"):
                continue
            file = Path(f"{target}{key[len(uri) :]}")
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.path(key), file)


def _address(relative: Path) -> str:
    scheme, *rest = relative.parts
    return f"{scheme}://{'/'.join(rest)}"
