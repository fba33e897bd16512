"""What the container of a node with several workers runs: it has a Job do the node's work, and waits for it.

`python -m kubeflow.deploy.workers --workers JSON`, and the arguments of `kubeflow.entrypoint`, which each worker gets.
"""

import argparse
import json
import logging
import os
import re
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeflow import facts, outcomes, termination
from kubeflow.config import NodeConfig
from kubeflow.executor_input import name_values, parse
from kubeflow.parts import Json
from kubeflow.worker import answer_address
from kubeflow.workers import manifests
from preprocessing.errors import UserError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_POLL_SECONDS = 5.0
_PATIENCE = (10, 60)


def main() -> None:
    """Runs one node by several workers; the process ends here."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="kubeflow.deploy.workers", description=__doc__)
    parser.add_argument("--workers", required=True)
    known, args = parser.parse_known_args()
    asked = json.loads(known.workers)

    def work() -> None:
        from kubernetes import client, config

        config.load_incluster_config()
        run(client.ApiClient(), _NAMESPACE.read_text().strip(), asked, args)

    termination.run_to_end(asked["node_id"], work)


def run(client: "ApiClient", namespace: str, asked: Json, args: Sequence[str], *, poll: float = _POLL_SECONDS) -> None:
    """Has a Job do a node's work and hands on its answer; nothing of the Job is left behind.

    Args:
        client: of the cluster.
        namespace: of the run.
        asked: what the compiler knew: `pipeline`, `node_id`, `node` (its NodeConfig), `pull_secrets`, `pull_policy`.
        args: of each worker's container.
        poll: seconds between two looks.

    Raises:
        UserError: The cluster refuses the Job, or a worker failed; with the worker's own message.
    """
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    for name in ("--executor-input", "--plan"):
        parser.add_argument(name, required=True)
    for name in ("--input", "--output"):
        parser.add_argument(name, action="append", default=[])
    given = parser.parse_args(list(args))
    told = parse(given.executor_input, name_values(given.input), name_values(given.output))
    node = NodeConfig.model_validate(asked["node"])
    node = node.model_copy(update={"env": {**node.env, **_told()}})
    name = job_name(asked["pipeline"], asked["node_id"])
    service, job = manifests(name, node, args, pull_secrets=asked["pull_secrets"], pull_policy=asked["pull_policy"])
    with Job(client, namespace, name).started(service, job) as started:
        logging.info("job %s: %d workers", name, job["spec"]["completions"])
        started.wait(poll)
    with tf.io.gfile.GFile(answer_address(told), "r") as file:
        answer = file.read()
    told.output_file.parent.mkdir(parents=True, exist_ok=True)
    pending = told.output_file.with_name(f".{told.output_file.name}.part")
    pending.write_text(answer)
    os.replace(pending, told.output_file)


def job_name(pipeline: str, node: str) -> str:
    """Returns a name that no other Job has, with which pods' names stay below 63 characters."""
    stem = re.sub(r"[^a-z0-9]+", "-", f"{pipeline[:28]}-{node[:12]}".lower()).strip("-")
    return f"{stem}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Job:
    """One Job and its Service in a cluster."""

    client: "ApiClient"
    namespace: str
    name: str

    @contextmanager
    def started(self, service: Json, job: Json) -> Iterator["Job"]:
        """Creates both, and deletes them at the end."""
        from kubernetes.client import BatchV1Api, CoreV1Api

        core, batch = CoreV1Api(self.client), BatchV1Api(self.client)
        for manifest in (service, job):
            manifest["metadata"] |= _owner(os.environ)
        try:
            self._ask("creating the service", core.create_namespaced_service, self.namespace, service)
            self._ask("creating the job", batch.create_namespaced_job, self.namespace, job)
            yield self
        finally:
            # Its pods go with it.
            self._drop(batch.delete_namespaced_job, propagation_policy="Background")
            self._drop(core.delete_namespaced_service)

    def wait(self, poll: float) -> None:
        """Returns once every worker is done.

        Raises:
            UserError: One has failed.
        """
        from kubernetes.client import BatchV1Api

        batch = BatchV1Api(self.client)
        while True:
            found = self._ask("looking at the job", batch.read_namespaced_job_status, self.name, self.namespace)
            conditions = {c.type: c for c in found.status.conditions or () if c.status == "True"}
            if "Complete" in conditions:
                return
            if "Failed" in conditions:
                raise UserError(self._cause(conditions["Failed"]))
            time.sleep(poll)

    def _cause(self, condition: Any) -> str:
        """Returns why the Job failed: what its workers said before they ended, or what Kubernetes says."""
        from kubernetes.client import CoreV1Api

        asked = CoreV1Api(self.client).list_namespaced_pod
        pods = self._ask("looking at the workers", asked, self.namespace, label_selector=f"job-name={self.name}")
        said = []
        for pod in sorted(pods.items, key=lambda pod: pod.metadata.name):
            for status in pod.status.container_statuses or ():
                ended = status.state.terminated if status.state else None
                if ended and ended.exit_code:
                    said.append(f"worker {pod.metadata.name}: exit status {ended.exit_code}: {ended.message or ''}")
        return "\n".join(said) or f"job {self.name}: {condition.reason}: {condition.message}"

    def _ask(self, doing: str, asked: Any, *arguments: Any, **more: Any) -> Any:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return asked(*arguments, **more, _request_timeout=_PATIENCE)
        except ApiException as error:
            if error.status == 403:
                raise UserError(
                    f"{doing} {self.name}: the run's service account may not do this in {self.namespace}. Grant it "
                    "create, get and delete of jobs (batch) and services, and list of pods (docs/kubeflow.md)."
                ) from error
            raise UserError(f"{doing} {self.name}: refused (status {error.status}): {error.body}") from error
        except HTTPError as error:
            raise UserError(f"{doing} {self.name}: the cluster's API does not answer: {error}") from error

    def _drop(self, asked: Any, **more: Any) -> None:
        try:
            self._ask("deleting", asked, self.name, self.namespace, **more)
        except UserError as error:
            logging.warning("%s", error)  # it is owned by this pod and goes with it


def _told() -> Json:
    """Returns the variables of this container that tell of the run, for the pods that do its work."""
    names = (facts.VARIABLE, outcomes.VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}


def _owner(variables: Any) -> Json:
    """Returns this pod as the owner, so that Kubernetes deletes what is left when the pod is."""
    name, uid = variables.get("KFP_POD_NAME"), variables.get("KFP_POD_UID")
    if not name or not uid:
        return {}
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]}


if __name__ == "__main__":
    main()
