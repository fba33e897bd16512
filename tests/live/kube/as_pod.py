"""Runs a command of a container in a pod of the check's cluster: `python -m tests.live.kube.as_pod FILE COMMAND ...`.

It stands in for Argo where a check needs no more of Kubeflow than one pod: the fake backend of the tests starts this
program in place of the container. FILE holds the address of the cluster, and the pod without its command. The exit
status, the log and the termination message are those of the pod.
"""

import json
import os
import sys
import time
from pathlib import Path

from tests.live.kube.api import Kubernetes

_PATH = "/api/v1/namespaces/kubeflow/pods"


def main() -> int:
    """Creates the pod, and waits for its end; returns its exit status."""
    given = json.loads(Path(sys.argv[1]).read_text())
    cluster = Kubernetes(given["address"], given["token"], Path(given["ca"]))
    pod = given["pod"]
    [container] = pod["spec"]["containers"]
    container["command"] = sys.argv[2:]
    path = f"{_PATH}/{cluster.create(_PATH, pod)['metadata']['name']}"
    while (status := cluster.get(path)["status"]).get("phase") not in ("Succeeded", "Failed"):
        time.sleep(0.5)
    print(cluster.get(f"{path}/log"))
    [end] = status["containerStatuses"]
    ended = end["state"].get("terminated") or {"exitCode": 1, "message": json.dumps(status)}
    Path(os.environ["FULLPASS_TERMINATION_LOG"]).write_text(ended.get("message") or "")
    cluster.delete(path)
    return ended["exitCode"]


if __name__ == "__main__":
    sys.exit(main())
