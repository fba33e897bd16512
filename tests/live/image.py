"""`make check-image`: builds the image with an engine of this machine; a node and the demo run in it as in a pod.

IMAGE_LINE=1.16 or 1.21 is the line of TFX of the image; by default that of the environment. BASE=IMAGE is the Python
image to build from, instead of those of the Dockerfile. ENGINE=PROGRAM is docker, podman or buildah; by default the
first that responds. BUILD_ARGS are further options of the build, such as a volume with the certificates of a proxy, or
a base for each stage (--build-arg=BUILD_IMAGE=..., PYTHON_IMAGE=...). Without a registry, `mmdebstrap --variant=minbase
--include=python3,python3-venv,ca-certificates trixie FOLDER` makes a base, with bookworm for line 1.16; the build stage
also needs gcc, g++, python3-dev and libgomp1. IMAGE=NAME and SMALL_IMAGE=NAME are existing images, which are then not
built. With buildah the check needs root, because `unshare` makes the root file system read-only.
"""

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from fullpass.kubeflow.compile.package import Package, to_yaml
from fullpass.kubeflow.image_requirements import variant_entries
from fullpass.kubeflow.protocol import IN_SMALL_IMAGE
from tests import REPOSITORY
from tests.kubeflow.conftest import ENVIRONMENT, compile_taxi, taxi_package  # noqa: F401
from tests.kubeflow.runtime.test_entrypoint_imports import PROGRAM
from tests.kubeflow.test_kubeflow_image import NODES, WITHOUT

LINE = os.environ.get("LINE") or importlib.metadata.version("tfx").rpartition(".")[0]
PYTHON, DEBIAN = {"1.16": ("3.11", "bookworm"), "1.21": ("3.13", "trixie")}[LINE]
NAME, SMALL_NAME, MODEL_NAME = (f"localhost/fullpass:check{part}" for part in ("", "-small", "-model"))
USER, GROUP = "65532", "0"
DOCKERFILE = REPOSITORY / "kubeflow" / "Dockerfile"
BUILD_SECONDS, RUN_SECONDS = 3600, 1800
pytestmark = pytest.mark.timeout(BUILD_SECONDS + RUN_SECONDS)  # the first test of an image builds it
# The file system of a pod: only /tmp, a volume, and the devices that any user may write to are writable. Its network is
# loopback only.
READ_ONLY = r"""
set -e
ip link set lo up
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mkdir -p "$ROOT/work" "$ROOT/dev" "$ROOT/proc"
echo "127.0.0.1 localhost" > "$ROOT/etc/hosts"
mount -o remount,ro,bind "$ROOT"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --bind "$WORK" "$ROOT/work"
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


def run(command: Sequence[str], seconds: int = RUN_SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.fixture(scope="session")
def engine() -> str:
    """The program that builds and runs images."""
    asked = os.environ.get("ENGINE") or "docker podman buildah"
    for program in asked.split():
        if shutil.which(program) and run([program, "info"]).returncode == 0:
            return program
    pytest.exit(f"None of {asked} answers to `info`. Install one (buildah needs no daemon), or start it.", returncode=2)


def built(engine: str, given: str, name: str, *arguments: str) -> str:
    """Returns the name of an image, which is built unless the variable `given` names an existing one."""
    if os.environ.get(given):
        return os.environ[given]
    base = os.environ.get("BASE", "")
    bases = [f"--build-arg={name}={base}" for name in ("BUILD_IMAGE", "PYTHON_IMAGE")] if base else []
    line = [f"--build-arg={name}={value}" for name, value in (("LINE", LINE), ("PYTHON", PYTHON), ("DEBIAN", DEBIAN))]
    more = [*line, *bases, *arguments, *shlex.split(os.environ.get("BUILD_ARGS", ""))]
    done = subprocess.run(
        [engine, *_build(engine), "-f", str(DOCKERFILE), "-t", name, *more, str(REPOSITORY)], check=False
    )
    assert done.returncode == 0
    return name


def _build(engine: str) -> list[str]:
    return ["bud", "--layers", "--format", "docker", "--isolation", "chroot"] if engine == "buildah" else ["build"]


@pytest.fixture(scope="session")
def in_pod(engine: str) -> Iterator[Run]:
    """Returns `in_pod(folder, command...)`: runs a command with `folder` at /work, as a pod does."""
    with pods(engine, built(engine, "IMAGE", NAME)) as run_in_pod:
        yield run_in_pod


@pytest.fixture(scope="session")
def in_small_pod(engine: str) -> Iterator[Run]:
    """As `in_pod`, with the image variant without TensorFlow."""
    with pods(engine, built(engine, "SMALL_IMAGE", SMALL_NAME, "--build-arg=VARIANT=small")) as run_in_pod:
        yield run_in_pod


@contextmanager
def pods(engine: str, image: str) -> Iterator[Run]:
    """Yields a function that runs a command in an image."""
    if engine != "buildah":
        limits = ["--read-only", "--tmpfs=/tmp", f"--user={USER}:{GROUP}", "--cap-drop=ALL", "--network=none"]
        begin = [engine, "run", "--rm", *limits, "--workdir=/work", "--entrypoint="]
        yield lambda folder, *command: run([*begin, f"--volume={folder}:/work", image, *command])
        return
    container = run([engine, "from", image]).stdout.strip()
    root = run([engine, "mount", container]).stdout.strip()
    listed = run(
        [engine, "inspect", "--type=image", "--format", "{{range .OCIv1.Config.Env}}{{println .}}{{end}}", image]
    )
    variables = [line for line in listed.stdout.splitlines() if "=" in line]
    drop = ["--reuid", USER, "--regid", GROUP, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]

    def run_by_unshare(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
        inside = ["sh", "-c", f"cd /work && exec {shlex.join(command)}"]
        user = shlex.join(["setpriv", *drop, "env", "-i", *variables, *inside])
        script = f'{READ_ONLY}\nexec chroot "$ROOT" {user}'
        outside = ["env", f"ROOT={root}", f"WORK={folder}", "unshare", "--mount", "--net", "sh", "-c", script]
        return run(outside)

    yield run_by_unshare
    run([engine, "umount", container])
    run([engine, "rm", container])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A volume that is writable for the user of a pod."""
    tmp_path.chmod(0o777)
    return tmp_path


