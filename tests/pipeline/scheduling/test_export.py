"""What is exported is read by those it is for: systemd's own tools, the Kubernetes client, a reader of cron lines."""

import json
import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes import client

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.schedule_config import Cron
from fullpass.pipeline.scheduling.export import on_calendar, scheduler_files, write_files

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there to ask")


@pytest.fixture
def scheduled(edited):
    """Returns `scheduled(section)`: the small pipeline with that schedule, loaded."""
    return lambda section: load(edited({18: f"schedule: {section}\nevaluation:"}))


def test_the_crontab_has_a_zone_a_line_and_a_command_that_a_shell_reads(scheduled):
    loaded = scheduled('{cron: "30 3 * * 1,7", timezone: Europe/Zurich}')
    (text,) = scheduler_files(loaded, "cron").values()
    zone, line = [row for row in text.splitlines() if not row.startswith("#")]
    assert zone == "CRON_TZ=Europe/Zurich"
    fields, command = line.split(None, 5)[:5], line.split(None, 5)[5]
    assert fields == ["30", "3", "*", "*", "0,1"]
    words = shlex.split(command.replace(r"\%", "%"))
    assert words[1:5] == ["schedule", "run", str(loaded.file.absolute()), "--once"] and words[-3:-1] == [
        ">>",
        str(loaded.folder / "taxi.cron.log"),
    ]


def test_a_percent_in_a_path_does_not_end_the_line(scheduled, folder):
    file = folder / "50% off" / "pipeline.yaml"
    file.parent.mkdir()
    shutil.copy(scheduled('{cron: "0 3 * * *"}').file, file)
    (text,) = scheduler_files(load(file), "cron").values()
    assert r"50\% off" in text and "50% off" not in text


def test_seconds_are_refused_where_nobody_knows_them(scheduled):
    assert "0 3 * * *" in "".join(scheduler_files(scheduled('{cron: "0 0 3 * * *"}'), "cron").values())
    for form in ("cron", "kubernetes"):
        with pytest.raises(UserError, match="supports no seconds"):
            scheduler_files(scheduled('{cron: "30 0 3 * * *"}'), form, image="x")


def test_without_a_cron_line_there_is_nothing_to_export(scheduled):
    with pytest.raises(UserError, match="schedule.cron is missing"):
        scheduler_files(scheduled("{new_span: true}"), "systemd")


@needs_systemd
@pytest.mark.parametrize("line", ["0 3 * * *", "15 0 3 1 1,7 mon-fri", "*/5 * * * 7"])
def test_systemd_accepts_the_units(scheduled, tmp_path, line):
    files = scheduler_files(scheduled(f'{{cron: "{line}", timezone: America/New_York, catch_up: none}}'), "systemd")
    paths = write_files(files, tmp_path / "units with blanks")
    assert [path.name for path in paths] == ["fullpass-taxi.service", "fullpass-taxi.timer"]
    assert "Persistent=false" in paths[1].read_text()
    command = ["systemd-analyze", "verify", "--man=no", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    ours = [row for row in (done.stdout + done.stderr).splitlines() if "fullpass-taxi" in row]
    assert ours == [] and done.returncode == 0, done.stderr


lines = st.tuples(
    st.sampled_from(["0", "*/20", "5,35"]),
    st.sampled_from(["3", "*/6", "0,23"]),
    st.sampled_from(["*", "31", "1-10", "*/7"]),
    st.sampled_from(["*", "3,10", "*/5"]),
    st.sampled_from(["*", "sun", "1-5", "*/2"]),
).map(" ".join)


@needs_systemd
@settings(max_examples=12, deadline=None)
@given(line=lines, zone=st.sampled_from(["UTC", "Asia/Tokyo"]))
def test_systemd_reads_the_same_times(line, zone):
    start, theirs, ours = datetime(2024, 5, 3, tzinfo=UTC), set(), []
    for event in on_calendar(line, zone):
        command = ["systemd-analyze", "calendar", "--iterations=4", "--base-time=2024-05-03 00:00:00 UTC", event]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={"TZ": "UTC"}).stdout
        theirs |= {row.split(": ", 1)[1] for row in told.splitlines() if "elapse:" in row or "Iter" in row}
    for _ in range(4):
        start = Cron.parse(line).next_after(start, ZoneInfo(zone))
        ours.append(start)
    first_of_theirs = sorted(datetime.strptime(t, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC) for t in theirs)
    assert first_of_theirs[:4] == ours


def test_kubernetes_reads_the_cron_job(scheduled):
    loaded = scheduled('{cron: "0 3 * * 1-7", timezone: Europe/Zurich}')
    (text,) = scheduler_files(loaded, "kubernetes", image="registry.example/fullpass:1").values()
    written = yaml.safe_load(text)

    class Answer:
        data = json.dumps(written)

    api = client.ApiClient()
    job = api.deserialize(Answer, "V1CronJob")
    # Of unknown fields and of wrong types nothing would come back.
    assert api.sanitize_for_serialization(job) == written
    assert (job.spec.schedule, job.spec.time_zone) == ("0 3 * * 0,1,2,3,4,5,6", "Europe/Zurich")
    assert job.spec.concurrency_policy == "Forbid" and job.spec.job_template.spec.backoff_limit == 0
    (container,) = job.spec.job_template.spec.template.spec.containers
    assert container.image == "registry.example/fullpass:1" and container.command[-1] == "--skipped-ok"


