"""The inputs of the Trainer, made as in the pipeline: raw examples, transform graph, transformed examples."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import record_files

Row = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A folder with `raw/<split>`, `transformed/<split>` and `graph`.

    preprocessing: the dumped config. rows: raw rows per split.
    """

    directory: Path
    preprocessing: dict[str, Any]
    rows: dict[str, Sequence[Row]]

    def of(self, *features: str) -> "Prepared":
        """Returns the same data of which a model reads only these features, no cross; it is traced sooner."""
        declared = {name: feature for name, feature in self.preprocessing["features"].items() if name in features}
        return replace(self, preprocessing={**self.preprocessing, "features": declared, "crosses": []})

    @property
    def graph(self) -> str:
        return str(self.directory / "graph")

    @property
    def tft_output(self) -> Any:
        import tensorflow_transform as tft

        return tft.TFTransformOutput(self.graph)

    def placement(self, place: str) -> Any:
        """Returns the placement in which all features are computed at `place`."""
        from fullpass.preprocessing.config import PreprocessingConfig
        from fullpass.trainer.input.placement import placement_of
        from fullpass.trainer.models.model_inputs import transformed_outputs

        config = PreprocessingConfig.model_validate({**self.preprocessing, "compute_at": place})
        return placement_of(config, transformed_outputs(config, self.tft_output))

    def files(self, kind: str, split: str) -> list[str]:
        return sorted(str(path) for path in (self.directory / kind / split).iterdir())

    def records(self, kind: str, split: str) -> list[list[bytes]]:
        """Returns the serialized examples of each file."""
        return [list(record_files.read_records(file)) for file in self.files(kind, split)]

    def loaded(self, preprocessing: dict[str, Any] | None = None, **sections: Any) -> tuple[Any, Any, Any]:
        """Returns the loaded data, the training spec and the strategy of a training; `sections` as of `fn_args`."""
        import tensorflow as tf

        from fullpass.preprocessing.config import PreprocessingConfig
        from fullpass.trainer.config import TrainerConfig, TrainingSpec
        from fullpass.trainer.fit.training_data import load_data
        from fullpass.trainer.input.workers import TrainingWorkers

        config = TrainerConfig.model_validate(sections)
        place, strategy = config.input.compute_at, tf.distribute.get_strategy()
        declared = {**(preprocessing or self.preprocessing), "compute_at": place}
        spec = TrainingSpec(PreprocessingConfig.model_validate(declared), config, self.tft_output)
        kind = "transformed" if place == "transform" else "raw"
        data = load_data(self.files(kind, "train"), self.files(kind, "eval"), spec, TrainingWorkers(strategy))
        return data, spec, strategy

    def trained(
        self, preprocessing: dict[str, Any] | None = None, base: Path | None = None, **sections: Any
    ) -> tuple[Any, Any]:
        """Trains without exporting, from the weights of the export `base`; returns the data and the trained model."""
        from fullpass.trainer.fit.warm_start import read_base
        from fullpass.trainer.train import RunOptions, train

        data, spec, strategy = self.loaded(preprocessing, **sections)
        return data, train(data, spec, strategy, RunOptions(base=base and read_base(str(base))))

    def built(self, base: Path | None = None, **sections: Any) -> Any:
        """Builds a model with the weights of the export `base`, before its first update."""
        from fullpass.trainer.fit.build_training import build_training
        from fullpass.trainer.fit.warm_start import read_base

        data, spec, strategy = self.loaded(**sections)
        warm = base and read_base(str(base))
        return build_training(spec, data.statistics, data.in_model, updates=1, strategy=strategy, base=warm)

    def fn_args(self, output: Path, **trainer: Any) -> SimpleNamespace:
        """Returns the fn_args that TFX passes to run_fn; `trainer` are the sections model, training and input."""
        from fullpass.trainer.config import TrainerConfig

        config = TrainerConfig.model_validate({"model": "linear", **trainer})
        kind = "transformed" if config.input.compute_at == "transform" else "raw"
        return SimpleNamespace(
            train_files=[str(self.directory / kind / "train" / "*")],
            eval_files=[str(self.directory / kind / "eval" / "*")],
            transform_output=self.graph,
            serving_model_dir=str(output / "Format-Serving"),
            model_run_dir=str(output / "model_run"),
            custom_config={
                "name": "test",
                "preprocessing": {**self.preprocessing, "compute_at": config.input.compute_at},
                "trainer": config.model_dump(mode="json"),
                "source": {"format": "csv", "missing": ["", "NA"], "strip": True},
                "personal": ["note"],
                "work": str(output / "work"),
            },
        )