@pytest.mark.parametrize("variant", ["cpu", "small"])
def test_the_lock_resolves_as_the_dockerfile_asks(tmp_path, variant):
    """Runs pip with the options of the Dockerfile; it needs a package index, and exits with a message without one."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    [command] = re.findall(r"/opt/fullpass/bin/pip (install [^&\n]*-r image-requirements\.txt)", text)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    lock = (REPOSITORY / "requirements.txt").read_text()
    (tmp_path / "image-requirements.txt").write_text(variant_entries(variant, lock, project, ["sources"]))
    pip = [sys.executable, "-m", "pip", *shlex.split(command), "--dry-run", "--ignore-installed", "--quiet"]
    done = subprocess.run(pip, cwd=tmp_path, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if "Could not fetch" in done.stderr or "Failed to establish a new connection" in done.stderr:
        pytest.exit(f"This check needs a package index, and none answers:\n{done.stderr[-2000:]}", returncode=2)
    assert done.returncode == 0, done.stderr[-4000:]


def test_it_says_its_versions(in_pod, work):
    told = in_pod(work, "fullpass", "version")
    assert told.returncode == 0 and f"tfx {LINE}." in told.stdout and f"python {PYTHON}." in told.stdout, told.stderr
    print(f"\n{told.stdout}")


def test_every_module_is_imported_without_the_packages_that_are_left_out(in_pod, work):
    imported = in_pod(work, "python", "-c", WITHOUT, "notebook")
    assert imported.returncode == 0, imported.stderr[-3000:]


def test_nothing_but_the_volume_can_be_written(in_pod, work):
    tried = in_pod(work, "sh", "-c", "id -u; touch /work/x /tmp/x; touch /pipeline/x /opt/fullpass/x /x")
    assert tried.stdout == f"{USER}\n" and (work / "x").exists()
    assert tried.stderr.count("touch:") == 3


def test_a_node_runs_by_the_command_of_its_container(in_pod, work):
    """The package is compiled in the image, as a container refuses one of another line."""
    shutil.copy(REPOSITORY / "examples" / "taxi" / "pipeline.yaml", work)
    (work / "env.yaml").write_text(ENVIRONMENT)
    compiled = in_pod(work, "fullpass", "compile", "pipeline.yaml", "--env", "env.yaml")
    assert compiled.returncode == 0, compiled.stderr[-3000:]
    pipeline, platform = yaml.safe_load_all((work / "package.yaml").read_text())
    tasks = pipeline["root"]["dag"]["tasks"]
    pipeline["root"]["dag"]["tasks"] = {name: tasks[name] for name in ("find-inputs", "ingest")}
    text = to_yaml(Package(pipeline, platform)).replace("/models/", "/work/")
    (work / "package.yaml").write_text(text)
    shutil.copytree(REPOSITORY / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    ran = in_pod(work, "env", "PYTHONPATH=/work", "python", "-c", NODES, "/work/backend", "/work/package.yaml")
    assert ran.stdout == "('find-inputs', 'COMPLETE') ('ingest', 'COMPLETE')\n", ran.stderr[-4000:]


def test_the_demo_runs_from_data_to_a_model_in_an_image_of_its_own(engine, in_pod, work):
    assert_runs(in_pod, work, (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text())
    exported = in_pod(work, "fullpass", "export", "serving", "--to", "image", "--server", "fullpass", "--out", "box")
    assert exported.returncode == 0, exported.stderr[-2000:]
    assert_answers_from_an_image_of_its_own(engine, work / "box")


ASK = """
import json, time, urllib.error, urllib.request
model = "http://127.0.0.1:8501/v1/models/taxi"
for attempt in range(120):
    try:
        urllib.request.urlopen(model)
        break
    except urllib.error.URLError:
        time.sleep(1)
