"""Invalid values of TF_CONFIG, and workers that do not appear."""

import json
import socket
import threading
import time

import pytest

from fullpass.base.errors import UserError
from fullpass.trainer.fit.worker_cluster import WorkerCluster, read_cluster, wait_for_workers

TWO = {"worker": ["a:1", "b:2"]}
FIRST = {"type": "worker", "index": 0}


def read(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value if isinstance(value, str) else json.dumps(value))
    return read_cluster()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{cluster", "is not JSON"),
        ([1], "is not a JSON object"),
        ({"cluster": ["a:1"]}, "a cluster that is not a mapping"),
        ({"cluster": {"workers": ["a:1"]}}, "names roles that do not exist: workers; accepted: chief, worker"),
        ({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}}, "names parameter servers"),
        ({"cluster": {"worker": "a:1"}}, "must list the addresses of worker"),
        ({"cluster": {"worker": ["a:1", "b"]}}, "contains 'b', which is not host:port"),
        ({"cluster": {"worker": ["a:1", "b:99999"]}}, "contains 'b:99999', which is not host:port"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": FIRST}, "names an address twice"),
        ({"cluster": TWO}, "has a task that is not one of its workers (worker 0, worker 1): task: null"),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "has a task that is not one of its workers"),
        ({"cluster": TWO, "task": {"type": "worker", "index": "1"}}, "has a task that is not one of its workers"),
    ],
)
def test_an_invalid_tf_config_is_explained(monkeypatch, value, expected):
    with pytest.raises(UserError) as caught:
        read(monkeypatch, value)
    assert expected in str(caught.value)
    assert "It should look like" in str(caught.value)


def test_the_chief_is_the_first_worker(monkeypatch):
    value = {"cluster": {"worker": ["b:2"], "chief": ["a:1"]}, "task": FIRST}
    assert read(monkeypatch, value) == WorkerCluster(("a:1", "b:2"), 1)


@pytest.mark.parametrize("value", ["", " ", {}, {"cluster": {}}])
def test_no_workers_are_no_cluster(monkeypatch, value):
    assert read(monkeypatch, value) is None


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def test_a_worker_that_never_comes_is_named_in_time():
    own, other = (f"localhost:{port}" for port in free_ports(2))
    started = time.monotonic()
    with pytest.raises(UserError, match=f"waited 1 seconds for worker 1 at {other}"):
        wait_for_workers(WorkerCluster((own, other), 0), 1.0)
    assert time.monotonic() - started < 10


def test_workers_that_come_one_after_the_other_find_each_other():
    addresses = tuple(f"localhost:{port}" for port in free_ports(3))
    errors, all_there = [], threading.Barrier(3)

    def come(number: int) -> None:
        time.sleep(0.3 * number)
        try:
            wait_for_workers(WorkerCluster(addresses, number), 20.0)
            # TensorFlow then opens the port permanently.
            server = socket.create_server(("localhost", int(addresses[number].split(":")[1])))
            all_there.wait(60)
            server.close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert errors == []


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port}, which TF_CONFIG gives this worker, cannot be opened"):
            wait_for_workers(WorkerCluster((f"localhost:{port}", "localhost:1"), 0), 1.0)
