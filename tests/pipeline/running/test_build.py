"""The pipeline for another machine: its nodes have paths there, and its digests are computed from the files here."""

import json

import pytest

from fullpass.components.ingest.spans.spans import Window
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build_nodes
from fullpass.pipeline.running.tfx_components import RunPaths, with_absolute_files
from fullpass.preprocessing.config import PreprocessingConfig

YAML = """\
name: pictures
data:
  source: {format: csv, path: pictures.csv}
  split: {method: hash, column: file, ratios: {train: 3, eval: 1}}
label: {name: kind, task: regression}
features:
  file:
    type: image
    size: [32, 32]
    encoder: {pretrained: {architecture: MobileNetV2, weights: m.weights.h5}}
"""


PATHS = RunPaths(
    resolve=lambda path: f"/cluster/{path}",
    window=Window(None, ()),
    known=(),
    analyzer_cache="/cluster/cache",
    span_statistics="/cluster/statistics",
    span_verdicts="/cluster/verdicts",
    compress=True,
    push_to="/cluster/serving",
)


@pytest.mark.integration
def test_weights_for_a_cluster_are_digested_here_and_read_there(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(YAML)
    settings = []
    for content in (b"one", b"one", b"two"):
        (tmp_path / "m.weights.h5").write_bytes(content)
        nodes = build_nodes(load(tmp_path / "pipeline.yaml"), PATHS)
        settings.append(next(node for node in nodes if node.id == "Trainer").exec_properties["custom_config"])
    assert settings[0] == settings[1] != settings[2]
    assert "/cluster/m.weights.h5" in settings[0]


SEQUENCE = """\
name: visits
data: {source: {format: jsonl, path: visits.jsonl}}
label: {name: bought, task: binary}
features:
  shop: {type: category, vocabulary: {file: words/shops.txt}}
sequences:
  seen: {columns: {item: {type: category, vocabulary: {file: words/items.txt}}}}
"""


@pytest.mark.integration
def test_a_node_finds_each_vocabulary_file_from_any_folder(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(SEQUENCE)
    config = with_absolute_files(
        load(tmp_path / "pipeline.yaml").config.preprocessing_config, lambda path: f"/at/{path}"
    )
    read = PreprocessingConfig.model_validate_json(config.model_dump_json())  # as a node does
    files = {name: feature.vocabulary.file for name, feature in read.features.items()}
    assert files == {"shop": "/at/words/shops.txt", "seen.item": "/at/words/items.txt"}


TABLE = """\
name: table
data:
  source: {format: csv, path: PATH}
  split: SPLIT
label: {name: price, task: regression}
features: {rooms: number, street: STREET}
model: MODEL
"""
HASH = "{method: hash}"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("split", "model", "path", "street", "folds"),
    [
        (HASH, "auto", "a.csv", "category", True),
        ("{method: random}", "auto", "a.csv", "category", True),
        ("{method: hash, column: street}", "auto", "a.csv", "category", False),
        ('{method: time, column: sold, until: {train: "2020-01-01"}}', "auto", "a.csv", "category", False),
        (None, "auto", "{train: a.csv, eval: b.csv}", "category", False),
        (HASH, "auto", "a.csv", "target", False),
        (HASH, "trees", "a.csv", "category", True),
        (HASH, "wide_deep", "a.csv", "category", False),
    ],
)
def test_folds_are_for_trees_and_several_models_on_rows_that_are_split_one_by_one(
    tmp_path, split, model, path, street, folds
):
    text = TABLE.replace("PATH", path).replace("STREET", street).replace("MODEL", model)
    text = text.replace("  split: SPLIT\n", f"  split: {split}\n" if split else "")
    (tmp_path / "pipeline.yaml").write_text(text)
    nodes = build_nodes(load(tmp_path / "pipeline.yaml"), PATHS)
    settings = json.loads(next(node for node in nodes if node.id == "Trainer").exec_properties["custom_config"])
    assert settings.get("folds", False) == folds
