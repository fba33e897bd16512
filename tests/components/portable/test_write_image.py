"""The build folder of an image: what Docker, Compose and TF Serving make of it. `make check-image` builds one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.portable.write_image import write_image
from fullpass.trainer.export.export_files import DESCRIPTION, FILES, listed_files
from tests import REPOSITORY
from tests.loopback import QuietHandler, serving


@pytest.fixture
def pushed(tmp_path) -> Path:
    """Versions 7 and 12 of the model `trips`; a file of each is a link to a file elsewhere."""
    for version in ("7", "12"):
        folder = tmp_path / "serving" / version
        (folder / "variables").mkdir(parents=True)
        (folder / "assets.extra").mkdir()
        (folder / "saved_model.pb").write_text(f"model {version}")
        (tmp_path / f"weights-{version}").write_text("weights")
        (folder / "variables" / "variables.index").symlink_to(tmp_path / f"weights-{version}")
        (folder / "assets.extra" / "request.json").write_text('{"inputs": {}}')
        (folder / "assets.extra" / "tf_serving_warmup_requests").write_text("rows")
        described = {"name": "trips", "source": {}, FILES: listed_files(str(folder))}
        state_file.write(folder / DESCRIPTION, described)
    (tmp_path / "serving" / "current").symlink_to("12")
    return tmp_path / "serving"


def folder_of(pushed: Path, server: str) -> Path:
    out = pushed.parent / server
    assert write_image(pushed, out, server) == "trips:12"
    return out


@pytest.mark.parametrize("server", ["tensorflow", "fullpass"])
def test_hadolint_and_compose_take_it_and_it_needs_no_file_outside(pushed, server):
    out = folder_of(pushed, server)
    linted = subprocess.run(
        [f"{Path(sys.executable).parent}/hadolint", out / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (linted.returncode, linted.stdout) == (0, "")
    [service] = yaml.safe_load((out / "compose.yaml").read_text())["services"].values()
    assert service["image"] == "trips:12" and service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["ports"][0] == "127.0.0.1:8501:8501"
    assert not [path for path in out.rglob("*") if path.is_symlink()]
    files = {path.relative_to(out / "models").as_posix() for path in (out / "models").rglob("*") if path.is_file()}
    assert files == {
        "trips/12/saved_model.pb", "trips/12/variables/variables.index", "trips/12/assets.extra/request.json",
        "trips/12/assets.extra/tf_serving_warmup_requests", "trips/12/assets.extra/fullpass.json",
    }  # fmt: skip
    dockerfile = (out / "Dockerfile").read_text()
    assert "COPY models /models\n" in dockerfile and re.search(r"(?m)^USER [1-9]\d*:0$", dockerfile)
    assert (out / "request.json").read_text() == '{"inputs": {}}'
    written = "".join(file.read_text() for file in out.iterdir() if file.is_file())
    assert not re.search(r"(?<!\$)\$[a-z]", written) and str(pushed) not in written


def test_the_health_check_is_a_command_of_bash_that_asks_for_the_model(pushed):
    asked, state = [], ["LOADING"]

    class Handler(QuietHandler):
        def do_GET(self):
            asked.append(self.path)
            self.reply({"model_version_status": [{"state": state[0]}]})

    compose = yaml.safe_load((folder_of(pushed, "tensorflow") / "compose.yaml").read_text())
    _, *command = compose["services"]["trips"]["healthcheck"]["test"]
    with serving(Handler) as address:
        *shell, script = command
        script = script.replace("8501", address.rpartition(":")[2])
        assert subprocess.run([*shell, script], check=False).returncode == 1
        state[0] = "AVAILABLE"
        assert subprocess.run([*shell, script], check=False).returncode == 0
    assert asked == ["/v1/models/trips"] * 2


def test_the_base_of_the_small_server_is_the_image_of_this_project(pushed):
    dockerfile = (folder_of(pushed, "fullpass") / "Dockerfile").read_text()
    own = (REPOSITORY / "kubeflow" / "Dockerfile").read_text()
    [version] = re.findall(r"(?m)^ARG VERSION=(\S+)$", own)
    assert f"ARG BASE=fullpass:{version}\n" in dockerfile
    assert 'ARG EXTRAS="sources serve"' in own and 'ENTRYPOINT ["fullpass"]' in own
    assert 'CMD ["serve", "/models/trips", "--name", "trips", "--host", "0.0.0.0"]' in dockerfile


def test_a_damaged_model_an_existing_folder_and_rows_are_refused(pushed):
    out = folder_of(pushed, "tensorflow")
    with pytest.raises(UserError, match="already exists"):
        write_image(pushed, out, "tensorflow")
    with pytest.raises(UserError, match=r"rows\.csv: rows are not for an image"):
        write_image(pushed, out, "tensorflow", "rows.csv")
    (pushed.parent / "weights-12").write_text("weightz")
    with pytest.raises(UserError, match=r"variables\.index.*Restore the model"):
        write_image(pushed, pushed.parent / "new", "tensorflow")
    (pushed.parent / "weights-12").unlink()
    with pytest.raises(UserError, match="cannot be copied"):
        write_image(pushed, pushed.parent / "new", "tensorflow")
    assert not list(pushed.parent.glob("new*"))