@pytest.fixture(scope="session")
def planted(made_once: Callable[..., Any]) -> Callable[[str], Prepared]:
    """Returns the function that prepares the planted rows for a task, once for all workers."""

    @cache
    def of_task(task: str) -> Prepared:
        def prepare(folder: Path) -> Prepared:
            return prepare_by_hand(folder / task, task, planted_rows(1000, 1), planted_rows(300, 2))

        return made_once(f"planted-{task}", prepare)

    return of_task


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Prepared]:
    """Returns the function that prepares 200 planted binary rows, each mapped by `train`; None drops a row."""

    def prepare(train: Callable[[Row], Row | None]) -> Prepared:
        rows = [row for row in map(train, planted_rows(200, 1)) if row is not None]
        return prepare_by_hand(tmp_path / "changed", "binary", rows, planted_rows(50, 2))

    return prepare


@dataclass(frozen=True)
class Exported:
    """A model that run_fn trained and exported. Its inputs are deleted and the export is moved.

    prepared: the same data in another folder. training: the content of training.json.
    """

    prepared: Prepared
    directory: Path
    model_run: Path
    training: dict[str, Any]


@pytest.fixture(scope="session")
def exported(planted: Callable[[str], Prepared], made_once: Callable[..., Any]) -> Callable[[str], Exported]:
    """Returns the function that trains wide_deep on the planted rows of a task, once for all workers."""
    from fullpass.trainer.export.sample_requests import write_samples
    from fullpass.trainer.run_fn import run_fn

    @cache
    def of_task(task: str) -> Exported:
        prepared = planted(task)
        few = {"multilabel": ("x", "trip miles", "position"), "multiclass": ("x", "trip miles", "kind", "city")}
        if task in few:  # no test reads its other features
            prepared = prepared.of(*few[task])

        def export(folder: Path) -> Exported:
            copy = Prepared(folder / "data", prepared.preprocessing, prepared.rows)
            shutil.copytree(prepared.directory, copy.directory)
            write_samples(copy.graph, copy.files("raw", "eval"))
            training = {"epochs": 8, "learning_rate": 0.01}
            run_fn(copy.fn_args(folder / "output", model="wide_deep", training=training))
            shutil.rmtree(copy.directory)
            (folder / "output" / "Format-Serving").rename(folder / "moved")
            output = folder / "output"
            return Exported(prepared, folder / "moved", output / "model_run", training_of(output))

        return made_once(f"exported-{task}", export)

    return of_task


def training_of(folder: Path) -> dict[str, Any]:
    """Returns the content of training.json, of a training with the outputs that `fn_args(folder)` names."""
    return json.loads((folder / "model_run" / "training.json").read_text())


def prepare_by_hand(
    directory: Path,
    task: str,
    train: Sequence[Row],
    evaluation: Sequence[Row],
    shards: int = 2,
    vocabularies: dict[str, Sequence[str]] | None = None,
) -> Prepared:
    """Writes the files of `Prepared` into `directory`, with a hand-made transform graph that follows `outputs.py`.

    The analysis of TF Transform takes 20 seconds; the parts of a graph that the Trainer needs take less than one.
    """
    from fullpass.preprocessing.config import PreprocessingConfig

    config = PreprocessingConfig.model_validate({"features": FEATURES, "crosses": CROSSES, "label": LABELS[task]})
    graph = directory / "graph"
    write_graph(graph, task, config, vocabularies or VOCABULARIES)
    return materialize(directory, config.model_dump(mode="json"), {"train": train, "eval": evaluation}, shards)


