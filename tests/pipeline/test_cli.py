"""The command line: what is printed where, and exit codes."""

import json
import os
import subprocess
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest
import typer

from fullpass.pipeline import cli
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.startup import set_environment
from tests import REPOSITORY, warm_process


@pytest.fixture
def fullpass(monkeypatch, capsys):
    """Returns `run(*arguments)`: runs the command in this process, gives exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fullpass", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        printed = capsys.readouterr()
        return caught.value.code, printed.out, printed.err

    return run


def served(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name.isdigit())


def test_check_of_a_right_file_says_what_it_declares(fullpass, edited):
    code, out, err = fullpass("check", edited())
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == "taxi: binary label big_tipper, model wide_deep"
    assert "  features  3: 1 number, 1 category, 1 date" in lines
    assert "  serving   needs 3 columns: company, fare, started" in lines
    assert "  training  also needs: tips" in lines


def test_check_of_a_wrong_file_lists_every_mistake_on_stderr(fullpass, edited):
    file = edited({13: "  task: binnary", 15: "  fare: numbr"})
    code, out, err = fullpass("check", file)
    assert (code, out) == (2, "")
    assert [line.split(": ")[:2] for line in err.splitlines()[:2]] == [
        [f"{file}:13", "label.task"],
        [f"{file}:15", "features.fare"],
    ]
    assert err.splitlines()[-1] == "2 errors."


def test_warnings_are_shown_and_let_check_pass(fullpass, edited):
    code, out, err = fullpass("check", edited({18: "schedule: {poll: 5m}\nevaluation:"}))
    assert code == 0
    assert ":18: warning: schedule:" in err
    assert "No errors" in out


def test_mistakes_across_sections_are_config_errors_too(fullpass, edited):
    code, _, err = fullpass("check", edited({20: "    log_loss: {min: 1}"}))
    assert code == 2
    assert "log_loss: {max: 1}" in err
    assert err.splitlines()[-1] == "1 error."


def test_a_missing_file_is_a_config_error(fullpass, tmp_path):
    code, out, err = fullpass("check", tmp_path / "nope.yaml")
    assert (code, out) == (2, "")
    assert "no such file" in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback_wherever_it_stands(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["fullpass", "check", str(tmp_path / "nope.yaml"), "--debug"])
    with pytest.raises(ValueError, match="no such file"):
        cli.main()


def test_init_writes_a_file_that_passes_check_and_is_not_overwritten(fullpass, tmp_path):
    rows = [f"{i},{'ab'[i % 2]},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["size,kind,bought", *rows]) + "\n")
    arguments = ("init", tmp_path / "rows.csv", "--label", "bought", "--task", "binary", "-o", tmp_path / "new.yaml")
    code, out, _ = fullpass(*arguments)
    assert code == 0
    assert "new.yaml" in out
    assert fullpass("check", tmp_path / "new.yaml")[0] == 0
    written = (tmp_path / "new.yaml").read_text()
    code, _, err = fullpass(*arguments)
    assert code == 2
    assert "already exists" in err
    assert (tmp_path / "new.yaml").read_text() == written


def test_show_prints_a_file_that_loads_as_the_same_config(fullpass, edited):
    code, out, err = fullpass("show", edited())
    assert (code, err) == (0, "")
    shown = edited().with_name("shown.yaml")
    shown.write_text(out)
    assert load(shown).config == load(edited()).config


def test_schema_prints_json(fullpass):
    code, out, _ = fullpass("schema")
    assert code == 0
    assert json.loads(out)["required"] == ["name", "data", "label"]


def test_version_is_the_installed_one(fullpass):
    assert fullpass("--version")[:2] == (0, f"fullpass {installed_version('fullpass')}\n")
    code, out, _ = fullpass("version")
    assert code == 0
    assert f"tensorflow {installed_version('tensorflow')}\n" in out


def test_help_names_every_command_and_the_exit_codes(fullpass):
    code, out, _ = fullpass("--help")
    assert code == 0
    commands = "init check show schema run predict rollback bless models lineage gc version input-service"
    for command in commands.split():
        assert f"\n  {command} " in out
    assert "Exit codes: 0 done, 1 a run failed, 2 the YAML or the command line is wrong" in out


def test_what_the_command_line_names_and_nobody_knows_is_wrong_usage(fullpass, edited, tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    rows, model = tmp_path / "rows.csv", edited()
    for arguments in (
        ("run", model, "--span", "2024-01-01"),
        ("init", rows, "--label", "nosuch", "-o", tmp_path / "new.yaml"),
        ("init", tmp_path / "nosuch.csv", "-o", tmp_path / "new.yaml"),
        ("backfill", model, "2024-01-01"),
    ):
        code, _, err = fullpass(*arguments)
        assert (code, "defect" in err) == (2, False), (arguments, err)


def test_an_unknown_command_is_told_what_was_meant(fullpass):
    code, _, err = fullpass("chek", "x.yaml")
    assert code == 2
    assert "Did you mean 'check'" in err


def test_commands_take_the_pipeline_of_the_folder(fullpass, edited, monkeypatch):
    monkeypatch.chdir(edited().parent)
    for command in ("check", "show"):
        assert fullpass(command)[:2] == fullpass(command, "pipeline.yaml")[:2]
    for command in ("run", "diagnose"):
        assert "FILE" in fullpass(command, "--help")[1] and "[default: pipeline.yaml]" in fullpass(command, "-h")[1]


@pytest.mark.parametrize("group", [(), ("schedule",), ("input-service",)])
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_the_help_is_cut(fullpass, monkeypatch, width, group):
    """The first sentence of each command is whole; a line is no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = fullpass(*group, "--help")[1]
    assert out.count("...") == out.count("[ARGS]...") and max(map(len, out.splitlines())) <= width
    words = " ".join(out.split())
    whole = typer.main.get_command(cli.app)
    for command in (whole.commands[group[0]] if group else whole).commands.values():
        assert command.help.partition(". ")[0].partition(".\n")[0].split("\n")[0].rstrip(".") in words, command.name


