"""What Kubernetes accepts as names, labels, images and times of a pod, as types of the environment file.

The OpenAPI schema that Kubernetes publishes has none of these rules: kube-apiserver checks them in code. They are
stated here once, each with its source. References without another name are to github.com/kubernetes/kubernetes, 1.35.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

_PART = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
LABEL_LENGTH = 63
"""Most characters of a DNS label, of the value of a label, and of the part of its key behind the slash."""
SUBDOMAIN_LENGTH = 253
"""Most characters of a DNS name, which most objects of Kubernetes have as their name."""


@dataclass(frozen=True)
class Rule:
    """A kind of text.

    Attributes:
        accepted: What is accepted, with an example, for messages.
        pattern: A regular expression of the whole text.
        longest: Most characters.
    """

    accepted: str
    pattern: str
    longest: int = SUBDOMAIN_LENGTH

    def check(self, text: str) -> str:
        """Returns the text.

        Raises:
            ValueError: Kubernetes would refuse it.
        """
        if len(text) <= self.longest and re.fullmatch(self.pattern, text):
            return text
        raise ValueError(f"Kubernetes refuses {text!r} here. Accepted: {self.accepted}.")


MOUNTED = Rule(
    "lower-case letters, digits and inner dashes, at most 63 characters, such as taxi-models", _LABEL, LABEL_LENGTH
)
"""A claim or secret that is mounted: Kubeflow calls the volume like it (v2/driver/k8s.go:322 and 1161 at 2.17.0), and
volumes have DNS labels as names (pkg/apis/core/validation/validation.go, ValidateVolumes)."""
OBJECT = Rule("lower-case letters, digits, inner dashes and dots, such as registry-login", _SUBDOMAIN)
"""The name of a secret (staging/src/k8s.io/apimachinery/pkg/api/validation/name.go)."""
SECRET_KEY = Rule("letters, digits, dots, dashes and underscores, such as access-key", r"(?!\.{1,2}$)[-._a-zA-Z0-9]+")
"""A key of a secret (apimachinery/pkg/util/validation/validation.go, IsConfigMapKey)."""
LABEL_KEY = Rule(
    "letters, digits, inner dots, dashes and underscores, at most 63 characters, after a domain and a slash if it has "
    "one, such as cloud.google.com/gke-accelerator",
    rf"((?=[^/]{{1,{SUBDOMAIN_LENGTH}}}/){_SUBDOMAIN}/)?(?=[^/]{{1,{LABEL_LENGTH}}}$){_PART}",
    SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH,
)
"""The key of a label or of a taint (apimachinery/pkg/util/validation/validation.go, IsQualifiedName)."""
LABEL_VALUE = Rule(
    "letters, digits, inner dots, dashes and underscores, at most 63 characters, such as nvidia-tesla-t4",
    rf"({_PART})?",
    LABEL_LENGTH,
)
"""The value of a label or of a taint, or the queue of a Job, which is the value of a label
(apimachinery/pkg/util/validation/validation.go, IsValidLabelValue)."""
DEVICE = Rule(
    "a domain, a slash and a name, such as nvidia.com/gpu",
    rf"(?!kubernetes\.io/)(?!.*\.kubernetes\.io/)(?=[^/]+/.){LABEL_KEY.pattern}",
    LABEL_KEY.longest,
)
"""A resource of devices; those below kubernetes.io are Kubernetes' own (pkg/apis/core/v1/helper/helpers.go,
IsExtendedResourceName)."""
IMAGE = Rule(
    "[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST] without blanks, the path in lower case, such as "
    "registry.example/taxi:1.4.2",
    r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?/)?"
    r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?",
    1024,
)
"""An image. kube-apiserver refuses blanks alone, and the kubelet all others, when the pod starts
(github.com/distribution/reference, regexp.go)."""
MOUNT_PATH = Rule("an absolute path without a colon, such as /models", r"/[^:]*[^:/][^:]*", 4096)
"""A folder of a container (staging/src/k8s.io/api/core/v1/types.go, VolumeMount); no runtime mounts the root."""
MOST_SECONDS = 2**31 - 1
"""Longest time of a pod (pkg/apis/core/validation/validation.go, ValidatePodSpec: activeDeadlineSeconds)."""
MOST_WORKERS = 100_000
"""Most pods at once of an Indexed Job (pkg/apis/batch/validation/validation.go, maxParallelismForIndexedJob)."""

ObjectName = Annotated[str, AfterValidator(OBJECT.check)]
SecretKey = Annotated[str, AfterValidator(SECRET_KEY.check)]
LabelKey = Annotated[str, AfterValidator(LABEL_KEY.check)]
LabelValue = Annotated[str, AfterValidator(LABEL_VALUE.check)]
Device = Annotated[str, AfterValidator(DEVICE.check)]
Image = Annotated[str, AfterValidator(IMAGE.check)]
MountPath = Annotated[str, AfterValidator(MOUNT_PATH.check)]
ClaimName = Annotated[str, AfterValidator(MOUNTED.check)]

TAKEN_VOLUMES = frozenset(
    "kfp-launcher gcs-scratch s3-scratch minio-scratch dot-local-scratch dot-cache-scratch dot-config-scratch "
    "kfp-workspace ca-bundle custom-ca var-run-argo tmp-dir-argo argo-env-config argo-staging input-artifacts".split()
)
"""Names of volumes that Kubeflow and Argo give a pod (v2/compiler/argocompiler/container.go:42-68 and common.go at
2.17.0 of Kubeflow Pipelines; workflow/controller/workflowpod.go in Argo 4.0.5)."""
TAKEN_FOLDERS = (
    "/kfp-launcher", "/kfp-workspace", "/kfp/certs", "/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config",
    "/tmp/kfp", "/tmp/kfp_outputs", "/var/run/argo", "/var/run/secrets/kubernetes.io", "/argo", "/proc", "/sys", "/dev",
)  # fmt: skip
"""Folders that Kubeflow, Argo, Kubernetes and Linux use in a container; a volume there takes their files away (the same
files; v2/component/launcher_v2.go:526 and v2/driver/driver.go:796)."""
TAKEN_VARIABLES = re.compile(
    r"(KFP_(POD|RETRY)_|ARGO_|METADATA_GRPC_SERVICE_|KUBERNETES_SERVICE_|KUBERNETES_PORT).*",
)
"""Variables that Kubeflow, Argo and Kubernetes set in a container, which needs them (v2/component/constants.go at
2.17.0; workflow/common/common.go in Argo 4.0.5)."""


def taken_folder(mount: str) -> str | None:
    """Returns the taken folder that a mount would hide, or would put its files into; None if there is none."""
    path = PurePosixPath(mount)
    folders = map(PurePosixPath, TAKEN_FOLDERS)
    return next((str(one) for one in folders if path.is_relative_to(one) or one.is_relative_to(path)), None)
