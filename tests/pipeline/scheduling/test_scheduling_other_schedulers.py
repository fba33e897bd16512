"""The examples of docs/schedulers.md are read by those they are for: cron, systemd, the Kubernetes client, Airflow."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from kubernetes import client

from fullpass.pipeline.schedule_config import cron_problem
from tests import REPOSITORY
from tests.test_docs import parse

PAGE = (REPOSITORY / "docs" / "schedulers.md").read_text(encoding="utf-8")


def code(language: str) -> list[str]:
    """Returns the blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def is_a_command(words: list[str]) -> bool:
    """Returns whether words are `fullpass schedule run FILE --once`, which they must be."""
    parse(words[1:])
    return words[0].endswith("fullpass") and words[1:3] == ["schedule", "run"] and "--once" in words


def test_the_line_of_cron_has_five_fields_and_a_command():
    [block] = code("crontab")
    *_, line = block.splitlines()
    *fields, command = line.split(None, 5)
    assert cron_problem(" ".join(fields)) is None and is_a_command(command.partition(" >> ")[0].split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there to ask")
def test_systemd_accepts_the_units(tmp_path):
    paths = [tmp_path / f"fullpass-taxi.{kind}" for kind in ("service", "timer")]
    for path, text in zip(paths, code("ini"), strict=True):
        path.write_text(text.replace("/opt/fullpass/bin/fullpass", "/bin/true"))  # a program that is there
    command = ["systemd-analyze", "verify", "--man=no", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "fullpass-taxi" not in done.stdout + done.stderr, done.stderr


def test_the_service_of_systemd_calls_a_command():
    assert is_a_command(re.search(r"(?m)^ExecStart=(.*)$", PAGE)[1].split())


def test_kubernetes_reads_the_cron_job():
    [text] = code("yml")
    written = yaml.safe_load(text)

    class Answer:
        data = json.dumps(written)

    api = client.ApiClient()
    job = api.deserialize(Answer, "V1CronJob")
    # Of unknown fields and of wrong types nothing would come back.
    assert api.sanitize_for_serialization(job) == written
    [container] = job.spec.job_template.spec.template.spec.containers
    assert cron_problem(job.spec.schedule) is None and is_a_command(container.command)


def test_the_dag_of_airflow_compiles_and_calls_a_command():
    [dag] = code("python")
    compile(dag, "dag.py", "exec")
    [line] = re.findall(r'RUN = "(fullpass .*)"', dag)
    parse(re.sub(r"{{.*?}}", "2026-01-05", line).split()[1:])