def materialize(
    directory: Path, preprocessing: dict[str, Any], rows: dict[str, Sequence[Row]], shards: int
) -> Prepared:
    """Writes the raw and the transformed examples beside `directory`/graph."""
    import tensorflow as tf

    prepared = Prepared(directory, preprocessing, rows)
    output = prepared.tft_output
    transform = tf.saved_model.load(output.transform_savedmodel_dir).transform_fn
    first = 0
    for split, rows_of_split in rows.items():
        records = to_examples(rows_of_split, first)
        first += len(records)
        write_records(directory / "raw" / split, records, shards)
        columns = transform(tf.io.parse_example(records, output.raw_feature_spec())) if records else {}
        write_records(directory / "transformed" / split, _encode(columns, output, len(records)), shards)
    return prepared


def to_examples(rows: Sequence[Row], first: int = 0) -> list[bytes]:
    """Returns rows as serialized raw examples, numbered from `first`."""

    def value(cell: Any) -> Any:
        cells = cell if isinstance(cell, list) else [cell]
        return cells if isinstance(cells[0], str) else [float(one) for one in cells]

    return [
        record_files.example(
            {"fullpass_row": number} | {name: value(cell) for name, cell in row.items() if cell is not None}
        )
        for number, row in enumerate(rows, start=first)
    ]


def write_records(folder: Path, records: Sequence[bytes], shards: int) -> None:
    """Writes records round-robin to `shards` files, every second one gzipped."""
    folder.mkdir(parents=True)
    for shard in range(shards):
        suffix = (".gz", "")[shard % 2]
        record_files.write_records(folder / f"data-{shard:05d}-of-{shards:05d}{suffix}", records[shard::shards])


def _encode(columns: dict[str, Any], output: Any, rows: int) -> list[bytes]:
    import tensorflow as tf
    import tensorflow_transform as tft

    coder = tft.coders.ExampleProtoCoder(output.transformed_metadata.schema)

    def cells(value: Any) -> list[Any]:
        if isinstance(value, tf.SparseTensor):
            values, owners = value.values.numpy(), value.indices.numpy()[:, 0]
            return [values[owners == row] for row in range(rows)]
        return list(value.numpy())

    listed = {name: cells(value) for name, value in columns.items()}
    return [coder.encode({name: values[row] for name, values in listed.items()}) for row in range(rows)]


FEATURES = {
    "x": "number",
    "trip miles": {"type": "number", "missing": "median", "indicator": True},
    "kind": "category",
    "city": {"type": "category", "encoding": {"embedding": 4}},
    "tags": {"type": "category", "separator": "|"},
    "note": {"type": "text", "output": "tf_idf", "vocabulary": {"top_k": 50}},
    "position": {"type": "vector", "width": 2},
}
LABELS = {
    "binary": {"name": "likes", "task": "binary", "positive": "yes"},
    "multiclass": {"name": "group", "task": "multiclass"},
    "multilabel": {"name": "topics", "task": "multilabel", "separator": "|"},
    "regression": {"name": "price", "task": "regression"},
}
CROSSES = [{"inputs": ["kind", "city"], "hash_buckets": 100}]
CLASSES = {"multiclass": ("low", "middle", "high"), "multilabel": ("warm", "far")}
_KINDS = ("a", "b", "c")
_CITIES = tuple(f"city {i}" for i in range(40))
_TAGS = ("red", "green", "blue")
VOCABULARIES = {"kind": _KINDS, "city": _CITIES, "tags": _TAGS, "note": ("so", *_TAGS, *_KINDS)}


