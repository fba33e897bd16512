from pathlib import Path

from rich.console import Console

from fullpass.base import state_file
from fullpass.pipeline.registry.list_versions import read_versions, table
from tests.pipeline.conftest import VALID


def pushed(target: Path, version: int, rows: str | None, yaml: str = VALID, evaluated: int = 20) -> None:
    """Writes a version whose data has the digest `rows`, and that was trained by a YAML."""
    span = {"span": None, "number": 0, "fingerprint": f"f{version}", "source_rows": rows, "rows_read": 100}
    lineage = {
        "config": {"hash": "0", "yaml": yaml},
        "spans": [span | {"rows": {"train": 80, "eval": 20}}],
        "metrics": {"macro_auc": None, "auc": 0.9},
        "examples_evaluated": evaluated,
    }
    folder = target / str(version) / "assets.extra"
    folder.mkdir(parents=True)
    state_file.write(folder / "fullpass.json", {"lineage": lineage})


def shown(target: Path) -> str:
    console = Console(width=160, record=True)
    console.print(table(read_versions(target), target))
    return console.export_text()


def test_versions_measured_on_the_same_rows_have_the_same_letter(tmp_path):
    pushed(tmp_path, 1, "d1")
    pushed(tmp_path, 2, "d1", VALID.replace("fare: number", "fare: number\n  zone: number"))  # another feature
    pushed(tmp_path, 3, "d1", VALID.replace("eval: 2", "eval: 3"))  # another split
    pushed(tmp_path, 4, "d1", VALID.replace("tips > 0.2", "tips > 0.3"))  # another label
    pushed(tmp_path, 5, "d2")
    pushed(tmp_path, 6, None)  # of another program
    marks = {version.version: version.eval_rows for version in read_versions(tmp_path)}
    assert marks[1] == marks[2] and marks[6] is None
    assert len({marks[n] for n in (1, 3, 4, 5)}) == 4
    text = shown(tmp_path)
    assert [text.count(f"20 {mark}") for mark in "?abcd"] == [1, 1, 1, 1, 2]
    assert "`fullpass compare VERSION VERSION`" in text
    in_notebook = read_versions(tmp_path)._repr_html_()
    assert [in_notebook.count(f"20 {mark}<") for mark in "?abcd"] == [1, 1, 1, 1, 2]
    assert "`fullpass compare VERSION VERSION`" in in_notebook


def test_nothing_is_said_if_all_rows_are_the_same(tmp_path):
    pushed(tmp_path, 1, "d1")
    pushed(tmp_path, 2, "d1")
    assert "fullpass compare" not in shown(tmp_path) and shown(tmp_path).count("20 a") == 2
    assert "fullpass compare" not in read_versions(tmp_path)._repr_html_()
