"""Roots are marked; a folder with other files is no root, and an unknown node is refused before anything is written."""

from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.root.check import check_own_root, claim_root
from fullpass.pipeline.running.request import RunRequest, node_names
from fullpass.pipeline.running.run import run

YAML = """\
name: small
data: {source: {format: csv, path: d.csv}}
label: {name: y, task: binary}
features: {a: number}
"""


def test_a_root_is_marked_and_another_folder_is_refused(tmp_path):
    """Names of our folders with the user's files in them, a file, files beside them: nothing is written there."""
    new = tmp_path / "runs" / "taxi"
    claim_root(new, "taxi")
    claim_root(new, "taxi")
    assert [path.name for path in new.iterdir()] == [".fullpass-root"]
    (new / "notes.txt").write_text("put there later")
    check_own_root(new)
    for name, made in (
        ("user", ["logs/app/server.log"]),
        ("project", ["p.yaml", "work/x"]),
        ("one", ["metadata.sqlite"]),
        ("copied without its mark", ["Trainer/.system/x", "Trainer/model/7/y"]),
    ):
        for file in made:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text("precious")
        before = sorted((tmp_path / name).rglob("*"))
        for claims in (lambda root: claim_root(root, "taxi"), check_own_root):
            with pytest.raises(UserError, match=made[0].partition("/")[0]):
                claims(tmp_path / name)
        assert sorted((tmp_path / name).rglob("*")) == before
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="must be a folder"):
        claim_root(tmp_path / "file", "taxi")


def test_a_root_is_that_of_one_pipeline(tmp_path):
    """Two pipelines in one root would skip the spans that the other trained on, and be compared with its data."""
    claim_root(tmp_path / "runs", "taxi")
    with pytest.raises(UserError, match=r"root of the pipeline taxi, as its file \.fullpass-root says.*--root .*/tips"):
        claim_root(tmp_path / "runs", "tips")
    claim_root(tmp_path / "runs", "taxi")
    (tmp_path / "runs").rename(tmp_path / "tips")
    with pytest.raises(UserError, match="--root .*/tips-2"):
        claim_root(tmp_path / "tips", "tips")


def test_a_mark_is_written_once_so_that_a_full_disk_does_not_empty_it(tmp_path, monkeypatch):
    claim_root(tmp_path / "runs", "taxi")
    monkeypatch.setattr(Path, "write_text", lambda *_args, **_keys: pytest.fail("was written again"))
    claim_root(tmp_path / "runs", "taxi")


@pytest.mark.parametrize("options", [{"to_node": "Nosuch"}, {"from_node": "Nosuch"}])
def test_an_unknown_node_is_refused_before_anything_is_written(tmp_path, options):
    (tmp_path / "d.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "p.yaml").write_text(YAML)
    with pytest.raises(UserError, match='there is no node "Nosuch"'):
        run(load(tmp_path / "p.yaml"), RunRequest(**options))
    with pytest.raises(UserError, match="it holds d.csv, p.yaml"):
        run(load(tmp_path / "p.yaml"), RunRequest(root=tmp_path, to_node="Ingest"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.csv", "p.yaml"]


@pytest.mark.integration
@pytest.mark.parametrize("path", ["d-{SPAN}.csv", "d-1.csv"])
@pytest.mark.parametrize("more", ["", "tuning: {search: {training.learning_rate: {min: 0.1, max: 0.2}}}\n"])
def test_the_names_of_nodes_are_those_that_are_built(tmp_path, path, more):
    from fullpass.pipeline.running.build import build

    (tmp_path / "d-1.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "p.yaml").write_text(YAML.replace("d.csv", f"'{path}'") + more)
    loaded = load(tmp_path / "p.yaml")
    assert sorted(node_names(loaded.config)) == sorted(
        node.id for node in build(loaded, root=tmp_path / "r").components
    )