def test_a_shortened_task_is_told_what_was_meant(fullpass, tmp_path):
    code, _, err = fullpass("init", tmp_path / "a.csv", "--task", "bin")
    assert code == 2 and 'Did you mean "binary"? Accepted: binary, multiclass, multilabel, regression.' in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("export model --to tflite -o out", '"tflite" is no format. Accepted: litert, onnx, image.'),
        ("run --gate wrn", '"wrn" is no policy of the data gate. Did you mean "warn"? Accepted: stop, warn.'),
    ],
)
def test_an_option_with_few_values_lists_them(fullpass, arguments, message):
    code, _, err = fullpass(*arguments.split())
    assert code == 2 and err.rstrip().endswith(f": {message}") and "Value error" not in err


@pytest.mark.integration
@pytest.mark.parametrize(
    ("words", "completed"), [("fullpass ro", "rollback"), ("fullpass export model --to o", "onnx")]
)
def test_the_shell_completes_commands_and_values(words, completed):
    """As bash asks: the words so far, and the number of the one to complete."""
    asked = {"_FULLPASS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [str(Path(sys.executable).with_name("fullpass"))]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]


@pytest.fixture
def pushed(edited):
    """A pipeline file beside which three models were pushed."""
    file = edited()
    for version in (100, 200, 300):
        (file.parent / "serving" / str(version)).mkdir(parents=True)
        (file.parent / "serving" / str(version) / "saved_model.pb").touch()
    return file


def test_rollback_by_the_pipeline_file_serves_the_version_before(fullpass, pushed):
    code, out, _ = fullpass("rollback", pushed)
    assert (code, out) == (0, "Now served: version 200\n")
    assert served(pushed.parent / "serving") == ["100", "200"]


def test_rollback_by_folder_to_a_version(fullpass, pushed):
    assert fullpass("rollback", pushed.parent / "serving", "--to", "100")[0] == 0
    assert served(pushed.parent / "serving") == ["100"]


def test_rollback_to_no_such_version_fails_and_changes_nothing(fullpass, pushed):
    code, _, err = fullpass("rollback", pushed, "--to", "150")
    assert code == 1
    assert "no version 150" in err
    assert served(pushed.parent / "serving") == ["100", "200", "300"]


def test_models_lists_versions_that_say_nothing_of_themselves_too(fullpass, pushed):
    code, out, _ = fullpass("models", pushed, "--json")
    listed = [(version["version"], version["state"]) for version in json.loads(out)]
    assert (code, listed) == (0, [(300, "served"), (200, "kept"), (100, "kept")])
    fullpass("rollback", pushed)
    code, out, _ = fullpass("models", pushed.parent / "serving")
    rows = [line.split() for line in out.splitlines()]
    states = [row[-1] for row in rows if row[:1] in (["300"], ["200"])]
    assert (code, states) == (0, ["aside", "served"])


def test_lineage_of_what_says_nothing_and_of_nothing_is_refused(fullpass, pushed):
    (pushed.parent / "serving" / "300" / "saved_model.pb").touch()
    code, _, err = fullpass("lineage", pushed.parent / "serving" / "300")
    assert code == 1 and "contains no provenance" in err
    code, _, err = fullpass("lineage", "400", "--file", pushed)
    assert code == 1 and "no version 400" in err
    code, _, err = fullpass("lineage", pushed.parent)
    assert code == 1 and "Give a version's number, `latest`, or a folder" in err


def test_gc_where_nothing_was_run_is_refused(fullpass, pushed):
    code, _, err = fullpass("gc", pushed)
    assert code == 1 and "no run has been made there" in err


def test_gc_without_the_metadata_of_its_runs_names_them_and_removes_nothing(fullpass, pushed):
    logs = pushed.parent / "runs" / "taxi" / "logs"
    logs.mkdir(parents=True)
    RootLayout(logs.parent).mark.touch()  # a root that a run has made, whose metadata are lost
    code, _, err = fullpass("gc", pushed)
    assert code == 1 and f"{logs.with_name('metadata.sqlite')}: missing" in "".join(err.splitlines()) and logs.is_dir()


EXPORT = """
import sys, tensorflow as tf
from fullpass.base import state_file
from pathlib import Path

class Model(tf.Module):
    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.float32, "fare"), tf.TensorSpec([None], tf.string, "zone")],
    )
    def answer(self, fare, zone):
        rich = tf.where(tf.math.is_nan(fare), 0.5, tf.cast(fare > 5, tf.float32))
        label = tf.where(rich > 0.5, "rich", "poor")
        return {"prediction": label, "probabilities": tf.stack([1 - rich, rich], axis=1)}

model = Model()
tf.saved_model.save(model, sys.argv[1], signatures={"serving_raw": model.answer})
columns = [{"name": "fare", "type": "number", "key": "fare"}, {"name": "zone", "type": "string", "key": "zone"}]
source = {"format": "csv", "missing": ["", "?"]}
said = {"columns": columns, "classes": ["poor", "rich"], "levels": [], "source": source}
(Path(sys.argv[1]) / "assets.extra").mkdir(exist_ok=True)
state_file.write(Path(sys.argv[1]) / "assets.extra" / "fullpass.json", said)
"""


@pytest.mark.integration
def test_predict_prints_json_lines_or_writes_a_file(edited):
    file = edited()
    warm_process.run([sys.executable, "-c", EXPORT, file.parent / "serving" / "1"], check=True)
    rows = file.parent / "rows.jsonl"
    rows.write_text('{"fare": 9.5, "zone": "a"}\n{"fare": null, "zone": "b"}\n')

    def predict(*arguments):
        command = [sys.executable, "-m", "fullpass", "predict", *map(str, arguments)]
        return warm_process.run(command, cwd=REPOSITORY, check=True)

    printed = predict(file, rows)
    names = ("fare", "zone", "prediction", "probability_poor", "probability_rich", "bad_row")
    assert [json.loads(line) for line in printed.stdout.splitlines()] == [
        dict(zip(names, (9.5, "a", "rich", 0.0, 1.0, None), strict=True)),
        dict(zip(names, (None, "b", "poor", 0.5, 0.5, None), strict=True)),
    ]
    (file.parent / "short.csv").write_text("fare\n3\n")
    written = predict(file.parent / "serving", file.parent / "short.csv", "-o", file.parent / "out.csv")
    assert "taken as missing: zone" in written.stderr
    assert (file.parent / "out.csv").read_text().splitlines()[1].split(",")[:2] == ["3", "poor"]
    (file.parent / "bare.txt").write_text("a|9,5\nb|?\nc\n")
    written = predict(
        file, file.parent / "bare.txt", "-o", file.parent / "out.csv", "--format", "csv", "--separator", "|",
        "--columns", "zone,fare", "--missing", "?", "--source", "decimal=','",
    )  # fmt: skip
    assert "2 rows predicted" in written.stdout and "1 of 3 rows have no prediction" in written.stderr
    answers = [line.split(",")[-4:] for line in (file.parent / "out.csv").read_text().splitlines()[1:]]
    assert [answer[0] for answer in answers] == ["rich", "poor", ""]
    assert str(file.parent / "out.csv.quarantine.jsonl") in written.stderr


def test_the_environment_is_set_before_anything_heavy(monkeypatch):
    for name in ("TF_CPP_MIN_LOG_LEVEL", "GRPC_VERBOSITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setenv("ABSL_MIN_LOG_LEVEL", "0")
    set_environment()
    assert os.environ["TF_USE_LEGACY_KERAS"] == "0"
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert os.environ["ABSL_MIN_LOG_LEVEL"] == "0", "the user's own choice stays"


def loaded_by(code: str, names: tuple[str, ...]) -> str:
    """Returns which of the modules a fresh interpreter has loaded when it has run the code, as it prints them."""
    telling = f"atexit.register(lambda: print([m for m in {names!r} if m in sys.modules], file=sys.stderr))"
    command = [sys.executable, "-c", f"import atexit, sys\n{telling}\n{code}"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stderr


@pytest.mark.integration
def test_light_commands_load_no_framework():
    light = [["--help"], ["input-service", "--help"], ["check", "examples/taxi/pipeline.yaml"], ["schema"]]
    code = (
        f"from fullpass.pipeline.cli import main\nfor words in {light!r}:\n    sys.argv[1:] = words\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        assert not ended.code, words\n"
    )
    heavy = ("tensorflow", "tensorflow_transform", "tfx", "apache_beam", "keras", "kfp", "pandas")
    assert loaded_by(code, heavy) == "[]\n"


@pytest.mark.integration
def test_a_run_loads_nothing_that_no_node_needs(tmp_path):
    code = (
        "from pathlib import Path\n"
        "from fullpass.pipeline.authoring.checks.check import load_checked\n"
        "from fullpass.pipeline.running.request import RunRequest\n"
        "from fullpass.pipeline.running.run import run\n"
        f"request = RunRequest(root=Path({str(tmp_path)!r}), to_node='Schema')\n"
        "run(load_checked(Path('examples/taxi/pipeline.yaml')), request)\n"
    )
    unneeded = ("kubernetes", "nltk", "sacrebleu", "keras_tuner", "tensorflow_model_analysis.evaluators")
    assert loaded_by(code, unneeded) == "[]\n"


@pytest.mark.long
@pytest.mark.integration
def test_a_pipeline_is_built_without_what_is_imported_while_its_first_nodes_run(tmp_path):
    later = ("keras", "tensorflow_transform", "scipy.stats", "sklearn.linear_model", "fullpass.trainer.train")
    tell = f"print([m in sys.modules for m in {later!r}], file=sys.stderr)\n"
    code = (
        "from pathlib import Path\n"
        "from fullpass.pipeline.startup import import_for_nodes, import_frameworks\n"
        "from fullpass.pipeline.authoring.checks.check import load_checked\n"
        "import_frameworks()\n"
        "from fullpass.pipeline.running.build import build\n"
        "from fullpass.pipeline.running.execution import runner\n"
        f"build(load_checked(Path('examples/taxi/pipeline.yaml')), root=Path({str(tmp_path)!r}))\n"
        f"{tell}"
        f"_ = list(import_for_nodes())\n{tell}"
    )
    before, after = (line for line in loaded_by(code, ()).splitlines() if line.startswith("[") and line != "[]")
    assert before == str([False] * len(later)) and after == str([True] * len(later))


def test_help_lists_every_command_once_by_its_task(fullpass):
    code, out, _ = fullpass("--help")
    known = typer.main.get_command(cli.app).commands
    assert sorted(name for names in cli.TASKS.values() for name in names) == sorted(known)
    lines = out.splitlines()
    for task, names in cli.TASKS.items():
        start = lines.index(f"{task}:")
        section = lines[start + 1 : lines.index("", start)]
        assert [line.split()[0] for line in section if line[2] != " "] == list(names), "other lines go on"
    assert code == 0
