"""What kube-apiserver 1.35.4 refuses is refused when a package is compiled, with line, path and what is accepted.

`ANSWERS` holds recorded answers of kube-apiserver to pods; the last cases it accepts, but the kubelet, the container
runtime or Kubeflow's own files do not.
"""

import pytest

from fullpass.kubeflow.compile.pod import container, helper_pod_settings
from fullpass.kubeflow.config import Cpu, Memory, NodeConfig
from fullpass.kubeflow.environment import load_environment, require_environment
from fullpass.kubeflow.kubernetes_names import IMAGE, LABEL_KEY, LABEL_VALUE, MOUNTED, OBJECT, SECRET_KEY
from fullpass.pipeline.authoring.loading.problems import ConfigError
from tests.kubeflow.conftest import ENVIRONMENT

ANSWERS = {
    "request above limit": ("memory: {request: 2Gi, limit: 8Gi}", "memory: {request: 8Gi, limit: 4Gi}",
        "6: defaults.memory", 'requests: Invalid value: "8Gi": must be less than or equal to memory limit of 4Gi'),
    "cores above limit": ('cpu: {request: 500m, limit: "4"}', "cpu: {request: 100m, limit: 50m}",
        "7: defaults.cpu", 'requests: Invalid value: "100m": must be less than or equal to cpu limit of 50m'),
    "request of a node above the default limit": ("    timeout: 2h", "    memory: {request: 16Gi}",
        "17: nodes.Trainer.memory", 'Invalid value: "16Gi": must be less than or equal to memory limit of 8Gi'),
    "device without domain": ("resource: nvidia.com/gpu", "resource: gpu",
        "13: nodes.Trainer.accelerator.resource", "must be a standard resource type or fully qualified"),
    "device with a blank": ("resource: nvidia.com/gpu", "resource: nvidia.com/a gpu",
        "13: nodes.Trainer.accelerator.resource", "name part must consist of alphanumeric characters"),
    "label value with a blank": ("nvidia-tesla-t4", "NVIDIA A100",
        "14: nodes.Trainer.node_selector", "a valid label must be an empty string or consist of alphanumeric"),
    "label key with a blank": ("cloud.google.com/gke-accelerator:", "gpu type:",
        "14: nodes.Trainer.node_selector", "name part must consist of alphanumeric characters"),
    "label value of 64": ("nvidia-tesla-t4", "a" * 64,
        "14: nodes.Trainer.node_selector", "must be no more than 63 bytes"),
    "taint key with a blank": ("key: nvidia.com/gpu", "key: gpu type",
        "15: nodes.Trainer.tolerations[0].key", "name part must consist of alphanumeric characters"),
    "taint value with a blank": ("operator: Exists", "value: a b",
        "15: nodes.Trainer.tolerations[0].value", "a valid label must be an empty string or consist of"),
    "claim of 64": ("claim: models", f"claim: {'o' * 64}",
        "8: defaults.volumes[0].claim", "must be no more than 63 characters"),
    "name of a secret": ("{name: store,", "{name: My_Secret,",
        "9: defaults.secrets[0].name", "a lowercase RFC 1123 subdomain must consist of lower case"),
    "key of a secret": ("AWS_ACCESS_KEY_ID: accesskey", "AWS_ACCESS_KEY_ID: access key",
        "9: defaults.secrets[0].env", "a valid config key must consist of alphanumeric characters"),
    "image with a blank": ("image: registry.example/taxi:1.4.2", 'image: " taxi:1"',
        "1: image", "must not have leading or trailing whitespace"),
    "time above 31 bits": ("timeout: 2h", "timeout: 99999d",
        "17: nodes.Trainer.timeout", "must be between 1 and 2147483647, inclusive"),
    "queue with a blank": ("timeout: 2h", "workers: {count: 2, queue: Team A}",
        "17: nodes.Trainer.workers.queue", "a valid label must be an empty string or consist of alphanumeric"),
    "a million workers": ("timeout: 2h", "workers: {count: 1000000}",
        "17: nodes.Trainer.workers.count", "must be less than or equal to 100000 when completion mode is Indexed"),
    "image in upper case": ("image: registry.example/taxi:1.4.2", "image: Taxi:1", "1: image", ""),
    "pull secret": ("[registry-login]", "[My_Secret]", "19: image_pull_secrets[0]", ""),
    "mounted secret": ("{name: store, env", "{name: my.keys, mount: /keys, env", "9: defaults.secrets[0]", ""),
    "mount with a colon": ("mount: /models", 'mount: "/models:1"', "8: defaults.volumes[0].mount", ""),
    "no byte": ("memory: {request: 2Gi", 'memory: {request: "0.5"', "6: defaults.memory.request", ""),
    "volume of Kubeflow": ("claim: models", "claim: gcs-scratch", "5: defaults", ""),
    "folder of Kubeflow": ("[{claim: models, mount: /models}]",
        "[{claim: models, mount: /models}, {claim: x, mount: /kfp-launcher}]", "5: defaults", ""),
    "folder in a folder of Kubeflow": ("[{claim: models, mount: /models}]",
        "[{claim: models, mount: /models}, {claim: x, mount: /tmp/kfp/outputs}]", "5: defaults", ""),
    "folder around a folder of Argo": ("[{claim: models, mount: /models}]",
        "[{claim: models, mount: /models}, {claim: x, mount: /var}]", "5: defaults", ""),
    "variable of Kubernetes": ("AWS_ENDPOINT_URL:", "KUBERNETES_SERVICE_HOST:", "5: defaults", ""),
    "variable of Kubeflow as a secret": ("AWS_ACCESS_KEY_ID:", "KFP_POD_NAME:", "5: defaults", ""),
}  # fmt: skip
"""Case -> text of ENVIRONMENT, its replacement, line and path of the finding, kube-apiserver's sentence if any."""


