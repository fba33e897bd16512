"""The image: its Dockerfile, its packages from the lock, its parts run by an arbitrary user. No image is built here.

Hadolint checks the rules of Dockerfiles; the other tests check what it cannot know.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fullpass.kubeflow.compile.package import Package, to_yaml
from fullpass.kubeflow.image_requirements import LEFT_OUT, direct_dependencies, lock_entries
from tests.kubeflow.conftest import REPOSITORY
from tests.kubeflow.test_image_requirements import LOCK, PROJECT, names
from tests.test_wheel import LAYERS, expected_files, files_below

DOCKERFILE = (REPOSITORY / "kubeflow" / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """Returns (instruction, arguments) of the Dockerfile, with continuation lines joined and comments removed."""
    text = re.sub(r"(?m)^\s*#.*\n", "", DOCKERFILE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line.strip()]


def of(kind: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == kind]


def test_each_variant_is_a_choice_of_one_stage():
    assert not any("VARIANT" in line for line in of("FROM"))  # buildah before 1.30 expands no variable within a name
    chosen = next(command for command in of("RUN") if command.startswith("case "))
    for variant, code in (("cpu", 0), ("gpu", 0), ("small", 0), ("GPU", 1)):
        script = re.sub(r"/opt/fullpass/bin/pip", "echo pip", chosen)
        ran = subprocess.run(
            ["sh", "-c", script], env={"VARIANT": variant}, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code
        assert ("requirements-gpu.txt" in ran.stdout) == (variant == "gpu")


def test_a_line_runs_on_its_pythons_and_on_no_other(tmp_path):
    """The pairs are those of the Makefile, which makes the environment."""
    makefile = (REPOSITORY / "Makefile").read_text()
    pairs = {line: found.split() for line, found in re.findall(r"(?m)^PYTHONS_(\S+) := ([\d. ]+)$", makefile)}
    assert set(pairs) == {"1.16", "1.21"}
    check = next(command for command in of("RUN") if "${LINE}" in command)
    for line in pairs:
        for python in ("3.10", "3.11", "3.12", "3.13", "3.14"):
            (tmp_path / "python3").write_text(f"#!/bin/sh\necho {python}\n")
            (tmp_path / "python3").chmod(0o755)
            given = {"LINE": line, "PATH": f"{tmp_path}:/usr/bin:/bin"}
            ran = subprocess.run(["sh", "-c", check], env=given, capture_output=True, text=True, check=False)
            assert (ran.returncode == 0) == (python in pairs[line])
            assert ran.returncode == 0 or f"LINE={line} does not run on Python {python}: give " in ran.stderr
    defaults = dict(argument.split("=", 1) for argument in of("ARG") if "=" in argument)
    assert defaults["PYTHON"] == pairs[defaults["LINE"]][0] and "python3.1" not in DOCKERFILE


def test_it_runs_as_a_numbered_user_who_is_not_root():
    """The user must be a number, because Kubernetes cannot verify runAsNonRoot otherwise."""
    user, group = of("USER")[-1].split(":")
    assert int(user) >= 1000 and group == "0" and of("ENTRYPOINT") == ['["fullpass"]']


def test_hadolint_has_nothing_to_say():
    hadolint = [f"{Path(sys.executable).parent}/hadolint", "--ignore", "DL3059", "-"]  # a RUN is a layer in the cache
    linted = subprocess.run(hadolint, input=DOCKERFILE, capture_output=True, text=True, timeout=60, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_every_package_that_pip_installs_has_a_hash():
    """A rule that hadolint does not have."""
    for command in of("RUN"):
        assert "pip install" not in command or "--require-hashes" in command or "--no-build-isolation ." in command


def test_it_names_no_host_and_no_secret():
    assert "://" not in DOCKERFILE and not re.search(r"(?i)(token|password|secret)\s*=", DOCKERFILE)
    images = [line.split("=", 1)[1] for line in of("ARG") if "IMAGE=" in line]
    assert all("." not in image.split(":")[0] for image in images)


def test_what_is_copied_is_there_and_not_ignored():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    shown = [line[1:] for line in lines if line.startswith("!")]
    assert lines[1] == "*"
    for line in of("COPY"):
        if "--from" in line:
            continue
        for source in line.split()[:-1]:
            assert (REPOSITORY / source).exists(), source
            assert any(fnmatch.fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in shown), (
                source
            )
    packages = [pattern.rstrip("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert set(packages) <= set(shown) & {line.split()[0] for line in of("COPY")}


@pytest.mark.integration
def test_what_is_copied_installs_as_the_whole_project(tmp_path):
    """Installs with the Dockerfile's command into a fresh folder: all sub-packages and data files below one name."""
    source, installed = tmp_path / "build", tmp_path / "installed"
    folders = sorted(line.split()[0] for line in of("COPY") if line.split()[-1].rstrip("/") == line.split()[0])
    for folder in folders:  # symlinks stay symlinks, as when Docker copies a folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / folder, source / folder, symlinks=True, ignore=ignored)
    for file in ("README.md", "LICENSE", "pyproject.toml", "requirements.txt"):
        shutil.copy(REPOSITORY / file, source / file)
    command = next(command for command in of("RUN") if "--no-build-isolation ." in command)
    pip = [sys.executable, "-m", "pip", *shlex.split(command)[1:], "--target", str(installed)]
    done = subprocess.run(pip, cwd=source, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert {"fullpass", *LAYERS} == set(folders)
    assert {f"fullpass/{name}" for name in files_below(installed / "fullpass")} == expected_files()
    assert {path.name.partition("-")[0] for path in installed.iterdir()} == {"fullpass", "bin"}


def test_its_version_is_that_of_the_project():
    assert f"VERSION={PROJECT['project']['version']}" in of("ARG")


def test_the_launcher_of_every_store_may_write():
    command = next(command for command in of("RUN") if "install -d" in command)
    assert "-m 1777 /gcs /s3 /minio /oci" in command


def test_the_library_that_lightgbm_asks_for_is_there():
    """LightGBM's wheel, unlike others, contains no OpenMP, and slim images have none."""
    [copied] = [command for command in of("RUN") if "libgomp.so.1" in command]
    folder = copied.split()[-1].rstrip("/")
    assert f"echo {folder} > /etc/ld.so.conf.d/fullpass.conf && /sbin/ldconfig" in of("RUN")
    assert f"--from=project {folder.rpartition('/')[0]} {folder.rpartition('/')[0]}" in of("COPY")


def test_the_drivers_of_gke_are_found():
    """GKE's device plugin mounts the drivers there, and changes no variable of the container."""
    [given] = [value for value in of("ENV")[-1].split() if value.startswith("LD_LIBRARY_PATH=")]
    assert given == "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"


def test_pip_takes_packages_that_declare_another_python():
    """TFX 1.16 declares Python up to 3.10 (test_image_requirements)."""
    command = next(command for command in of("RUN") if "-r image-requirements.txt" in command)
    assert "--ignore-requires-python" in command


# As in a pod: an unknown user in group 0, without capabilities; project and packages are read-only. Python may be in a
# home folder that only its owner can enter, so that folder is mounted where every user can read it.
NAMESPACE = r"""
set -e
mount --make-rprivate /
mount --bind "$WORK" /mnt
mkdir -p /mnt/python
mount --bind "$PREFIX" /mnt/python
for folder in "$REPOSITORY" "$VENV"; do mount --bind -o ro "$folder" "$folder"; done
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p "$PREFIX"
mount --bind -o ro /mnt/python "$PREFIX"
cd /tmp
exec setpriv --reuid 123456 --regid 0 --clear-groups --inh-caps=-all --bounding-set=-all env -i \
  PATH="$VENV/bin:/usr/bin:/bin" HOME=/tmp USER=fullpass LOGNAME=fullpass PYTHONDONTWRITEBYTECODE=1 \
  TMPDIR=/mnt/tmp PYTHONPATH="$REPOSITORY" "$@"
"""
NODES = """
import sys
from pathlib import Path
from tests.kubeflow.backend.run import Backend
backend = Backend(Path(sys.argv[1]))
backend.secrets = {"store": {"accesskey": "a", "secretkey": "s"}}
backend.starts_fresh = lambda task: True
result = backend.run(Path(sys.argv[2]).read_text())
print(*sorted(result.states.items()))
"""


WITHOUT = """
import importlib, importlib.metadata, pathlib, sys
for module, packages in importlib.metadata.packages_distributions().items():
    if {package.lower().replace("_", "-") for package in packages} <= set(sys.argv[2:]):
        sys.modules[module] = None
for module in sys.argv[1].split(","):
    sys.modules[module] = None
import fullpass
root = pathlib.Path(fullpass.__file__).parent
for room in ("preprocessing", "trainer", "components", "pipeline", "kubeflow"):
    for file in sorted((root / room).rglob("*.py")):
        if file.stem in ("record_in_mlflow", "write_onnx"):  # need the extras mlflow and onnx
            continue
        parts = file.relative_to(root).with_suffix("").parts
        importlib.import_module(".".join(("fullpass", *(part for part in parts if part != "__init__"))))
"""
SERVICES = ("aiplatform", "bigtable", "dlp", "language", "pubsublite", "spanner", "videointelligence", "vision")


@pytest.mark.long
@pytest.mark.integration
def test_what_is_left_out_of_the_image_nobody_imports():
    """83 packages: those that only notebooks and Google services need, and the dependencies of only these."""
    direct = direct_dependencies(PROJECT, ["sources"])
    gone = set(names(lock_entries(LOCK, direct, left_out=frozenset()))) - set(names(lock_entries(LOCK, direct)))
    assert gone > LEFT_OUT | {"jedi", "debugpy", "notebook-shim"}
    google = ",".join(f"google.cloud.{service}" for service in SERVICES)
    program = [sys.executable, "-c", WITHOUT, google, *gone]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def anybody(tmp_path):
    """Returns `anybody(command...)`, which runs a command as in a pod, with `tmp_path` at /mnt.

    Needs the rights of `unshare --mount` (root, or CAP_SYS_ADMIN), and setpriv of util-linux.
    """
    if (
        shutil.which("setpriv") is None
        or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    ):
        pytest.skip("needs setpriv, and the right to make a mount namespace (root, or CAP_SYS_ADMIN)")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    tmp_path.chmod(0o755)

    def run(*command: str) -> subprocess.CompletedProcess:
        given = {
            "WORK": str(tmp_path), "PREFIX": os.path.realpath(sys.base_prefix), "REPOSITORY": str(REPOSITORY),
            "VENV": os.path.realpath(sys.prefix), "PATH": os.environ["PATH"],
        }  # fmt: skip
        script = ["unshare", "--mount", "sh", "-c", NAMESPACE, "sh", *command]
        return subprocess.run(script, env=given, capture_output=True, text=True, timeout=600)

    return run


def test_the_folders_are_read_only_there(anybody):
    tried = anybody(
        "sh", "-c", f"id -u; touch {REPOSITORY}/x {sys.prefix}/x; touch /tmp/.fullpass-x && rm /tmp/.fullpass-x"
    )
    assert tried.stdout == "123456\n" and tried.returncode == 0
    assert tried.stderr.count("Read-only file system") + tried.stderr.count("Permission denied") == 2


@pytest.mark.integration
def test_anybody_runs_the_command_line(anybody):
    checked = anybody("python", "-m", "fullpass", "check", f"{REPOSITORY}/examples/taxi/pipeline.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "taxi" in checked.stdout


@pytest.mark.integration
@pytest.mark.long
def test_anybody_runs_nodes_of_a_package(anybody, taxi_package, tmp_path):
    """Runs the look-up of files, and Ingest, with their container commands, on a volume like a cloud disk."""
    pipeline = {**taxi_package.pipeline}
    tasks = pipeline["root"]["dag"]["tasks"]
    first = {name: tasks[name] for name in ("find-inputs", "ingest")}
    pipeline["root"] = {**pipeline["root"], "dag": {"tasks": first}}
    text = to_yaml(Package(pipeline, taxi_package.platform)).replace("/models/", "/mnt/volume/")
    (tmp_path / "package.yaml").write_text(text)
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume").chmod(0o755)
    refused = anybody("python", "-c", NODES, "/mnt/tmp/refused", "/mnt/package.yaml")
    assert refused.returncode and "task 'find-inputs': exit status 1" in refused.stderr
    assert "/mnt/volume belongs to user 0 and group 0, drwxr-xr-x, and this container runs as user" in refused.stderr
    assert "Make the volume writable for the group once" in refused.stderr
    (tmp_path / "volume").chmod(0o2775)
    ran = anybody("python", "-c", NODES, "/mnt/tmp/backend", "/mnt/package.yaml")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "('find-inputs', 'COMPLETE') ('ingest', 'COMPLETE')\n"
