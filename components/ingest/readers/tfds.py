"""Reads datasets of TensorFlow Datasets (TFDS) that are prepared on disk. Nothing is downloaded."""

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.objects import array_of
from fullpass.components.ingest.readers.readable import load_package, readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered_batches, select_rows
from fullpass.components.ingest.sources.config import TfdsSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, inputs_by_split
from fullpass.components.ingest.sources.storage import digest_of, find, open_raw
from fullpass.preprocessing.values.byte_batches import object_bytes

_FEATURES = "features.json"
_DATASET_INFO = "dataset_info.json"


class TfdsReader(FileReader[TfdsSource]):
    """Rows are numbered in the order of the prepared files."""

    def __init__(self, file: SourceFile, source: TfdsSource):
        super().__init__(file, source)
        self._split, self._path = file.path, file.address
        with readable(self._path), open_raw(f"{self._path}/{_FEATURES}") as stream:
            self._leaves = dict(_leaves(json.loads(stream.read()), ""))

    @classmethod
    def inputs(cls, source: TfdsSource, resolve: Resolve) -> list[SourceFile]:
        """Returns the splits of a prepared dataset; the version of each is the digest of all files of the dataset."""
        dataset = f"{resolve(source.data_dir).rstrip('/')}/{source.name}"
        infos = find(f"{glob.escape(dataset)}/*/{_DATASET_INFO}")
        versions = {found.path.split("/")[-2]: found for found in infos}
        if not versions or (source.version and source.version not in versions):
            wanted = f"{source.name}:{source.version}" if source.version else source.name
            present = f" Existing versions: {', '.join(sorted(versions))}." if versions else ""
            raise UserError(
                f"data.source: {wanted} is not prepared in {source.data_dir!r}.{present} Prepare it with `tfds build`, "
                f"or tfds.load(..., data_dir=...). Looked for: {dataset}/{source.version or '*'}/{_DATASET_INFO}."
            )
        version = source.version or max(versions, key=_version_order)
        folder = versions[version].path.removesuffix(f"/{_DATASET_INFO}")
        files = find(f"{glob.escape(folder)}/*")
        digest = digest_of(files)
        size = sum(file.size for file in files)
        return [
            SourceFile(words, split, size, digest, folder, state=digest)
            for split, words in inputs_by_split(source.splits)
        ]

    def columns(self) -> list[str]:
        """Column `a.b` is feature b of the features dict or the sequence a."""
        return list(self._leaves)

    def state(self) -> str:
        """Returns a digest of all files of the dataset."""
        return digest_of(find(f"{glob.escape(self._path)}/*"))

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        needed = dict.fromkeys([*reading.columns, *(self._leaves if reading.all_columns else ())])
        labels = {name: self._label_names(name) for name in needed}
        for batch, numbers in numbered_batches(self._examples(), object_bytes):
            arrays = [array_of([_value(e, name, names) for e in batch]) for name, names in labels.items()]
            yield select_rows(pa.table(arrays, names=list(needed)), numbers, reading)

    def _label_names(self, column: str) -> list[str] | None:
        """Returns the names of the class labels of a column; None if it has no class labels or they have no names."""
        path = f"{self._path}/{column.replace('.', '-')}.labels.txt"
        if "classLabel" not in self._leaves[column] or not find(path):
            return None
        with open_raw(path) as stream:
            return stream.read().decode().splitlines()

    def _examples(self) -> Any:
        """Returns the examples as NumPy, one file after the other. Images are not decoded."""
        tfds = load_package("tensorflow_datasets", package="tensorflow-datasets", needed_by="format: tfds")
        builder = tfds.builder_from_directory(self._path)
        try:
            dataset = builder.as_dataset(
                split=self._split,
                decoders=_nested(
                    {n: tfds.decode.SkipDecoding() for n, leaf in self._leaves.items() if "image" in leaf}
                ),
                shuffle_files=False,
                read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
            )
        except (ValueError, KeyError, AssertionError) as error:
            present = ", ".join(f"{name} ({info.num_examples:,} rows)" for name, info in builder.info.splits.items())
            raise UserError(
                f"data.source.splits: {self._split!r} cannot be read from {self._path}: {error}. Splits: {present}; "
                "a part of one is train[:80%]."
            ) from error
        return tfds.as_numpy(dataset)


def _leaves(feature: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the names and descriptions of the features with values, from features.json."""
    if "sequence" in feature:
        inner = feature["sequence"]["feature"]
        if "featuresDict" not in inner:
            yield prefix, {"sequence": inner}
            return
        feature = inner
    if "featuresDict" not in feature:
        yield prefix, feature
        return
    for name, inner in feature["featuresDict"]["features"].items():
        yield from _leaves(inner, f"{prefix}.{name}" if prefix else name)


def _nested(by_name: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns `{"a.b": x}` as `{"a": {"b": x}}`; None for an empty mapping."""
    result: dict[str, Any] = {}
    for name, value in by_name.items():
        *above, last = name.split(".")
        inner = result
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return result or None


def _value(example: Mapping[str, Any], name: str, labels: Sequence[str] | None) -> Any:
    value: Any = example
    for part in name.split("."):
        value = value[part]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if labels is None:
        return value
    return [_label(v, labels) for v in value] if isinstance(value, list) else _label(value, labels)


def _label(index: int, labels: Sequence[str]) -> str | None:
    """Returns a label's name; None for -1, which TFDS uses for a missing label, as in test splits of competitions."""
    return labels[index] if index >= 0 else None


def _version_order(version: str) -> list[int]:
    return [int(part) if part.isdigit() else -1 for part in version.split(".")]
