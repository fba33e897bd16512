"""The environment file: its checks, and the settings that a node gets from it."""

import pytest

from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig, byte_count, cores, seconds
from fullpass.kubeflow.environment import load_environment
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.conftest import ENVIRONMENT, REPOSITORY

MISTAKES = {
    "misspelt key": ("push_to:", "pushto:", 4, "pushto", 'Did you mean "push_to"?'),
    "unknown release": ('kubeflow: "2.5"', 'kubeflow: "2.3"', 2, "kubeflow", '"2.17"'),
    "a number for a release": ('kubeflow: "2.5"', "kubeflow: 2.5", 2, "kubeflow", 'Accepted: "2.4", "2.5"'),
    "no amount of bytes": ("memory: {request: 2Gi", "memory: {request: 2GB", 6, "defaults.memory.request", "8Gi"),
    "no number of cores": ("cpu: {request: 500m", "cpu: {request: half", 7, "defaults.cpu.request", "500m"),
    "no time": ("timeout: 2h", "timeout: 2 hours", 17, "nodes.Trainer.timeout", "90s, 30m, 2h"),
    "a relative mount": ("mount: /models}", "mount: models}", 8, "defaults.volumes[0].mount", "'models'"),
    "a secret given": ("AWS_ENDPOINT_URL: ", "AWS_SECRET_ACCESS_KEY: ",
        10, "defaults.env.AWS_SECRET_ACCESS_KEY", "credential"),
    "a secret for nothing": ("{name: store, env: {", "{name: store, mount: , env: {}}, {name: x, env: {",
        9, "defaults.secrets[0]", "give env"),
    "another taint": ("effect: NoSchedule", "effect: Never", 15, "nodes.Trainer.tolerations[0].effect", "NoExecute"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_their_line(tmp_path, mistake):
    old, new, line, place, expected = MISTAKES[mistake]
    assert old in ENVIRONMENT
    (tmp_path / "env.yaml").write_text(ENVIRONMENT.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        load_environment(tmp_path / "env.yaml")
    found = [problem for problem in error.value.problems if problem.path == place]
    assert found and found[0].line == line and expected in found[0].message, str(error.value)


def test_an_empty_file_is_told_what_it_needs(tmp_path):
    (tmp_path / "env.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"image, kubeflow and registry.*"):
        load_environment(tmp_path / "env.yaml")


def test_direct_artifacts_need_a_store_that_tensorflow_opens():
    with pytest.raises(ValueError, match="gs://"):
        EnvironmentConfig(image="x:1", kubeflow="2.5", registry="/r", artifacts="direct", pipeline_root="s3://b")


def test_a_node_has_the_defaults_and_what_differs_for_it(tmp_path):
    (tmp_path / "env.yaml").write_text(ENVIRONMENT)
    config = load_environment(tmp_path / "env.yaml").config
    evaluator, trainer = config.node("Evaluator"), config.node("Trainer")
    assert (evaluator.memory.request, evaluator.memory.limit, evaluator.cache) == ("2Gi", "16Gi", False)
    assert (trainer.memory.limit, trainer.cpu.limit, trainer.cache) == ("8Gi", "4", None)
    assert trainer.volumes == evaluator.volumes and trainer.image == config.image


def test_a_node_without_tensorflow_has_the_small_image_unless_it_names_its_own():
    given = {"image": "x:1", "kubeflow": "2.5", "registry": "/r", "defaults": {"image": "d:1"}}
    config = EnvironmentConfig(**given, small_image="s:1", nodes={"Report": {"image": "r:1"}})
    images = [config.node(name, small=small).image for name in ("Pusher", "Report") for small in (True, False)]
    assert images == ["s:1", "d:1", "r:1", "r:1"]
    assert EnvironmentConfig(**given).node("Pusher", small=True).image == "d:1"


def test_a_folder_is_on_the_volume_that_is_mounted_nearest():
    node = NodeConfig(volumes=[{"claim": "a", "mount": "/models"}, {"claim": "b", "mount": "/models/taxi"}])
    found = {folder: node.volume_of(folder) for folder in ("/models", "/models/taxi/1", "/models/tax", "/model")}
    assert {folder: volume and volume.claim for folder, volume in found.items()} == {
        "/models": "a", "/models/taxi/1": "b", "/models/tax": "a", "/model": None,
    }  # fmt: skip


def test_amounts_and_times_in_units():
    assert [byte_count(text) for text in ("8Gi", "500M", "1.5k", "7")] == [8 * 2**30, 500_000_000, 1500, 7]
    assert [cores(text) for text in ("2", "0.5", "250m")] == [2.0, 0.5, 0.25]
    assert [seconds(text) for text in ("90s", "30m", "2h", "1d")] == [90, 1800, 7200, 86_400]


def test_the_manual_names_every_key():
    text = (REPOSITORY / "docs" / "kubeflow.md").read_text()
    keys = {*EnvironmentConfig.model_fields, *NodeConfig.model_fields}
    assert not [key for key in keys if f"`{key}`" not in text]
    words = " ".join(text.split())
    assert (
        "executed step by step under the backend's rules" in words and "Not tested: a cluster of several nodes" in words
    )
