"""The trials of a search, read with TensorBoard's own readers."""

import pytest
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata
from tensorboard.util.tensor_util import make_ndarray

from tests.trainer.tuning.test_search import searched, tuner_args

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_tensorboard_compares_the_trials_by_their_values_and_the_objective(planted, tmp_path):
    space = {"training.learning_rate": {"choices": [0.001, 0.03]}, "training.mask_rate": {"min": 0.0, "max": 0.2}}
    args = tuner_args(planted, tmp_path, search=space, algorithm="random", max_trials=2)
    args.custom_config["trial_curves"] = str(tmp_path / "results")
    tuner = searched(args)
    seen = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "results")).Reload()

    def content(run, tag):
        return seen.SummaryMetadata(run, tag).plugin_data.content

    experiment = metadata.parse_experiment_plugin_data(content(".", metadata.EXPERIMENT_TAG))
    by_name = {info.name: info for info in experiment.hparam_infos}
    assert [v.number_value for v in by_name["training.learning_rate"].domain_discrete.values] == [0.001, 0.03]
    assert by_name["training.mask_rate"].domain_interval.max_value == 0.2
    [metric] = experiment.metric_infos
    for trial in tuner.oracle.trials.values():
        start = metadata.parse_session_start_info_plugin_data(content(trial.trial_id, metadata.SESSION_START_INFO_TAG))
        assert {path: value.number_value for path, value in start.hparams.items()} == trial.hyperparameters.values
        end = metadata.parse_session_end_info_plugin_data(content(trial.trial_id, metadata.SESSION_END_INFO_TAG))
        assert end.status == 1, "STATUS_SUCCESS"
        curve = seen.Tensors(f"{trial.trial_id}/{metric.name.group}", metric.name.tag)
        assert [event.step for event in curve] == [1, 2]
        best = min(float(make_ndarray(event.tensor_proto)) for event in curve)
        assert best == pytest.approx(trial.score, rel=1e-6)
