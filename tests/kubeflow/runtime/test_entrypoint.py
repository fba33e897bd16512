"""The container of a node: its input and output artifacts, and its exit."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.entrypoint import check_line, run_nodes
from fullpass.kubeflow.runtime.executor_input import ABSENT, name_values, parse_message, write_output

pytestmark = pytest.mark.integration

MODULE = """
    from tfx.dsl.components.base import base_executor
    SEEN = {}

    class Writes(base_executor.BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            SEEN.update(inputs=input_dict, properties=exec_properties)
            [model] = output_dict["model"]
            with open(model.uri + "/file", "w") as file:
                file.write("x")
            model.set_string_custom_property("made_from", model.uri + "/file")
            model.set_string_custom_property("elsewhere", "/other/place")
            for examples in input_dict.get("examples", []):
                model.set_string_custom_property("examples", examples.uri)
                model.set_int_custom_property("rows", examples.get_int_custom_property("rows_train"))
                model.set_string_custom_property("splits", examples.split_names)

    class MakesNone(base_executor.BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            SEEN.update(inputs=input_dict)
            output_dict["model"] = []

    class Forgets(base_executor.BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            pass
"""


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Returns `node(executor, absent=..., empty=...)`, which runs a toy executor; returns its output and its inputs."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "toy_executors.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))

    def run(executor="Writes", *, examples="file", artifacts="copied", root="minio://bucket/root", windows=()):
        sys.modules.pop("toy_executors", None)
        local = tmp_path / "local"
        (local / "examples").mkdir(parents=True)
        if examples:
            (local / "examples" / examples).write_text("x")
            os.utime(local / "examples" / examples, (1_000, 1_000))
        metadata = {"rows_train": 3.0, "split_names": '["train"]', "span": 7.0, "note": None, "display_name": "x"}
        message = {
            "inputs": {
                "parameterValues": {"keep": 3.0, "target": "a", "unknown": 1},
                "artifacts": {"examples": {"artifacts": [
                    {"name": "12", "uri": f"{root}/examples", "type": {"instanceSchema": ""},
                     "metadata": metadata if examples else {}}]}},
            },
            "outputs": {
                "artifacts": {"model": {"artifacts": [{"name": "model", "uri": f"{root}/model"}]},
                              "executor-logs": {"artifacts": [{"uri": f"{root}/executor-logs"}]}},
                "outputFile": str(tmp_path / "kfp_outputs" / "output_metadata.json"),
            },
        }  # fmt: skip
        plan = {
            "node": "Toy", "prefix": "", "executor": f"toy_executors.{executor}",
            "parameters": {"keep": "int", "target": "str"},
            "inputs": {"examples": "tfx.types.standard_artifacts.Examples"},
            "reads": {"examples": "examples"},
            "outputs": {"model": "tfx.types.standard_artifacts.Model"}, "beam": None,
            "windows": windows,
        }  # fmt: skip
        task = {"line": line(), "folder": str(tmp_path / "pipeline"), "artifacts": artifacts, "nodes": [plan]}
        paths = {"examples": str(local / "examples")}, {"model": str(local / "model")}
        run_nodes(task, parse_message(json.dumps(message), *paths))
        answer = json.loads((tmp_path / "kfp_outputs" / "output_metadata.json").read_text())
        return answer, sys.modules["toy_executors"].SEEN

    return run


def test_types_parameters_and_addresses_are_restored(node):
    answer, seen = node()
    assert seen["properties"] == {"keep": 3, "target": "a"} and type(seen["properties"]["keep"]) is int
    [examples] = seen["inputs"]["examples"]
    assert examples.type_name == "Examples" and examples.span == 7 and examples.id == 12
    assert set(answer["artifacts"]) == {"model"}, "executor-logs is the launcher's"
    [model] = answer["artifacts"]["model"]["artifacts"]
    assert model["uri"] == "minio://bucket/root/model" and model["name"] == "model"
    assert model["metadata"] == {
        "made_from": "minio://bucket/root/model/file",
        "elsewhere": "/other/place",
        "examples": "minio://bucket/root/examples",
        "rows": 3,
        "splits": '["train"]',
    }
    assert answer["parameterValues"] == {}


@pytest.mark.parametrize("other", ["TFX 1.15.1, Python 3.10, TensorFlow 2.15.1", "TFX 2.0.0, Python 3.14"])
def test_an_image_of_another_line_is_refused_and_both_lines_are_named(other):
    with pytest.raises(UserError) as refused:
        check_line(other)
    assert f"compiled with {other}, and the image of this container has {line()}. " in str(refused.value)


def test_another_release_of_the_line_and_an_image_without_tensorflow_are_the_same_line():
    tfx, python, _ = line().split(", ")
    check_line(f"{tfx.rpartition('.')[0]}.99, {python}")


def test_an_absent_input_is_no_input(node):
    answer, seen = node(examples=ABSENT)
    assert seen["inputs"] == {} and "examples" not in answer["artifacts"]["model"]["artifacts"][0]["metadata"]


def test_an_output_of_which_there_is_none_stands_for_nothing(node, tmp_path):
    answer, _ = node("MakesNone")
    assert answer["artifacts"]["model"]["artifacts"][0]["metadata"] == {}
    assert [file.name for file in (tmp_path / "local" / "model").iterdir()] == [ABSENT]


def test_an_input_without_files_is_named(node):
    with pytest.raises(UserError, match="input 'examples': minio://bucket/root/examples contains no files"):
        node(examples="")


def test_an_output_that_is_declared_and_not_written_is_named(node):
    with pytest.raises(UserError, match="output 'model': the executor neither wrote"):
        node("Forgets")


def test_direct_artifacts_are_read_and_written_where_they_are(node, tmp_path):
    store = tmp_path / "store"
    (store / "model").mkdir(parents=True)
    answer, seen = node(artifacts="direct", root=str(store))
    assert seen["inputs"]["examples"][0].uri == f"{store}/examples"
    assert (store / "model" / "file").read_text() == "x" and not (tmp_path / "local" / "model").exists()
    assert answer["artifacts"]["model"]["artifacts"][0]["uri"] == f"{store}/model"


@pytest.mark.parametrize(("artifacts", "seconds"), [("copied", 0), ("direct", 1_000)])
def test_only_a_copy_gets_the_time_that_all_attempts_see(node, tmp_path, artifacts, seconds):
    """A folder that stands for the bucket is read in place; only the owner of a file may change its time."""
    (tmp_path / "store" / "model").mkdir(parents=True)
    node(artifacts=artifacts, root=str(tmp_path / "store"))
    assert (tmp_path / "local" / "examples" / "file").stat().st_mtime == seconds


def test_an_answer_replaces_the_one_before_it_whole(tmp_path):
    file = tmp_path / "a" / "output.json"
    for value in (1, 2):
        write_output(file, {}, {"n": value})
    assert json.loads(file.read_text()) == {"artifacts": {}, "parameterValues": {"n": 2}}
    assert [path.name for path in file.parent.iterdir()] == ["output.json"]


def test_placeholders_that_were_not_filled_in_are_no_paths():
    assert name_values(["a=/x=y", "b={{$.inputs.artifacts['b'].path}}"]) == {"a": "/x=y"}


def ends(code: str, log: Path, *, stop: bool = False) -> subprocess.CompletedProcess:
    """Runs `code` in a process that exits as a container does."""
    log.touch()
    program = (
        "import atexit, os, sys, time\n"
        "from fullpass.kubeflow.runtime.termination import run_to_end\n"
        "from fullpass.base.errors import UserError\n"
        f"def work():\n{textwrap.indent(textwrap.dedent(code), '    ')}\n"
        "run_to_end(lambda: 'Toy', work, reconnect=True)\n"
    )
    environment = {**os.environ, termination.LOG_VARIABLE: str(log)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=-1, stderr=-1, text=True)
    if stop:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(program, process.returncode, out, err)


def test_an_abort_at_interpreter_exit_does_not_count(tmp_path):
    done = ends("atexit.register(os.abort); print('done')", tmp_path / "log")
    assert (done.returncode, done.stdout, (tmp_path / "log").read_text()) == (0, "done\n", "")


def test_the_cause_of_a_failure_is_the_termination_message(tmp_path):
    done = ends("raise UserError('row 3: bad date')", tmp_path / "log")
    assert done.returncode == 1 and (tmp_path / "log").read_text() == "Toy: row 3: bad date"
    assert "Traceback" in done.stderr, "the log has the whole of it"


def test_a_long_cause_is_cut_where_kubernetes_cuts_it(tmp_path):
    ends("raise UserError('x' * 9000)", tmp_path / "log")
    assert len((tmp_path / "log").read_bytes()) == 4096


TRIES = "open('tries', 'a').write('x'); n = len(open('tries').read())\n"


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv(termination.WAITS_VARIABLE, "0 0")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        "ConnectionResetError('reset by peer')",
        "RuntimeError('Traceback (most recent call last):\\n  File \"x\", line 1, in f\\nTimeoutError: read\\n')",
        "OSError('read') from TimeoutError()",
        "type('ReadTimeoutError', (Exception,), {})()",
    ],
)
def test_after_a_lost_connection_a_fresh_process_with_the_same_number_tries_again(quick, tmp_path, error):
    code = (
        TRIES
        + f"print(n, os.getpid(), flush=True)\nif n < 3: time.kept = 1; raise {error}\nassert not hasattr(time, 'kept')"
    )
    done = ends(code, tmp_path / "log")
    assert done.returncode == 0, done.stderr
    attempts, numbers = zip(*(line.split() for line in done.stdout.splitlines()), strict=True)
    assert attempts == ("1", "2", "3") and len(set(numbers)) == 1
    assert "Attempt 2 of 3 in this container begins in 0 s" in done.stderr
    assert (tmp_path / "log").read_text() == "", "no failure is told of"


def test_the_attempts_of_a_connection_that_stays_lost_are_bounded(quick, tmp_path):
    done = ends(TRIES + "raise ConnectionError(f'lost {n}')", tmp_path / "log")
    assert done.returncode == 1 and (tmp_path / "tries").read_text() == "xxx"
    assert (tmp_path / "log").read_text().startswith("Toy: ConnectionError: lost 3")


@pytest.mark.parametrize(
    "error",
    [
        "UserError('bad row')",
        "ValueError('x')",
        "FileNotFoundError('x')",
        "UserError('no store') from ConnectionError()",
    ],
)
def test_errors_of_data_are_never_tried_again(quick, tmp_path, error):
    assert ends(TRIES + f"raise {error}", tmp_path / "log").returncode == 1
    assert (tmp_path / "tries").read_text() == "x"


@pytest.mark.parametrize("text", ["ten", "10 -1", "nan", "10s 60s", "1e999"])
def test_waits_that_cannot_be_read_are_told_and_do_not_hide_the_failure(text, caplog):
    assert termination._waits(text) == [10.0, 60.0]
    assert f"FULLPASS_RECONNECT_SECONDS is {text!r}" in caplog.text
    assert termination._waits("") == [] and termination._waits("0.5 3") == [0.5, 3.0]


def test_a_signal_while_waiting_for_the_next_attempt_ends_the_container(monkeypatch, tmp_path):
    monkeypatch.setenv(termination.WAITS_VARIABLE, "300")
    done = ends("print('ready', flush=True); raise ConnectionError", tmp_path / "log", stop=True)
    assert done.returncode == 143 and "the pod received SIGTERM" in (tmp_path / "log").read_text()


def test_what_an_earlier_attempt_left_in_an_output_is_gone(node, tmp_path):
    left = tmp_path / "local" / "model" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    node()
    assert not left.exists() and (left.parent / "file").read_text() == "x"


@pytest.mark.parametrize(("worker", "files"), [(False, {"file"}), (True, {"file", "left"})])
def test_a_retried_task_empties_its_addresses_unless_it_is_one_of_several_workers(
    node, tmp_path, monkeypatch, worker, files
):
    left = tmp_path / "store" / "model" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    if worker:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    node(artifacts="direct", root=str(left.parents[1]))
    assert {file.name for file in left.parent.iterdir()} == files


def test_the_signal_to_stop_runs_what_cleans_up(tmp_path):
    code = f"""
        try:
            print('ready', flush=True)
            for _ in range(6000):  # a signal just before one long sleep is seen only after it
                time.sleep(0.01)
        finally:
            open({str(tmp_path / "cleaned")!r}, 'w').close()
    """
    began = time.monotonic()
    done = ends(code, tmp_path / "log", stop=True)
    assert done.returncode == 143 and time.monotonic() - began < 30
    assert (tmp_path / "cleaned").exists() and "the pod received SIGTERM" in (tmp_path / "log").read_text()


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Returns `shared(executor)`, which runs the nodes First and Second in one task and returns the artifacts."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "toy_shared.py").write_text(textwrap.dedent(MODULE + SHARED))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))

    def run(executor: str):
        sys.modules.pop("toy_shared", None)
        local, root = tmp_path / "local", "minio://bucket/root"
        outputs = ("First_model", "Second_model")
        message = {
            "inputs": {"parameterValues": {"First_keep": 1.0, "Second_keep": 2.0}},
            "outputs": {
                "artifacts": {name: {"artifacts": [{"name": name, "uri": f"{root}/{name}"}]} for name in outputs},
                "outputFile": str(tmp_path / "output_metadata.json"),
            },
        }
        model = "tfx.types.standard_artifacts.Model"
        common = {"parameters": {"keep": "int"}, "outputs": {"model": model}, "beam": None, "windows": []}
        nodes = [
            {"node": "First", "prefix": "First_", "executor": "toy_shared.Writes", "inputs": {}, "reads": {}},
            {"node": "Second", "prefix": "Second_", "executor": f"toy_shared.{executor}",
             "inputs": {"before": model}, "reads": {"before": "First_model"}},
        ]  # fmt: skip
        folder = str(tmp_path / "pipeline")
        plan = {"line": line(), "folder": folder, "artifacts": "copied", "nodes": [node | common for node in nodes]}
        begun: list[str] = []
        task = parse_message(json.dumps(message), {}, {name: str(local / name) for name in outputs})
        try:
            run_nodes(plan, task, begun.append)
        finally:
            shared.begun = begun
        return json.loads((tmp_path / "output_metadata.json").read_text())["artifacts"]

    shared = run
    return run


SHARED = """
    class Follows(base_executor.BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            [before], [model] = input_dict["before"], output_dict["model"]
            with open(before.uri + "/file") as source, open(model.uri + "/file", "w") as file:
                file.write(source.read() + str(exec_properties["keep"]))
            model.set_string_custom_property("follows", before.get_string_custom_property("made_from"))
"""


def test_a_node_of_a_task_reads_what_an_earlier_node_of_it_made(shared, tmp_path):
    made = shared("Follows")
    assert (tmp_path / "local" / "Second_model" / "file").read_text() == "x2", "the first's file, its own parameter"
    assert set(made) == {"First_model", "Second_model"} and shared.begun == ["First", "Second"]
    first, second = (made[name]["artifacts"][0]["metadata"] for name in ("First_model", "Second_model"))
    assert first["made_from"] == second["follows"] == "minio://bucket/root/First_model/file"


def test_the_node_of_a_task_that_fails_is_known_and_nothing_is_answered(shared, tmp_path):
    with pytest.raises(UserError, match="output 'Second_model': the executor neither wrote"):
        shared("Forgets")
    assert shared.begun == ["First", "Second"] and not (tmp_path / "output_metadata.json").exists()
