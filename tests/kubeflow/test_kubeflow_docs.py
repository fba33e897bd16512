"""docs/kubeflow.md is consistent in itself and with the taxi example."""

import re

import pytest
import yaml

from fullpass.kubeflow.config import EnvironmentConfig
from tests.kubeflow.conftest import REPOSITORY
from tests.kubeflow.runtime.kubernetes_server import as_kubernetes_reads_it

TEXT = (REPOSITORY / "docs" / "kubeflow.md").read_text()
HERE_DOCUMENTS = re.compile(r"(?s)<<'END'\n(.*?)\n    END")


def documents() -> list[str]:
    return ["\n".join(line[4:] for line in found.splitlines()) for found in HERE_DOCUMENTS.findall(TEXT)]


def meets_restricted_level(pod: dict) -> bool:
    """The level `restricted` of Kubernetes' Pod Security Standards, for a pod of one container and one claim."""
    context, [container] = pod["securityContext"], pod["containers"]
    own = container["securityContext"]
    return (
        (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        and (own["allowPrivilegeEscalation"], own["capabilities"]) == (False, {"drop": ["ALL"]})
        and all(set(volume) == {"name", "persistentVolumeClaim"} for volume in pod["volumes"])
    )


@pytest.mark.integration
def test_the_environment_file_of_the_walk_through_compiles(compile_taxi):
    [environment] = [text for text in documents() if "push_to" in text]
    compiled = compile_taxi(environment)
    assert "models" in str(compiled.package.platform)


def test_pods_for_people_mount_the_volume_of_the_walk_through():
    [environment] = [yaml.safe_load(text) for text in documents() if "push_to" in text]
    pods = [yaml.safe_load(text) for text in documents() if "kind: Pod" in text]
    assert [pod["metadata"]["name"] for pod in pods] == ["models", "prepare-models"]
    for pod in pods:
        assert as_kubernetes_reads_it(pod, "V1Pod") == pod
        [container], [volume] = pod["spec"]["containers"], pod["spec"]["volumes"]
        [mounted] = container["volumeMounts"]
        assert meets_restricted_level(pod["spec"]), pod["metadata"]["name"]
        assert mounted["name"] == volume["name"] and container["image"] == environment["image"]
        claim = {"claim": volume["persistentVolumeClaim"]["claimName"], "mount": mounted["mountPath"]}
        assert environment["defaults"]["volumes"] == [claim]
    assert f"fullpass rollback {environment['push_to']}\n" in TEXT


def test_every_key_of_the_environment_file_is_documented():
    assert not [name for name in EnvironmentConfig.model_fields if f"`{name}`" not in TEXT]
