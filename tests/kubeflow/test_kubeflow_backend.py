"""Tests of the harness: toy packages under the backend's rules; every error names its task and cause."""

import signal

import pytest

from tests.kubeflow.backend.launcher import TaskFailed
from tests.kubeflow.backend.run import Backend, Refused
from tests.kubeflow.conftest import as_text, toy, toy_package

EXIT = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
WRITE = "os.makedirs(paths['out']); open(paths['out'] + '/file', 'w').write('x' * 10)"
READ = "values['size'] = os.path.getsize(paths['out_of'] + '/file')"
MAKE = toy("make", WRITE, outputs=("out",))
MEASURE = toy("measure", READ, artifacts={"out_of": ("make", "out")}, values={"size": "NUMBER_INTEGER"})


@pytest.mark.parametrize("release", ["2.4", "2.17"])
def test_artifacts_and_parameters_pass_from_task_to_task(tmp_path, release):
    program = "open('message', 'w').write(sys.argv[1]); assert m['inputs']['parameterValues']['n'] == 10, m"
    after = toy("after", program, parameters={"n": ("NUMBER_INTEGER", ("measure", "size"))})
    backend = Backend(tmp_path, release=release)
    result = backend.run(as_text(toy_package(MAKE, MEASURE, after)))
    assert result.states == {"make": "COMPLETE", "measure": "COMPLETE", "after": "COMPLETE"}
    [key] = [key for key in backend.store.keys() if "executor-logs" not in key]
    assert key.startswith("minio://mlpipeline/v2/artifacts/toy/") and key.endswith("/out/file")


def test_types_are_empty_and_numbers_are_floats_as_the_driver_gives_them(tmp_path):
    say = WRITE + "; artifacts['out'] = {'artifacts': [{'metadata': {'rows': 3, 'ok': True}}]}"
    check = "a = m['inputs']['artifacts']['it']['artifacts'][0]; assert a['type'] == {'instanceSchema': ''}, a; "
    check += "assert a['metadata']['rows'] == 3.0 and a['metadata']['ok'] == 1.0 and a['name'].isdigit(), a; "
    check += "assert 'executor-logs' in m['outputs']['artifacts']"
    Backend(tmp_path).run(
        as_text(toy_package(toy("make", say, outputs=("out",)), toy("see", check, artifacts={"it": ("make", "out")})))
    )


def test_a_task_sees_only_what_it_declares(tmp_path):
    nosy = toy("nosy", "assert not any('file' in f for _, _, f in os.walk('.'))", after=("make",))
    Backend(tmp_path).run(as_text(toy_package(MAKE, nosy)))


def test_equal_inputs_are_taken_from_the_cache_and_changed_ones_are_not(tmp_path):
    root = {"n": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1}}
    task = toy("once", WRITE, parameters={"n": ("NUMBER_INTEGER", "$n")}, outputs=("out",), cache=True)
    backend = Backend(tmp_path)
    runs = [backend.run(as_text(toy_package(task, root=root)), {"n": n}).states["once"] for n in (1, 1, 2)]
    assert runs == ["COMPLETE", "CACHED", "COMPLETE"]


def test_a_task_killed_half_way_is_retried_in_a_new_pod(tmp_path):
    slow = WRITE + "; time.sleep(0 if os.path.exists(os.environ['ONCE']) else 30)"
    spec = toy_package(toy("make", slow, outputs=("out",), retryPolicy={"maxRetryCount": 1}), MEASURE)
    container = spec["deploymentSpec"]["executors"]["exec-make"]["container"]
    container["env"] = [{"name": "ONCE", "value": str(tmp_path / "once")}]
    backend = Backend(tmp_path / "kfp")

    def kill_first(task, attempt, process):
        if (task, attempt) == ("make", 0):
            (tmp_path / "once").touch()
            process.send_signal(signal.SIGKILL)

    backend.started = kill_first
    assert backend.run(as_text(spec)).attempts["make"] == 2


def test_a_killed_task_without_retries_is_named_with_its_signal(tmp_path):
    backend = Backend(tmp_path)
    backend.started = lambda task, attempt, process: process.kill()
    with pytest.raises(TaskFailed, match="task 'make': exit status -9"):
        backend.run(as_text(toy_package(MAKE)))


def test_an_exit_task_runs_after_what_it_waits_for_whatever_became_of_that(tmp_path):
    notified = tmp_path / "notified"
    tell = toy("tell", f"open({str(notified)!r}, 'a').write('x')", after=("make",), triggerPolicy=EXIT)
    last = toy("last", "", after=("make",))
    assert Backend(tmp_path / "a").run(as_text(toy_package(MAKE, last, tell))).states["tell"] == "COMPLETE"
    backend = Backend(tmp_path / "b")
    backend.started = lambda task, attempt, process: process.kill() if task == "make" else None
    with pytest.raises(TaskFailed, match="task 'make': exit status -9"):
        backend.run(as_text(toy_package(MAKE, last, tell)))
    assert notified.read_text() == "xx"


NULL = f"{WRITE}; artifacts['out'] = {{'artifacts': [{{'metadata': {{'rows': None}}}}]}}"


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ((toy("make", "", outputs=("out",)), MEASURE), r"(?s)task 'measure'.*No such file.*file"),
        ((toy("say", "", values={"size": "NUMBER_INTEGER"}),), "task 'say': failed to read output parameter 'size'"),
        (
            (toy("say", "", parameters={"n": ("NUMBER_INTEGER", "three")}),),
            "task 'say': input parameter 'n' type mismatch: expect NUMBER_INTEGER",
        ),
        ((toy("make", NULL, outputs=("out",)),), "task 'make': metadata 'rows' of artifact 'out'"),
        ((toy("say", "artifacts['x'] = {'artefacts': []}"),), "task 'say': failed to unmarshall ExecutorOutput"),
    ],
)
def test_a_task_that_breaks_a_rule_of_the_launcher_is_named(tmp_path, tasks, expected):
    with pytest.raises(TaskFailed, match=expected):
        Backend(tmp_path).run(as_text(toy_package(*tasks)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.update(schemaVersion="2.0.0"), "schema version 2.1.0"),
        (lambda s: s.update(displayName="x"), "displayName"),
        (lambda s: s["deploymentSpec"]["executors"]["exec-make"]["container"].update(command="x"), "command"),
        (lambda s: s["root"]["dag"]["tasks"]["measure"]["inputs"]["artifacts"]["out_of"]["taskOutputArtifact"].update(
            producerTask="gone"), "task 'measure': unknown producer task 'gone'"),
    ],
)  # fmt: skip
def test_a_package_that_was_tampered_with_is_refused(tmp_path, change, expected):
    spec = toy_package(MAKE, MEASURE)
    change(spec)
    with pytest.raises(Refused, match=expected):
        Backend(tmp_path).run(as_text(spec))


def test_run_parameters_must_be_declared_and_typed(tmp_path):
    package = as_text(toy_package(MAKE, root={"n": {"parameterType": "NUMBER_INTEGER"}}))
    for given, expected in (
        ({}, "neither default"),
        ({"n": "1"}, "requires type NUMBER_INTEGER"),
        ({"m": 1}, "not required"),
    ):
        with pytest.raises(Refused, match=expected):
            Backend(tmp_path).run(package, given)
