"""The package of a batch prediction."""

import pytest
import yaml

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from fullpass.kubeflow.compile.compile import compile_prediction
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.environment import load_environment
from fullpass.kubeflow.kfp_internals import RELEASES
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import ENVIRONMENT, REPOSITORY

pytestmark = pytest.mark.integration

PREDICT = """\
predict:
  rows: /models/rows/{YYYY}-{MM}-{DD}/*.csv
  output: /models/predictions/{YYYY}-{MM}-{DD}.parquet
  lag: 1d
"""


def compiled(tmp_path, predict: str = PREDICT, release: str = "2.17"):
    old = '"2.5"', "    retries: {count: 2, backoff: 1m}\n"
    text = ENVIRONMENT.replace(old[0], f'"{release}"').replace(old[1], "")
    (tmp_path / "env.yaml").write_text(text + predict)
    taxi = REPOSITORY / "examples" / "taxi" / "pipeline.yaml"
    return compile_prediction(load(taxi), load_environment(tmp_path / "env.yaml"))


def test_the_package_is_the_golden_one(tmp_path, golden):
    golden("kubeflow_predict.yaml", to_yaml(compiled(tmp_path).package).replace(line(), "(the line of TFX)"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("model", ["pushed", "blessed", "gs://bucket/taxi"])
def test_the_backend_of_each_release_can_run_it(tmp_path, release, model):
    package = compiled(tmp_path, f"{PREDICT}  model: {model}\n", release).package
    assert lint(package, release) == []
    parameters = {name: given["defaultValue"] for name, given in package.parameters.items()}
    where = {"pushed": {"model": "/models/taxi"}, "blessed": {}, "gs://bucket/taxi": {"model": "gs://bucket/taxi"}}
    declared = yaml.safe_load(PREDICT)["predict"]
    assert parameters == {"rows": declared["rows"], "output": declared["output"], "date": "", **where[model]}
    tasks = {"find-model", "nodes", "fetched-model"} if model == "blessed" else set()
    assert set(package.tasks) == {"predict", *tasks}
    constants = package.tasks["predict"].get("inputs", {}).get("parameters", {})
    assert ("schedule_time" in constants) == (release == "2.17")
    assert not any(task["cachingOptions"]["enableCache"] for task in package.tasks.values())


@pytest.mark.parametrize(
    ("predict", "expected"),
    [
        ("", r"env.yaml: predict is missing. Add predict: \{rows:"),
        (PREDICT.replace("/models/predictions", "/out"), r"predict.output: /out/.* is on no volume of Predict"),
        (PREDICT.replace(".parquet", ""), "cannot tell the format"),
        (PREDICT + '  cron: "0 25 * * *"\n', "predict.cron: hour takes 0 to 23"),
        (PREDICT + "nodes_: {}\n", "nodes_"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, predict, expected):
    with pytest.raises((UserError, ConfigError), match=expected):
        compiled(tmp_path, predict)


def test_the_file_serves_the_training_too(compile_taxi):
    environment = ENVIRONMENT.replace("nodes:\n", "nodes:\n  Predict: {cpu: {limit: '2'}}\n")
    assert "predict" not in compile_taxi(environment + PREDICT).package.tasks
    with pytest.raises(ConfigError, match="nodes.Predict: no node of this pipeline"):
        compile_taxi(environment)
