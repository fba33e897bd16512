"""A fake API server, and a cluster accessed through kfp's own client."""

from collections.abc import Callable, Iterator

import pytest
import yaml

from fullpass.kubeflow.compile.package import Package, to_yaml
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.deploy.connection import client
from tests.kubeflow.conftest import toy, toy_package
from tests.kubeflow.deploy.server import KubeflowServer


@pytest.fixture
def serve() -> Iterator[Callable[..., KubeflowServer]]:
    """Returns `serve(...)`, which starts a server that is closed at the end of the test."""
    servers: list[KubeflowServer] = []

    def start(**given) -> KubeflowServer:
        servers.append(KubeflowServer(**given))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def server(serve) -> KubeflowServer:
    return serve()


@pytest.fixture
def cluster(server) -> Cluster:
    return Cluster(client(server.address, {}))


ROOT = {
    "push": {"parameterType": "BOOLEAN", "defaultValue": True, "isOptional": True},
    "data_path": {"parameterType": "STRING", "defaultValue": "", "isOptional": True},
}
PLATFORM = {
    "platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-first": {"imagePullPolicy": "Always"}}}}}
}


@pytest.fixture
def package() -> Package:
    """A package with two tasks, two parameters and a platform document."""
    spec = toy_package(toy("first", "pass"), toy("second", "pass", after=("first",)), root=ROOT)
    return Package(spec, PLATFORM)


@pytest.fixture
def text(package) -> str:
    assert len(list(yaml.safe_load_all(to_yaml(package)))) == 2
    return to_yaml(package)