def planted_rows(count: int, seed: int) -> list[Row]:
    """Returns rows whose labels follow from their features; every tenth cell of some columns is missing.

    `likes` is "yes" exactly if x is positive for kind a, if x is negative for kind b, and if the tags hold "red" for
    kind c. `group` is low, middle or high by x + trip miles. `topics` holds warm if x > 0, and far if trip miles > 5.
    `price` is 1000 + 200 x + 50 trip miles.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        x, miles = float(random.normal()), float(random.uniform(0, 10))
        kind = _KINDS[random.integers(3)]
        tags = [tag for tag in _TAGS if random.random() < 0.5]
        likes = {"a": x > 0, "b": x < 0, "c": "red" in tags}[kind]
        total = x + miles
        rows.append(
            {
                "x": x,
                "trip miles": None if number % 10 == 0 else miles,
                "kind": kind,
                "city": _CITIES[random.integers(40)],
                "tags": "|".join(tags) or None,
                "note": " ".join(["so", *tags, kind]),
                "position": [x, miles] if number % 10 != 1 else None,
                "likes": "yes" if likes else "no",
                "group": "low" if total < 4 else "middle" if total < 7 else "high",
                "topics": "|".join(topic for topic, holds in (("warm", x > 0), ("far", miles > 5)) if holds) or "|",
                "price": 1000 + 200 * x + 50 * miles,
            }
        )
    return rows


def write_graph(graph: Path, task: str, config: Any, vocabularies: dict[str, Sequence[str]]) -> None:
    """Writes a transform graph, with metadata, for the columns of `planted_rows`."""
    import tensorflow as tf
    import tensorflow_transform as tft
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import metadata_io, schema_utils

    from fullpass.preprocessing.apply.column_tensors import raw_feature_spec

    raw = raw_feature_spec(config, serving=False)
    graph.mkdir(parents=True)
    (graph / "label").write_text("\n".join({"binary": ("no", "yes"), **CLASSES}.get(task, ())))
    module = tf.Module()
    module.classes = tf.saved_model.Asset(str(graph / "label"))
    module.tables = {name: _table(graph / f"vocabulary_{name}", tokens) for name, tokens in vocabularies.items()}

    specs = {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in raw.items()}
    module.transform_fn = tf.function(
        lambda columns: transform(columns, task, module.tables), autograph=False, input_signature=[specs]
    )
    tf.saved_model.save(module, str(graph / "transform_fn"))
    sizes = {f"{name}_xf": len(tokens) + 2 for name, tokens in vocabularies.items()} | {"kind_x_city_xf": 101}
    if task in CLASSES:
        sizes["label"] = len(CLASSES[task])
    domains = {name: schema_pb2.IntDomain(name=name, min=0, max=size - 1) for name, size in sizes.items()}
    schema = schema_utils.schema_from_feature_spec(_transformed_spec(task), domains)
    metadata_io.write_metadata(tft.DatasetMetadata(schema), str(graph / "transformed_metadata"))
    metadata_io.write_metadata(tft.DatasetMetadata.from_feature_spec(raw), str(graph / "metadata"))


def transform(columns: dict[str, Any], task: str, tables: dict[str, Any]) -> dict[str, Any]:
    """Returns the outputs declared in `outputs.py` for FEATURES, CROSSES and the label of `task`, computed by hand."""
    import tensorflow as tf

    def cells(name, default):
        sparse = columns[name]
        one = tf.SparseTensor(sparse.indices, sparse.values, [sparse.dense_shape[0], 1])
        return tf.sparse.to_dense(one, default, validate_indices=False)[:, 0]

    def ids(table, tokens):
        return tf.where(tokens == "", tf.constant(0, tf.int64), table.lookup(tokens) + 2)

    def rows_of_ids(table, sparse):
        return tf.SparseTensor(sparse.indices, ids(table, sparse.values), sparse.dense_shape)

    nan = float("nan")
    x, miles = cells("x", nan), cells("trip miles", nan)
    kind, city = cells("kind", ""), cells("city", "")
    tags = tf.strings.split(cells("tags", ""), "|").to_sparse()
    tags = tf.sparse.retain(tags, tags.values != "")
    note = tf.strings.split(cells("note", "")).to_sparse()
    size = columns["position"].dense_shape[0]
    full = tf.SparseTensor(columns["position"].indices, columns["position"].values, [size, 2])
    crossed = tf.strings.to_hash_bucket_fast(kind + "|" + city, 100) + 1
    return {
        "x_xf": tf.where(tf.math.is_nan(x), 0.0, x),
        "trip miles_xf": tf.where(tf.math.is_nan(miles), 0.0, (miles - 5.0) / 3.0),
        "trip miles.missing_xf": tf.cast(tf.math.is_nan(miles), tf.float32),
        "kind_xf": ids(tables["kind"], kind),
        "city_xf": ids(tables["city"], city),
        "tags_xf": rows_of_ids(tables["tags"], tags),
        "note_xf": rows_of_ids(tables["note"], note),
        "note.weight_xf": tf.SparseTensor(
            note.indices, tf.ones_like(note.indices[:, 0], tf.float32) / 2, note.dense_shape
        ),
        "position_xf": tf.sparse.to_dense(full),
        "kind_x_city_xf": tf.where((kind == "") | (city == ""), tf.constant(0, tf.int64), crossed),
        **_label(task, columns, cells),
        "row_id": cells("fullpass_row", tf.constant(-1, tf.int64)),
    }


def _label(task: str, columns: dict[str, Any], cells: Callable[..., Any]) -> dict[str, Any]:
    import tensorflow as tf

    column = LABELS[task]["name"]
    value = cells(column, float("nan") if task == "regression" else "")
    present = ~tf.math.is_nan(value) if task == "regression" else value != ""
    if task == "regression":
        label = tf.where(present, value, 0.0)
    elif task == "binary":
        label = tf.cast(value == "yes", tf.float32)
    else:
        # A comparison with constants replaces a table: class ids are 0, 1, ... in the order of CLASSES; others are
        # dropped.
        tokens = tf.strings.split(value, "|").to_sparse() if task == "multilabel" else value[:, tf.newaxis]
        flat = tokens.values if task == "multilabel" else tokens[:, 0]
        matches = tf.equal(flat[:, tf.newaxis], tf.constant(CLASSES[task])[tf.newaxis])
        place = tf.where(tf.reduce_any(matches, 1), tf.argmax(matches, 1), -1)
        if task == "multilabel":
            label = tf.sparse.retain(tf.SparseTensor(tokens.indices, place, tokens.dense_shape), place >= 0)
        else:
            label, present = tf.maximum(place, 0), present & (place >= 0)
    weight = cells("weight", 1.0) if "weight" in columns else tf.ones_like(present, tf.float32)
    return {"label": label, "example_weight": tf.where(present, weight, 0.0)}


def _table(file: Path, tokens: Sequence[str]) -> Any:
    """Returns a table token -> line number, -1 for others, over a file of one token per line, as in TF Transform."""
    import tensorflow as tf

    file.write_text("".join(f"{token}\n" for token in tokens))
    initializer = tf.lookup.TextFileInitializer(
        str(file), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    return tf.lookup.StaticHashTable(initializer, -1)


def _transformed_spec(task: str) -> dict[str, Any]:
    import tensorflow as tf

    numbers = ("x_xf", "trip miles_xf", "trip miles.missing_xf", "example_weight")
    spec: dict[str, Any] = {name: tf.io.FixedLenFeature([], tf.float32) for name in numbers}
    spec |= {n: tf.io.FixedLenFeature([], tf.int64) for n in ("kind_xf", "city_xf", "kind_x_city_xf", "row_id")}
    spec |= {name: tf.io.VarLenFeature(tf.int64) for name in ("tags_xf", "note_xf")}
    spec |= {"note.weight_xf": tf.io.VarLenFeature(tf.float32), "position_xf": tf.io.FixedLenFeature([2], tf.float32)}
    labels = {"multiclass": tf.io.FixedLenFeature([], tf.int64), "multilabel": tf.io.VarLenFeature(tf.int64)}
    return spec | {"label": labels.get(task, tf.io.FixedLenFeature([], tf.float32))}
