"""Secrets that pass the checks of the two YAML files are in no package, and the compiler reports their place."""

import json

import pytest

from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.environment import load_environment
from fullpass.kubeflow.protocol import unpack
from fullpass.pipeline.authoring.loading import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.conftest import ENVIRONMENT
from tests.planted_secrets import PLANTED

pytestmark = pytest.mark.integration
LITERALS = {"ALERT_TOKEN": "pL4nted95Secret", "DB_PASS": "pL4nted96Secret"}
SECRETS = [*LITERALS.values(), *(planted.secret for planted in PLANTED)]


def _environment():
    """Every planted text as the value of a variable, and two secrets that only their variable names reveal."""
    given = {f"V{number}": planted.text for number, planted in enumerate(PLANTED)}
    return ENVIRONMENT.replace(
        '  env: {AWS_ENDPOINT_URL: "http', f'  env: {json.dumps(given | LITERALS)[:-1]}, AWS_ENDPOINT_URL: "http'
    )


def test_the_check_refuses_literal_secrets_and_names_kubernetes_secrets(tmp_path):
    (tmp_path / "env.yaml").write_text(_environment())
    with pytest.raises(ConfigError) as refused:
        load_environment(tmp_path / "env.yaml")
    paths = {problem.path for problem in refused.value.problems}
    wanted = {f"defaults.env.{name}" for name in [*LITERALS, *(f"V{number}" for number in range(len(PLANTED)))]}
    assert wanted <= paths
    assert "secrets: [{name: SECRET, env: {VARIABLE: KEY}}]" in str(refused.value)
    assert not [secret for secret in SECRETS if secret in str(refused.value)]


def test_a_package_has_none_and_says_where_they_were(compile_taxi, monkeypatch):
    monkeypatch.setattr(load, "secret_problems", lambda *_: [])
    comments = "".join(f"# {planted.text}\n" for planted in PLANTED)
    hook = "notify: [{on: [failure], command: " + json.dumps(["send", *(planted.text for planted in PLANTED)]) + "}]\n"
    compiled = compile_taxi(_environment(), {"name: taxi\n": f"name: taxi\n{comments}{hook}"})
    text = to_yaml(compiled.package)
    containers = [executor["container"] for executor in compiled.package.executors.values() if "container" in executor]
    packed = [unpack(c["args"][c["args"].index("--constants") + 1]) for c in containers if "--constants" in c["args"]]
    facts = [unpack(v["value"]) for c in containers for v in c["env"] if v["name"] == "FULLPASS_PACKAGE_FACTS"]
    assert packed and facts
    text += json.dumps([packed, facts], ensure_ascii=False)
    assert [secret for secret in SECRETS if secret in text] == []
    assert "AWS_SECRET_ACCESS_KEY" in text and "secretkey" in text  # names of keys are no secrets
    remarks = "\n".join(compiled.remarks)
    assert "env.yaml: defaults.env.ALERT_TOKEN: may be a secret" in remarks and "pL4nted" not in remarks
    assert "pipeline.yaml: notify[0].command[1]: may be a secret" in remarks
