"""Runs the Tuner with TFX's own runner on planted rows; its artifacts hold the best values, all trials and curves."""

import json
import shutil

import pytest
from keras_tuner import HyperParameters
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata
from tensorboard.util.tensor_util import make_ndarray
from tfx import v1 as tfx
from tfx.dsl.components.common.importer import Importer
from tfx.types import standard_artifacts

from fullpass.components.tuning.component import Tuner
from fullpass.trainer.tuning.config import CURVES_FOLDER, TuningConfig
from tests.trainer.conftest import planted_rows, prepare_by_hand

pytestmark = pytest.mark.integration
RATES = [1e-7, 0.03]


def test_two_trials_by_tfx_itself(tmp_path):
    """A tiny learning rate learns nothing, so the other rate is the best; the curves show the same."""
    prepared = prepare_by_hand(tmp_path / "data", "binary", planted_rows(300, 1), planted_rows(100, 2))
    for split in ("train", "eval"):
        shutil.copytree(prepared.directory / "transformed" / split, tmp_path / "examples" / f"Split-{split}")
    model = {"kind": "mlp", "hidden": [4]}
    given = prepared.fn_args(tmp_path, model=model, training={"epochs": 2, "batch_size": 50}).custom_config
    tuning = TuningConfig.model_validate(
        {"search": {"training.learning_rate": {"choices": RATES}}, "algorithm": "random", "max_trials": 2}
    )
    examples = Importer(
        str(tmp_path / "examples"), standard_artifacts.Examples, properties={"split_names": '["train", "eval"]'}
    ).with_id("Examples")
    graph = Importer(prepared.graph, standard_artifacts.TransformGraph).with_id("Graph")
    tuner = Tuner(
        tuner_fn="fullpass.trainer.tuning.search.tuner_fn",
        examples=examples.outputs["result"],
        transform_graph=graph.outputs["result"],
        custom_config={**given, "tuning": tuning.model_dump_json()},
    )
    pipeline = tfx.dsl.Pipeline(
        "search",
        str(tmp_path / "root"),
        components=[examples, graph, tuner],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(tmp_path / "metadata.sqlite")
        ),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)

    [best] = (tmp_path / "root" / "Tuner" / "best_hyperparameters").glob("*/best_hyperparameters.txt")
    values = HyperParameters.from_config(json.loads(best.read_text())).values
    assert values["training.learning_rate"] == 0.03
    [results] = (tmp_path / "root" / "Tuner" / "tuner_results").iterdir()
    seen = EventMultiplexer().AddRunsFromDirectory(str(results / CURVES_FOLDER)).Reload()
    scores = {}
    for run in seen.Runs():
        if not run.endswith("/validation"):
            continue
        trial = run.removesuffix("/validation")
        told = seen.SummaryMetadata(trial, metadata.SESSION_START_INFO_TAG).plugin_data.content
        rate = metadata.parse_session_start_info_plugin_data(told).hparams["training.learning_rate"].number_value
        curve = seen.Tensors(run, "log_loss")
        assert [event.step for event in curve] == [1, 2]
        scores[rate] = min(float(make_ndarray(event.tensor_proto)) for event in curve)
    assert sorted(scores) == RATES
    assert scores[0.03] < scores[1e-7]
