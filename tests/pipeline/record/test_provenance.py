import os
import subprocess
from pathlib import Path

import pytest

from fullpass.components.ingest.spans.spans import find_window
from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.record.facts import UNFINISHED, RunFacts, read_facts
from fullpass.pipeline.record.provenance import RUN_FACTS_VARIABLE, begun, config_hash, tell_nodes
from fullpass.trainer.export.run_provenance import read_run_facts

YAML = """\
name: trips
data: {source: {format: csv, path: trips.csv}}
label: {name: tip, task: regression}
features: {fare: number, zone: category}
"""


@pytest.fixture
def loaded(tmp_path: Path):
    def load_text(text: str):
        file = tmp_path / "pipeline.yaml"
        file.write_text(text)
        return load(file)

    return load_text


def start(config: Loaded) -> RunFacts:
    (config.folder / "trips.csv").write_text("fare,tip\n1,2\n")
    return begun(config, find_window(config.config.data, config.resolve), "run-1", config.folder / "logs")


def test_comments_and_defaults_do_not_count_and_settings_do(loaded):
    base = config_hash(loaded(YAML).config)
    assert config_hash(loaded(f"# A comment.\n{YAML}push: {{to: serving}}\n").config) == base
    assert config_hash(loaded(f"{YAML}push: {{to: elsewhere}}\n").config) != base


def test_nodes_are_told_what_the_run_says(loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(RUN_FACTS_VARIABLE, raising=False)
    assert read_run_facts() == {}
    facts = start(loaded(YAML))
    monkeypatch.setenv(RUN_FACTS_VARIABLE, "")
    tell_nodes(facts, tmp_path / "logs" / "run.json")
    assert read_run_facts() == {"run": "run-1", "occasion": None, "config": facts.config, "code": facts.code}
    assert facts.config["yaml"] == YAML and read_facts(tmp_path / "logs" / "run.json", "") == facts
    assert (facts.outcome, facts.exit_code, facts.spans) == (UNFINISHED, None, None)


def test_the_commit_of_the_folder_is_told_and_whether_all_is_committed(loaded, tmp_path: Path):
    config = loaded(YAML)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment).stdout

    assert start(config).code["commit"] is None
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    assert commit.startswith(start(config).code["commit"])
    loaded(f"{YAML}# More.\n")
    assert start(config).code["commit"].endswith("-dirty")
