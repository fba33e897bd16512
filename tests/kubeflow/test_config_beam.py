"""Beam nodes on Flink and Dataflow: the options of the environment file, parsed by Beam's own option parser."""

import warnings

import pytest

from fullpass.base.errors import UserError
from fullpass.kubeflow.config import EnvironmentConfig, beam_config
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.running.beam_args import beam_args

FLINK = {"runner": "flink", "master": "flink:8081", "job_server_jar": "/opt/beam/job-server.jar", "parallelism": 4}
DATAFLOW = {"runner": "dataflow", "project": "p", "region": "europe-west4", "worker_image": "r/w:1", "most_workers": 9,
            "machine_type": "n2-highmem-8", "public_ips": False}  # fmt: skip
DIRECT = {"image": "x:1", "kubeflow": "2.5", "registry": "gs://b/r", "pipeline_root": "gs://b/a", "artifacts": "direct"}


def options(engine: dict, given: BeamConfig | None = None):
    """Returns Beam's options for a node, and the arguments unknown to Beam's parser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from apache_beam.options import pipeline_options as beam

    environment = EnvironmentConfig.model_validate({**DIRECT, "nodes": {"Transform": {"beam": engine}}})
    found = environment.node("Transform").beam
    config = beam_config(found, given or BeamConfig(), environment.pipeline_root)
    args = beam_args(config, data_bytes=1)
    parsed = beam.PipelineOptions(args)
    known = {arg.partition("=")[0].removeprefix("--") for arg in args}
    return parsed, beam, known


@pytest.mark.integration
def test_beam_reads_the_options_of_flink():
    parsed, beam, _ = options(FLINK)
    flink, portable = parsed.view_as(beam.FlinkRunnerOptions), parsed.view_as(beam.PortableOptions)
    assert parsed.view_as(beam.StandardOptions).runner == "FlinkRunner"
    assert (flink.flink_master, flink.flink_version, flink.parallelism) == ("http://flink:8081", "1.19", 4)
    assert flink.flink_submit_uber_jar is True and flink.flink_job_server_jar == "/opt/beam/job-server.jar"
    assert (portable.environment_type, portable.environment_config) == ("EXTERNAL", "localhost:50000")


@pytest.mark.integration
def test_beam_reads_the_options_of_dataflow():
    parsed, beam, _ = options(DATAFLOW, BeamConfig(options={"save_main_session": True}))
    cloud, workers = parsed.view_as(beam.GoogleCloudOptions), parsed.view_as(beam.WorkerOptions)
    assert parsed.view_as(beam.StandardOptions).runner == "DataflowRunner"
    assert (cloud.project, cloud.region) == ("p", "europe-west4")
    assert cloud.temp_location == "gs://b/a/.dataflow/temp" and cloud.staging_location == "gs://b/a/.dataflow/staging"
    assert (workers.machine_type, workers.max_num_workers, workers.use_public_ips) == ("n2-highmem-8", 9, False)
    assert workers.sdk_container_image == "r/w:1" and parsed.view_as(beam.SetupOptions).sdk_location == "container"
    assert parsed.view_as(beam.SetupOptions).save_main_session is True, "what the YAML says besides stays"


@pytest.mark.integration
@pytest.mark.parametrize("engine", [FLINK, DATAFLOW])
def test_beam_knows_every_option(engine):
    parsed, beam, given = options(engine)
    known = set()
    for view in (beam.StandardOptions, beam.FlinkRunnerOptions, beam.PortableOptions, beam.GoogleCloudOptions,
                 beam.WorkerOptions, beam.SetupOptions):  # fmt: skip
        parser = beam._BeamArgumentParser(allow_abbrev=False)
        view._add_argparse_args(parser)
        known |= {name.removeprefix("--") for action in parser._actions for name in action.option_strings}
    assert given <= known


@pytest.mark.parametrize("more", [{"beam": FLINK}, {"workers": {"count": 2}}])
def test_other_pods_need_artifacts_that_they_can_see(more):
    with pytest.raises(ValueError, match=r"nodes.Trainer.(beam|workers): pods other than.*artifacts: direct"):
        EnvironmentConfig.model_validate({**DIRECT, "artifacts": "copied", "nodes": {"Trainer": more}})


def test_a_node_without_an_engine_keeps_that_of_the_pipeline():
    given = BeamConfig(workers=3)
    assert beam_config(None, given, None) is given


def direct_environment(nodes: str) -> str:
    head = "\n".join(f"{key}: {value!r}" for key, value in DIRECT.items())
    return (
        f"{head}\npush_to: /models/taxi\ndefaults: {{volumes: [{{claim: models, mount: /models}}]}}\nnodes:\n{nodes}\n"
    )


@pytest.mark.integration
def test_the_package_has_engines_and_workers(compile_taxi):
    nodes = "  Transform: {beam: {runner: flink, master: 'flink:8081', job_server_jar: /opt/j.jar}}\n"
    compiled = compile_taxi(direct_environment(nodes + "  Trainer: {workers: {count: 4}, memory: {limit: 8Gi}}"))
    transform = str(compiled.package.executors["exec-transform"]["container"]["args"])
    assert '"flink_master": "http://flink:8081"' in transform
    assert "flink" not in str(compiled.package.executors["exec-evaluator-to-report"])
    trainer = compiled.package.executors["exec-trainer"]["container"]
    assert trainer["command"][3] == "fullpass.kubeflow.runtime.worker_launcher" and trainer["args"][0] == "--workers"
    assert trainer["resources"] == {"cpuRequest": 0.1, "memoryRequest": 1.073741824}, "its pod only waits"
    assert any(sentence.startswith("Trainer: runs in 4 pods of a separate Job") for sentence in compiled.remarks)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("nodes", "edit", "expected"),
    [
        ("  Evaluator: {workers: {count: 2}}", {}, "nodes.Evaluator.workers: only Trainer"),
        ("  Trainer: {workers: {count: 2}}", {"epochs: 10": "distribution: mirrored, epochs: 10"}, "mirrored"),
    ],
)
def test_what_several_pods_cannot_do_is_refused(compile_taxi, nodes, edit, expected):
    with pytest.raises(UserError, match=expected):
        compile_taxi(direct_environment(nodes), edit=edit)


@pytest.mark.integration
def test_a_cluster_of_the_pipeline_yaml_is_refused_where_artifacts_are_copied(compile_taxi):
    with pytest.raises(UserError, match=r"beam.runner: flink: its workers cannot access.*artifacts: direct"):
        compile_taxi(edit={"push: {to: serving, keep: 3}": "push: {to: serving, keep: 3}\nbeam: {runner: flink}"})