answer = urllib.request.urlopen(f"{model}:predict", open("request.json", "rb").read())
print(json.dumps(json.load(answer)["outputs"]["prediction"]))
"""


def assert_answers_from_an_image_of_its_own(engine: str, box: Path) -> None:
    """Builds what `fullpass export --to image --server fullpass` wrote, and asks what the image's command starts."""
    base = f"--build-arg=BASE={os.environ.get('IMAGE') or NAME}"
    built = run([engine, *_build(engine), base, "-t", MODEL_NAME, str(box)])
    assert built.returncode == 0, built.stderr[-3000:]
    where = ".OCIv1.Config" if engine == "buildah" else ".Config"
    words = run(
        [
            engine,
            "inspect",
            "--type=image",
            "--format",
            f"{{{{range {where}.Cmd}}}}{{{{println .}}}}{{{{end}}}}",
            MODEL_NAME,
        ]
    )
    command = words.stdout.split()
    with pods(engine, MODEL_NAME) as in_model:
        asked = in_model(box, "sh", "-c", f"fullpass {shlex.join(command)} & python -c {shlex.quote(ASK)}; kill $!")
    assert json.loads(asked.stdout.splitlines()[-1]), asked.stderr[-3000:]
    print(f"\n{asked.stdout}")


def assert_runs(in_pod: Run, work: Path, yaml: str) -> None:
    """Runs a pipeline on taxi trips to a pushed model, which predicts three trips."""
    (work / "pipeline.yaml").write_text(yaml)
    shutil.copy(REPOSITORY / "examples" / "taxi" / "three_trips.jsonl", work)
    done = in_pod(work, "fullpass", "run", "pipeline.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert (work / "serving" / "current" / "saved_model.pb").is_file()
    predicted = in_pod(work, "fullpass", "predict", "serving", "three_trips.jsonl")
    assert predicted.stdout.count('"prediction"') == 3, predicted.stderr[-2000:]
    print(f"\n{done.stdout}")


TREES = """\
name: trees
data:
  source: {format: csv, path: "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"}
  derive: {big_tipper: tips > 0.2 * fare}
label: {name: big_tipper, task: binary}
features: {fare: number, trip_miles: {type: number, missing: median, indicator: true}, payment_type: category}
model: {kind: trees}
evaluation: {metrics: [auc], thresholds: {auc: {min: 0.9}}}
push: {to: serving}
"""
MAPPED = """
import lightgbm
print({line.split()[-1] for line in open("/proc/self/maps") if "libgomp.so.1" in line})
"""


def test_trees_grow_on_the_openmp_that_the_image_brings(in_pod, work):
    """Runs from data to a pushed model with LightGBM, whose wheel contains no OpenMP."""
    mapped = in_pod(work, "python", "-c", MAPPED)
    assert mapped.stdout == "{'/opt/fullpass/lib/libgomp.so.1'}\n", mapped.stdout + mapped.stderr[-2000:]
    assert_runs(in_pod, work, TREES)


def test_its_size_is_printed(in_pod, work):
    print_sizes(in_pod, work)


def print_sizes(in_pod: Run, work: Path) -> None:
    packages = f"/opt/fullpass/lib/python{PYTHON}/site-packages"
    told = in_pod(work, "sh", "-c", f"du -sxm /opt/fullpass /usr; du -sm {packages}/* | sort -rn | head -12")
    assert told.returncode == 0, told.stderr
    print("\nMB\n" + told.stdout.replace(f"{packages}/", ""))


def test_the_small_image_has_no_tensorflow_and_runs_what_needs_none(in_small_pod, work, taxi_package):  # noqa: F811
    absent = in_small_pod(work, "python", "-c", "import tensorflow")
    assert "No module named 'tensorflow'" in absent.stderr
    for executor in sorted(IN_SMALL_IMAGE):
        imported = in_small_pod(work, "python", "-c", PROGRAM, executor, "false")
        assert imported.returncode == 0, imported.stderr[-3000:]
    container = taxi_package.executors["exec-find-inputs"]["container"]
    asked = in_small_pod(work, *container["command"], "--help")
    assert asked.returncode == 0 and "--executor-input" in asked.stdout, asked.stderr
    print_sizes(in_small_pod, work)
