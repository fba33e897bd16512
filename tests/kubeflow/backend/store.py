"""An object store in a folder: keys and bytes, no folders; it fails when told to."""

import shutil
from pathlib import Path


class StoreError(Exception):
    """The store did not answer."""


class ObjectStore:
    """Objects by address. `failures`: how many of the next uploads to an address that contains a text fail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.failures: dict[str, int] = {}
        self.markers: set[str] = set()

    def keys(self, prefix: str = "") -> list[str]:
        """Addresses that begin with `prefix`, sorted."""
        found = [_address(p.relative_to(self._folder)) for p in self._folder.rglob("*") if p.is_file()]
        return sorted(key for key in [*found, *self.markers] if key.startswith(prefix))

    def path(self, uri: str) -> Path:
        """Where an object's bytes are."""
        return self._folder / uri.replace("://", "/", 1)

    def upload(self, source: Path, uri: str) -> bool:
        """Files only, so empty folders are lost (v2/objectstore/object_store.go:88). False if nothing is there."""
        for text, count in self.failures.items():
            if text in uri and count:
                self.failures[text] -= 1
                raise StoreError(f"503 SlowDown: {uri}")
        if not source.exists():
            return False
        files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
        for file in files:
            target = self.path(uri) / file.relative_to(source) if source.is_dir() else self.path(uri)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        return True

    def download(self, uri: str, target: Path, *, whole_names: bool) -> None:
        """Lists by prefix and copies (object_store.go:123).

        whole_names: only what lies under `uri/`; before 2.17 also its namesakes, as `model_run` of `model`, came along
        (2.17.0 object_store.go:171 isBlobKeyUnderPrefix).
        """
        for key in self.keys(uri):
            if whole_names and key != uri and not key.startswith(f"{uri}/"):
                continue
            if key in self.markers:  # an object of no bytes whose key ends in /: written as a file over the folder
                target.mkdir(parents=True, exist_ok=True)
                raise StoreError(f"open {target}: is a directory (object {key!r} of 0 bytes)")
            file = Path(f"{target}{key[len(uri) :]}")
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.path(key), file)


def _address(relative: Path) -> str:
    scheme, *rest = relative.parts
    return f"{scheme}://{'/'.join(rest)}"