@pytest.mark.parametrize("case", ANSWERS)
def test_what_kubernetes_refuses_is_refused_with_its_line(tmp_path, case):
    old, new, place, _ = ANSWERS[case]
    assert ENVIRONMENT.count(old) == 1
    (tmp_path / "env.yaml").write_text(ENVIRONMENT.replace(old, new))
    with pytest.raises(ConfigError) as error:
        require_environment(load_environment(tmp_path / "env.yaml"), ["Trainer", "Evaluator"], [])
    [problem] = [one for one in error.value.problems if one.severity == "error"]
    assert f"{problem.line}: {problem.path}".startswith(place), problem


ACCEPTED = {
    "a request as large as the limit": ("memory: {request: 2Gi, limit: 8Gi}", "memory: {request: 4096Mi, limit: 4Gi}"),
    "an empty label": ("nvidia-tesla-t4", '""'),
    "a taint that Equal compares with nothing": ("operator: Exists", "operator: Equal"),
    "a claim of 63": ("claim: models", f"claim: {'o' * 63}"),
    "a mount below another": ("[{claim: models, mount: /models}]",
        "[{claim: models, mount: /models}, {claim: x, mount: /models/x}]"),
    "a namesake of a folder of Kubeflow": ("[{claim: models, mount: /models}]",
        "[{claim: models, mount: /models}, {claim: x, mount: /s3-data}]"),
    "a digest": ("taxi:1.4.2", f"taxi@sha256:{'0a' * 32}"),
    "a port": ("registry.example/taxi:1.4.2", "localhost:5000/team/taxi__a-b:1"),
    "68 years": ("timeout: 2h", "timeout: 24855d"),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_kubernetes_accepts_is_accepted(tmp_path, case):
    old, new = ACCEPTED[case]
    (tmp_path / "env.yaml").write_text(ENVIRONMENT.replace(old, new, 1))
    problems = require_environment(load_environment(tmp_path / "env.yaml"), ["Trainer", "Evaluator"], [])
    assert not [problem for problem in problems if problem.severity == "error"]


@pytest.mark.parametrize(
    ("rule", "accepted", "refused"),
    [
        (LABEL_KEY, ["a", "A.b_c-d", "x.y/z", f"{'a' * 63}", f"{'a' * 253}/b"],
         ["", "/a", "a/", "a/b/c", "A.b/c", "-a", "a" * 64, f"{'a' * 254}/b", "é"]),
        (LABEL_VALUE, ["", "a", "A.b_c", "a" * 63], ["a" * 64, "a ", "-a", "a\n", "é"]),
        (OBJECT, ["a", "a.b-c", "1", "a" * 253], ["", "A", "a_b", "a..b", ".a", "a-", "a" * 254, "a\n"]),
        (MOUNTED, ["a", "1-b", "a" * 63], ["", "a.b", "A", "a" * 64, "-a"]),
        (SECRET_KEY, ["a", "..a", "A_b-C.d"], ["", ".", "..", "a b", "a/b", "a" * 254]),
        (IMAGE, ["a", "a:b", "a.b:1/c", "h/a/b_c:T-1.2"], ["", "A", "a b", "a:", "a/", "https://a/b", "user@a/b",
                                                           "a:b:c"]),
    ],
)  # fmt: skip
def test_names_end_where_kubernetes_ends_them(rule, accepted, refused):
    def is_accepted(text: str) -> bool:
        try:
            return rule.check(text) == text
        except ValueError as error:
            assert rule.accepted in str(error)
            return False

    assert [text for text in accepted if not is_accepted(text)] == []
    assert [text for text in refused if is_accepted(text)] == []


def test_a_look_up_gets_what_it_needs_under_smaller_default_limits():
    small = NodeConfig(image="x:1", cpu=Cpu(limit="50m"), memory=Memory(limit="128Mi"))
    resources = container(helper_pod_settings(small, small), ["x"], [])["resources"]
    assert resources["cpuRequest"] == resources["cpuLimit"] == 0.1
    assert resources["memoryRequest"] == resources["memoryLimit"] == 256 * 2**20 / 1e9
    large = NodeConfig(image="x:1", cpu=Cpu(limit="4"), memory=Memory(limit="8Gi"))
    assert container(helper_pod_settings(large, large), ["x"], [])["resources"]["memoryLimit"] == 8 * 2**30 / 1e9
