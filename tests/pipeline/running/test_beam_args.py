import pytest
from tfx.utils import dependency_utils

from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.running.beam_args import MULTI_PROCESSING_BYTES, beam_args, prediction_args


def test_small_data_stays_in_one_process():
    args = beam_args(BeamConfig(), data_bytes=MULTI_PROCESSING_BYTES - 1)
    assert args[:3] == ["--runner=DirectRunner", "--direct_running_mode=in_memory", "--direct_num_workers=1"]


def test_tfx_makes_no_package_of_itself_for_workers_of_this_environment():
    args = beam_args(BeamConfig(), data_bytes=1)
    assert dependency_utils.make_beam_dependency_flags(args) == args


def test_large_data_takes_a_process_per_core(monkeypatch):
    monkeypatch.setattr("fullpass.pipeline.running.beam_args.usable_cores", lambda: 6)
    args = beam_args(BeamConfig(), data_bytes=MULTI_PROCESSING_BYTES)
    assert args[1:3] == ["--direct_running_mode=multi_processing", "--direct_num_workers=6"]


@pytest.mark.parametrize(("megabytes", "workers"), [(127, 1), (128, 2), (64 * 9, 6)])
def test_a_prediction_takes_a_process_per_part_and_at_most_one_per_core(monkeypatch, megabytes, workers):
    monkeypatch.setattr("fullpass.pipeline.running.beam_args.usable_cores", lambda: 6)
    args = prediction_args(BeamConfig(), data_bytes=megabytes << 20)
    assert args[2] == f"--direct_num_workers={workers}"
    assert prediction_args(BeamConfig(workers=3), data_bytes=1)[2] == "--direct_num_workers=3"


def test_workers_asked_for_are_taken_whatever_the_size():
    assert beam_args(BeamConfig(workers=3), data_bytes=1)[2] == "--direct_num_workers=3"


@pytest.mark.parametrize(
    ("value", "args"),
    [
        ("EXTERNAL", ["--x=EXTERNAL"]),
        (3, ["--x=3"]),
        (True, ["--x"]),
        (None, ["--x"]),
        (False, ["--no_x"]),
        (("a", "b"), ["--x=a", "--x=b"]),
    ],
)
def test_options_of_other_runners(value, args):
    config = BeamConfig(runner="flink", options={"x": value})
    assert beam_args(config, data_bytes=1) == ["--runner=FlinkRunner", *args]


def test_any_runner_by_its_own_name():
    assert beam_args(BeamConfig(runner="my.pkg.Runner"), data_bytes=1) == ["--runner=my.pkg.Runner"]
