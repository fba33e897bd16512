"""The package that watches the served model."""

from dataclasses import replace

import pytest

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from fullpass.components.watch.config import ServingLogConfig
from fullpass.kubeflow.compile.compile import compile_watch
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.environment import load_environment
from fullpass.kubeflow.kfp_internals import RELEASES
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import ENVIRONMENT, REPOSITORY

pytestmark = pytest.mark.integration


def compiled(tmp_path, environment: str = ENVIRONMENT, release: str = "2.17", path: str = "/models/log/*/*"):
    text = environment.replace('"2.5"', f'"{release}"').replace("    retries: {count: 2, backoff: 1m}\n", "")
    (tmp_path / "env.yaml").write_text(text)
    loaded = load(REPOSITORY / "examples" / "taxi" / "pipeline.yaml")
    log = ServingLogConfig.model_validate({"source": {"format": "serving_log", "path": path}})
    loaded = replace(loaded, config=loaded.config.model_copy(update={"serving_log": log}))
    return compile_watch(loaded, load_environment(tmp_path / "env.yaml"))


def test_the_package_is_the_golden_one(tmp_path, golden):
    golden("kubeflow_watch.yaml", to_yaml(compiled(tmp_path).package).replace(line(), "(the line of TFX)"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("path", ["/models/log/*/*", "s3://bucket/log/*/*"])
def test_the_backend_of_each_release_can_run_it(tmp_path, release, path):
    package = compiled(tmp_path, release=release, path=path).package
    assert lint(package, release) == [] and package.name == "taxi-watch"
    assert list(package.tasks) == ["watch"] and list(package.parameters) == ["date"]
    assert not package.tasks["watch"]["cachingOptions"]["enableCache"]


def test_what_does_not_fit_is_refused(tmp_path):
    (tmp_path / "env.yaml").write_text(ENVIRONMENT)
    with pytest.raises(UserError, match="serving_log is missing, so there is nothing to watch"):
        compile_watch(load(REPOSITORY / "examples" / "taxi" / "pipeline.yaml"), load_environment(tmp_path / "env.yaml"))
    with pytest.raises(ConfigError, match="watch.cron"):
        compiled(tmp_path, ENVIRONMENT + 'watch: {cron: "0 25 * * *"}\n')
    with pytest.raises(UserError, match="registry: gs://bucket/r: a watch writes its record and page to a folder"):
        compiled(tmp_path, ENVIRONMENT.replace("registry: /models/registry", "registry: gs://bucket/r"))
