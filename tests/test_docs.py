"""README and docs/ show YAML and commands that `fullpass` takes, and name files that are there.

README's two YAMLs are whole. What docs/ shows is a part of one: it is put into a small whole one, in the place that its
keys belong to. Lines that repeat a key are alternatives, each on its own.
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from ruamel.yaml import YAML

from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.sources.formats import Source
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.json_schema import json_schema, schemas_at
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.running.request import node_names
from fullpass.preprocessing.spec import members_by_tag
from tests import REPOSITORY

_YAML = YAML(typ="safe", pure=True)
README = REPOSITORY / "README.md"
# Those of the others are tested where they are made.
MADE = {"config.md", "transforms.md", "expressions.md"}
PAGES = sorted(page for page in (REPOSITORY / "docs").glob("*.md") if page.name not in MADE)
COLUMNS = "trip_id,tips,fare,trip_miles,company,started_at,remarks"

WHOLE = """
name: docs
data: {source: {format: csv, path: "trips/{YYYY}-{MM}-{DD}.csv"}}
label: {name: good, task: binary}
features: {fare: number, promo: number, session: category, company: category, plate: category}
model: {kind: mlp}
"""
LISTS = ("tags", "prices", "visits", "reviews", "scores", "codes", "seen", "title", "shown", "item")
ROWS = {
    name: [f"{name}{i}" for i in range(40)]
    for name in ("id", "trip_id", "session", "company", "plate", "part", "shop", *LISTS)
} | {
    "fare": [1.0 + i for i in range(40)],
    "promo": [float(i % 3) for i in range(40)],
    "price": [0.5 + i for i in range(40)],
    "good": [i % 2 for i in range(40)],
    "sales": [2.0 + i for i in range(40)],
    "day": [f"2024-01-{1 + i % 20:02d}" for i in range(40)],
    "at": [f"2024-0{1 + i % 4}-05" for i in range(40)],
    "pickup_datetime": [f"2026-01-0{5 + i % 2} 07:10" for i in range(40)],
}
FILES = {".json", ".js", ".onnx", ".tflite", ".html"}
"""Endings of files whose names begin like a key."""
# Sources of which nothing is here: the YAML is loaded, and the data not looked for.
ELSEWHERE = {"from-tfx.md", "images.md", "sources.md", "spans.md: path", "watch.md: data"}


def fragments(page: Path) -> Iterator[tuple[str, dict]]:
    """Yields the YAML of a page with its place in it; of alternatives each."""
    text = page.read_text(encoding="utf-8")
    fenced = [match[1] for match in re.finditer(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = [re.sub(r"(?m)^    ", "", match[0]) for match in re.finditer(r"(?:^    .*\n)+", prose, re.MULTILINE)]
    blocks = fenced + [block for block in indented if re.match(r"[a-z_]+:\s", block)]
    for number, block in enumerate(blocks):
        lines = re.findall(r"(?m)^\S.*\n(?:^(?: |-).*\n)*", block)
        keys = [line.partition(":")[0] for line in lines]
        parts = [block] if len(set(keys)) == len(keys) else lines
        for part in parts:
            found = _YAML.load(part)
            yield f"{page.name}: {next(iter(found))} {number}", found


FRAGMENTS = [found for page in PAGES for found in fragments(page)]


def place(fragment: dict) -> str:
    """Returns which mapping of a YAML the keys belong to."""
    sources = set().union(*(one.model_fields for one in members_by_tag(Source).values()))
    known = {
        "whole": set(PipelineConfig.model_fields),
        "data": set(DataConfig.model_fields),
        "source": sources,
        "environment": set(EnvironmentConfig.model_fields),
    }
    if isinstance(fragment.get("nodes"), dict):  # of a cluster; in a pipeline, `nodes` is a function
        return "environment"
    fits = [name for name, fields in known.items() if fragment.keys() <= fields]
    assert fits, f"no mapping has all of these keys: {', '.join(fragment)}"
    return fits[0]


def merged(whole: dict, fragment: dict) -> dict:
    """Returns `whole` with a part of it replaced; of a source all is replaced where its format is said."""
    result = deepcopy(whole)
    for key, value in fragment.items():
        deep = isinstance(value, dict) and isinstance(result.get(key), dict) and "format" not in value
        result[key] = merged(result[key], value) if deep else value
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds the data that the pages speak of."""
    folder = tmp_path_factory.mktemp("docs")
    lines = [",".join(ROWS), *(",".join(map(str, row)) for row in zip(*ROWS.values(), strict=True))]
    (folder / "trips").mkdir()
    for name in ("trips.csv", "trips/2026-01-05.csv", "trips/2026-01-06.csv"):
        (folder / name).write_text("\n".join(lines) + "\n")
    pq.write_table(pa.table(ROWS), folder / "trips.parquet")
    (folder / "companies").mkdir()
    for name in ("companies.csv", "companies/2026-01-05.csv", "companies/2026-01-06.csv"):
        (folder / name).write_text("company,fleet\ncompany0,5\n")
    (folder / "weather.csv").write_text("station,observed_at,temp,rain\npart0,2024-01-05,-1.5,0\n")
    return folder


