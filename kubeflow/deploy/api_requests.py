"""The API requests for deployment, with readable errors. All requests go to /apis/v2beta1."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fullpass.base.errors import UserError
from fullpass.kubeflow.deploy.connection import explain_errors
from fullpass.kubeflow.kfp_internals import (
    LOG_PATH,
    MAX_LENGTH,
    MAX_PACKAGE_BYTES,
    PAGE_LOG_PATH,
    RECURRING_RUN_PATH,
    RUN_PATH,
    has_json_answer,
    is_page,
    workflow_status,
)

if TYPE_CHECKING:
    from kfp_server_api import ApiClient

_PAGE = 100
"""Items of a page of a list."""
_LOG_LENGTH = 2**16
"""Characters of the end of a log that are read."""
_TIMEOUT = (10, 120)
"""Timeouts in seconds: for connecting, and between two parts of a response."""


@dataclass(frozen=True)
class PipelineVersion:
    """A version of a pipeline, with its ids in the API, and whether it was just uploaded."""

    pipeline_id: str
    version_id: str
    name: str
    new: bool = False

    @property
    def reference(self) -> dict[str, str]:
        """The fields with which runs refer to it."""
        return {"pipeline_id": self.pipeline_id, "pipeline_version_id": self.version_id}


def version_name(package: str) -> str:
    """Returns the name of the version for a package; equal packages have equal names."""
    return f"sha256-{hashlib.sha256(package.encode()).hexdigest()[:16]}"


class Cluster:
    """Client of one installation, for one namespace."""

    def __init__(self, client: "ApiClient", namespace: str | None = None) -> None:
        """Initializes with kfp's client, and the namespace of a profile in a multi-user installation."""
        import kfp_server_api as api

        _check_length("namespace", namespace or "")
        self._client = client
        self.host = client.configuration.host
        self.namespace = namespace
        self._pipelines = api.PipelineServiceApi(client)
        self._uploads = api.PipelineUploadServiceApi(client)
        self._experiments = api.ExperimentServiceApi(client)
        self._runs = api.RunServiceApi(client)
        self._recurring = api.RecurringRunServiceApi(client)

    def find_version(self, pipeline: str, package: str) -> PipelineVersion | None:
        """Returns the version of a pipeline that contains a package, or None if it was never uploaded."""
        pipeline_id = self._pipeline_id(pipeline)
        return self._version(pipeline_id, version_name(package)) if pipeline_id else None

    def upload(self, pipeline: str, package: str) -> PipelineVersion:
        """Returns the version that contains a package; uploads the package if that version does not exist.

        Raises:
            UserError: The server rejects the package; the message has its reason.
        """
        _check_length("pipeline", pipeline)
        if len(package.encode()) > MAX_PACKAGE_BYTES:
            raise UserError(
                f"the package has {len(package.encode()):,} bytes; Kubeflow accepts at most {MAX_PACKAGE_BYTES:,}."
            )
        name, pipeline_id = version_name(package), self._pipeline_id(pipeline)
        found = self._version(pipeline_id, name) if pipeline_id else None
        if found:
            return found
        action = f"uploading pipeline {pipeline}, version {name}"
        created = None if pipeline_id else self._create_pipeline(pipeline)
        try:
            uploaded = self._upload(action, package, name, created or pipeline_id)
        except UserError:
            if created:  # A pipeline without a version would be listed but could not run.
                self._call(f"deleting {pipeline}", self._pipelines.pipeline_service_delete_pipeline, created)
            raise
        return PipelineVersion(uploaded.pipeline_id, uploaded.pipeline_version_id, name, new=True)

    def experiment(self, name: str) -> str:
        """Returns the id of an experiment; creates the experiment if it does not exist."""
        _check_length("experiment", name)
        service = self._experiments
        for found in self._pages(
            "looking for an experiment", service.experiment_service_list_experiments, "experiments", name
        ):
            return found.experiment_id
        method = service.experiment_service_create_experiment
        return self._call(f"creating experiment {name}", method, self._named(name)).experiment_id

    def start(self, body: dict[str, Any]) -> Any:
        """Starts a run and returns it (kfp's V2beta1Run)."""
        return self._call(f"starting run {body['display_name']}", self._runs.run_service_create_run, body)

    def run(self, run_id: str) -> Any:
        """Returns a run (kfp's V2beta1Run)."""
        return self._call(f"looking at run {run_id}", self._runs.run_service_get_run, run_id)

    def log(self, run_id: str, pod: str) -> str:
        """Returns the end of the log of a pod of a run; the answer of an API that finds none is its error as JSON.

        It is empty if an API server may not read it: a single-user one of 2.4 to 2.14 answers so for every pod.

        Raises:
            UserError: Neither the API nor the server of Kubeflow's page has the log, or they do not answer.
        """
        page = [("podname", pod), ("runid", run_id)]
        page += [("podnamespace", self.namespace)] if self.namespace else []
        action = f"reading the log of {pod}"
        text: str | None = None
        with suppress(UserError):
            text = self._text(action, LOG_PATH, {"run_id": run_id, "node_id": pod}, [])
        # The server of the page passes on other paths of the API, and answers this one with the page itself.
        if not text or is_page(text):
            try:
                text = self._text(action, PAGE_LOG_PATH, {}, page)
            except UserError:
                if text != "":
                    raise
        return text[-_LOG_LENGTH:]

    def workflow_status(self, run_id: str) -> dict[str, Any]:
        """Returns the status of the Argo Workflow of a run; it is empty if the API does not tell it."""
        try:
            return workflow_status(self._text(f"looking at the workflow of {run_id}", RUN_PATH, {"run_id": run_id}, []))
        except UserError:
            return {}

    def _text(self, action: str, path: str, names: dict[str, str], query: list[tuple[str, str]]) -> str:
        with explain_errors(self.host, action):
            self._client.call_api(path, "GET", names, query, auth_settings=["Bearer"], _request_timeout=_TIMEOUT)
            return str(self._client.last_response.data)

    def recurring_runs(self, name: str | None = None) -> list[Any]:
        """Returns the recurring runs with a name, or all recurring runs (kfp's V2beta1RecurringRun)."""
        method = self._recurring.recurring_run_service_list_recurring_runs
        return list(self._pages("listing recurring runs", method, "recurring_runs", name))

    def schedule(self, body: dict[str, Any]) -> Any:
        """Creates a recurring run and returns it."""
        action = f"creating recurring run {body['display_name']}"
        return self._call(action, self._recurring.recurring_run_service_create_recurring_run, body)

    def enable(self, recurring_run_id: str, enabled: bool) -> None:
        """Enables or disables a recurring run."""
        service = self._recurring
        if enabled:
            self._call("resuming a schedule", service.recurring_run_service_enable_recurring_run, recurring_run_id)
        else:
            self._call("pausing a schedule", service.recurring_run_service_disable_recurring_run, recurring_run_id)

    def delete(self, recurring_run_id: str) -> None:
        """Deletes a recurring run; the runs that it started go on, from 2.16 on.

        They belong to it in Kubernetes, which deletes them unless the policy is another. Earlier releases ignore it,
        and the method of kfp-server-api does not know it.
        """
        request = (RECURRING_RUN_PATH, "DELETE", {"recurring_run_id": recurring_run_id})
        policy = [("propagation_policy", "ORPHAN")]
        self._call("deleting a schedule", self._client.call_api, *request, policy, auth_settings=["Bearer"])

    def _create_pipeline(self, name: str) -> str:
        # The pipeline is created before its version, so the version can have its own name.
        body, method = self._named(name), self._pipelines.pipeline_service_create_pipeline
        return self._call(f"creating pipeline {name}", method, body).pipeline_id

    def _named(self, name: str) -> dict[str, str]:
        return {"display_name": name, **({"namespace": self.namespace} if self.namespace is not None else {})}

    def _upload(self, action: str, package: str, name: str, pipeline_id: str | None) -> Any:
        method = self._uploads.upload_pipeline_version
        with TemporaryDirectory() as folder:
            file = Path(folder) / "package.yaml"
            file.write_text(package, encoding="utf-8")
            return self._call(action, method, str(file), name=name, pipelineid=pipeline_id)

    def _pipeline_id(self, name: str) -> str | None:
        method = self._pipelines.pipeline_service_list_pipelines
        found = [item.pipeline_id for item in self._pages("looking for a pipeline", method, "pipelines", name)]
        return found[0] if found else None

    def _version(self, pipeline_id: str, name: str) -> PipelineVersion | None:
        method = self._pipelines.pipeline_service_list_pipeline_versions
        action = "looking for a version of a pipeline"
        for item in self._pages(action, method, "pipeline_versions", name, pipeline_id, scoped=False):
            return PipelineVersion(item.pipeline_id, item.pipeline_version_id, item.display_name)
        return None

    def _pages(
        self, action: str, method: Callable[..., Any], field: str, name: str | None, *first: str, scoped: bool = True
    ) -> Iterator[Any]:
        """Yields all items of a list, page by page, or only the items with a display name."""
        options: dict[str, Any] = {"page_size": _PAGE}
        if scoped and self.namespace:
            options["namespace"] = self.namespace
        if name is not None:
            equal = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
            options["filter"] = json.dumps({"predicates": [equal]})
        token = ""
        while True:
            answer = self._call(action, method, *first, page_token=token, **options)
            yield from (item for item in getattr(answer, field) or () if name is None or item.display_name == name)
            token = answer.next_page_token
            if not token:
                return

    def _call(self, action: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with explain_errors(self.host, action):
            answer = method(*arguments, **options, _request_timeout=_TIMEOUT)
            if not has_json_answer(self._client):
                raise ValueError("no JSON object")
            return answer


def task_details(run: Any) -> Sequence[Any]:
    """Returns the nodes of a run (kfp's V2beta1PipelineTaskDetail): tasks, their drivers, and their attempts.

    2.17 adds entries of its cache, which have an id of the metadata and times, but no name. A node that was not reached
    has a name but no state.
    """
    details = (run.run_details.task_details if run.run_details else None) or ()
    return [task for task in details if task.display_name]


def _check_length(kind: str, name: str) -> None:
    if len(name) > MAX_LENGTH[kind]:
        raise UserError(
            f"{kind}: Kubeflow accepts at most {MAX_LENGTH[kind]} characters. Received {len(name)}: {name!r}."
        )