def test_kubernetes_needs_an_image_and_a_short_name(scheduled, edited):
    with pytest.raises(UserError, match="--image is missing"):
        scheduler_files(scheduled('{cron: "0 3 * * *"}'), "kubernetes")
    long = load(edited({1: f"name: {'a' * 53}", 18: 'schedule: {cron: "0 3 * * *"}\nevaluation:'}))
    with pytest.raises(UserError, match="at most 52 characters"):
        scheduler_files(long, "kubernetes", image="x")


def test_files_are_written_whole(scheduled, tmp_path):
    (path,) = write_files(scheduler_files(scheduled('{cron: "0 3 * * *"}'), "cron"), tmp_path / "new")
    assert path.read_text().startswith("# taxi:") and [p.name for p in (tmp_path / "new").iterdir()] == [path.name]


HARMLESS = ("with blanks", "50% off", "$HOME", "$(id)", 'a"b', "it's", "a;b", "#no comment", "back\\slash", "ünï", "-x")


@pytest.fixture
def moved(scheduled, folder):
    """Returns `moved(name)`: the small pipeline with a schedule, in a folder and a file of that name."""

    def move(name, file=None):
        path = folder / name / f"{name if file is None else file}.yaml"
        path.parent.mkdir()
        shutil.copy(scheduled('{cron: "0 3 * * *"}').file, path)
        return load(path)

    return move


@pytest.mark.parametrize("name", HARMLESS)
def test_a_shell_a_unit_and_a_cluster_read_the_path_as_it_is(moved, name):
    loaded = moved(name)
    path = str(loaded.file)
    (crontab,) = scheduler_files(loaded, "cron").values()
    (line,) = [row for row in crontab.splitlines() if not row.startswith(("#", "CRON_TZ="))]
    # What cron gives to the shell: all up to the first % without a backslash.
    command = re.split(r"(?<!\\)%", line.split(None, 5)[5])[0].replace(r"\%", "%").split(" >> ")[0]
    words = subprocess.check_output(["sh", "-c", f"printf '%s\\n' {command}"], text=True).splitlines()
    assert words[-2:] == [path, "--once"]
    unit = scheduler_files(loaded, "systemd")["fullpass-taxi.service"]
    settings_ = dict(row.split("=", 1) for row in unit.splitlines() if "=" in row)
    # systemd.syntax(5): quotes and backslashes as in a shell, %% is %, $$ is $.
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(settings_["ExecStart"])]
    assert words[-2:] == [path, "--once"]
    assert settings_["WorkingDirectory"].replace("%%", "%") == str(loaded.folder)
    (cron_job,) = scheduler_files(loaded, "kubernetes", image="x").values()
    (container,) = yaml.safe_load(cron_job)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    # Kubernetes: $$ is $, and $(NAME) a variable.
    word = container["command"][3]
    assert "$" not in word.replace("$$", "") and word.replace("$$", "$") == f"/pipeline/{loaded.file.name}"


@needs_systemd
@pytest.mark.parametrize("name", ['a"b', "50% $HOME", "back\\slash"])
def test_systemd_accepts_units_of_such_paths(moved, tmp_path, name):
    paths = write_files(scheduler_files(moved(name), "systemd"), tmp_path / "units")
    command = ["systemd-analyze", "verify", "--man=no", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "fullpass-taxi" not in done.stdout + done.stderr, done.stderr


@pytest.mark.parametrize("form", ["cron", "systemd", "kubernetes"])
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("x\n* * * * * root id", "p"),
        ("x", "p\nExecStartPre=id"),
        ("x", "p\nkind: Secret"),
        ("x\ry", "p"),
        ("x\ty", "p"),
        ("x\x1b[2J", "p"),
        ("x\udcff", "p"),
        ("x ", "p"),
        ("x\\", "p"),
    ],
)
def test_a_path_that_would_end_a_line_is_refused(moved, form, name, file):
    with pytest.raises(UserError, match="a schedule cannot be exported"):
        scheduler_files(moved(name, file), form, image="x")


def test_a_line_that_cron_would_cut_is_refused(moved, folder):
    loaded = moved("d" * 200, "f" * 200)
    deep = loaded.folder
    for _ in range(3):
        deep /= "d" * 200
    deep.mkdir(parents=True)
    shutil.copy(loaded.file, deep / "p.yaml")
    with pytest.raises(UserError, match="cron takes lines of up to 990 bytes"):
        scheduler_files(load(deep / "p.yaml"), "cron")