@pytest.mark.parametrize(("where", "fragment"), FRAGMENTS, ids=[where for where, _ in FRAGMENTS])
def test_the_yaml_of_a_page_is_right(where, fragment, folder):
    inside = place(fragment)
    if inside == "environment":
        around = {"artifacts": "direct", "pipeline_root": "gs://bucket/runs"} if list(fragment) == ["nodes"] else {}
        EnvironmentConfig.model_validate({"image": "i", "kubeflow": "2.5", "registry": "/r", **around, **fragment})
        return
    parts = {"whole": fragment, "data": {"data": fragment}, "source": {"data": {"source": fragment}}}
    config = merged(_YAML.load(WHOLE), parts[inside])
    file = folder / "pipeline.yaml"
    _YAML.dump(config, file)
    if any(where.startswith(page) for page in ELSEWHERE):
        load(file)
    else:
        assert [problem for problem in check(load(file)) if problem.severity == "error"] == []


def test_the_pages_are_read():
    pages = {where.partition(":")[0] for where, _ in FRAGMENTS}
    assert pages >= {"data-gate.md", "kubeflow.md", "retraining.md", "scheduling.md", "sources.md", "spans.md"}
    assert len(FRAGMENTS) > 50 and len(commands()) > 50


def test_the_yaml_of_the_readme_is_right(tmp_path):
    short, full = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert short.count("\n") == 6
    (tmp_path / "trips").mkdir()
    rows = "".join(f"{i},{i % 3},5.5,1.5,Acme,2026-01-05 07:10,good\n" for i in range(30))
    (tmp_path / "trips" / "2026-01-05.csv").write_text(f"{COLUMNS}\n{rows}", encoding="utf-8")
    for shown in (short, full):
        (tmp_path / "pipeline.yaml").write_text(shown, encoding="utf-8")
        problems = check(load(tmp_path / "pipeline.yaml"))
        assert [problem for problem in problems if problem.severity == "error"] == []


@pytest.mark.parametrize(
    "page", [README, REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")], ids=str
)
def test_what_a_page_names_is_there(page):
    """Links, pictures, and paths of the repository in code style."""
    text = page.read_text(encoding="utf-8")
    linked = re.findall(r"\]\(((?!https?:)[^)#\s]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text)
    named = re.findall(r"`((?:preprocessing|trainer|components|pipeline|kubeflow|tests)/[\w/.-]+)`", text)
    assert [link for link in linked if not (page.parent / link).exists()] == []
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


COMMANDS = typer.main.get_command(app).commands
SCHEMA = json_schema()


def commands() -> list[str]:
    """Returns the command lines of README and all pages."""
    shown = set()
    for page in [README, *(REPOSITORY / "docs").rglob("*.md")]:
        lines = re.findall(r"(?m)^(?:    |\$ )?(?:\$ )?(fullpass [a-z].*)$", page.read_text(encoding="utf-8"))
        shown |= {shlex.join(shlex.split(line, comments=True)) for line in lines}
    return sorted(line for line in shown if line.split()[1] in COMMANDS)


@pytest.mark.parametrize("page", [README, *(REPOSITORY / "docs").rglob("*.md")], ids=str)
def test_the_commands_and_keys_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?m)(?:`|^ *(?:\$ )?)fullpass ([a-z][\w-]*)", text)
    assert [name for name in named if name not in COMMANDS] == []
    keys = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", re.sub(r"(?ms)^```.*?^```$", "", text))
    paths = [key.split(".") for key in keys if page.name not in MADE and Path(key).suffix not in FILES]
    known = [path for path in paths if path[0] in PipelineConfig.model_fields and path[0] not in ("features", "nodes")]
    # The second is a key of the elements of a list.
    forms = {".".join(path): [tuple(path), (path[0], 0, *path[1:])] for path in known}
    assert [key for key, places in forms.items() if not any(schemas_at(SCHEMA, keys, {}) for keys in places)] == []


def test_the_lists_of_commands_and_nodes_are_whole(tmp_path):
    listed = re.search(r"fullpass init (?:.|\n)*?fullpass --help` lists all: (?:.|\n)*?\.\n", README.read_text("utf-8"))
    assert [name for name in COMMANDS if not re.search(rf"(fullpass |`){name}\b", listed[0])] == []

    whole = _YAML.load(WHOLE) | {"tuning": {"search": {"training.epochs": {"choices": [1, 2]}}}}
    _YAML.dump(whole, tmp_path / "pipeline.yaml")
    nodes = node_names(load(tmp_path / "pipeline.yaml").config)
    running = (REPOSITORY / "docs/running.md").read_text(encoding="utf-8")
    table = running.partition("## Nodes")[2].partition("## ")[0]
    assert re.findall(r"(?m)^\| ([A-Z]\w+) \|", table) == list(nodes)
    map_of_code = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    chart = map_of_code.partition("## Data flow")[2].partition("```mermaid")[2].partition("```")[0]
    assert set(re.findall(r"\b[A-Z]\w*[a-z]\b", chart)) == set(nodes)


def parse(words: list[str]) -> None:
    """Parses the words of a command of `fullpass`."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("fullpass", words, resilient_parsing=False)


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_pages_parses(line):
    words = shlex.split(line.replace("pause|resume|delete", "pause"))[1:]
    parse(list(itertools.takewhile(lambda word: word not in (">", "&"), words)))
