"""Path patterns against Python's glob, and cases that it cannot handle: many `**/`, link cycles, brackets in names."""

import glob
import os
import time

import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import find_files, resolve_path
from fullpass.components.ingest.sources.path_matches import match_paths
from fullpass.components.ingest.spans.span_files import find_spans

FILES = (
    *("a.csv", "b/a.csv", "b/c/a.csv", "b/c/d/a.csv", "b/c/d/x1.csv"),
    *(".hidden/a.csv", "b/.h.csv", "e/x[1].csv", "e/f/b.txt"),
)
PATTERNS = (
    *("*.csv", "*/a.csv", "**/*.csv", "**", "**/", "*/", "b/**", "b/**/a.csv", "**/c/**/*.csv", "**/d/*", ".*/*.csv"),
    *("b/.*", "e/x[[]1].csv", "e/x[0-9[]*", "nothing/*.csv", "b/c/*/x?.csv", "a.csv", "**/**/*.csv", "b/*/../*.csv"),
    "**/[!a]*.csv",
)


@pytest.fixture
def tree(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("n\n1\n")
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_name_what_they_name_in_python(tree, monkeypatch, pattern):
    # Python lists a path once per way to match it, and lists the folder at which `**` starts too.
    monkeypatch.chdir(tree)
    for prefix in (f"{tree}/", ""):
        start = prefix + pattern.rstrip("/")[:-2] if pattern.rstrip("/").endswith("**") else None
        assert match_paths(prefix + pattern) == sorted(set(glob.glob(prefix + pattern, recursive=True)) - {start})


def test_a_dozen_of_any_depth_is_looked_for_in_one_pass(tmp_path):
    deep = tmp_path.joinpath(*"abcdefghijklmno")
    deep.mkdir(parents=True)
    (deep / "x.csv").write_text("n\n1\n")
    started = time.process_time()
    assert match_paths(f"{tmp_path}/{'**/' * 12}*.csv") == [str(deep / "x.csv")]
    assert match_paths(f"{tmp_path}/{'**/*/' * 7}**/*.csv") == [str(deep / "x.csv")]
    assert match_paths(f"{tmp_path}/{'**/a*/' * 12}*.csv") == []
    source = CsvSource(format="csv", path=f"{'**/' * 12}{{SPAN}}.csv")
    with pytest.raises(UserError, match="matches no file"):
        find_spans(source, lambda path: resolve_path(path, tmp_path))
    assert time.process_time() - started < 2


def test_links_that_lead_back_are_followed_once(tree):
    (tree / "b" / "up").symlink_to(tree, target_is_directory=True)
    (tree / "linked").symlink_to(tree / "e", target_is_directory=True)
    found = match_paths(f"{tree}/**/*.txt")
    assert f"{tree}/linked/f/b.txt" in found and f"{tree}/e/f/b.txt" in found
    assert not [path for path in found if "/up/b/up/" in path]


@pytest.mark.parametrize("pattern", ["**/*.csv", "*/*.csv", "*/*/*.csv"])
def test_a_file_is_read_once_whatever_links_lead_to_it(tmp_path, pattern):
    for folder in ("a", "a/b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text("n\n1\n")
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "again").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "a" / "y.csv").symlink_to(tmp_path / "a" / "x.csv")
    (tmp_path / "a" / "hard.csv").hardlink_to(tmp_path / "a" / "x.csv")
    files = find_files(pattern, lambda path: resolve_path(path, tmp_path), endings=(".csv",))
    real = [os.path.realpath(file.path) for file in files]
    assert len(set(real)) == len(real) >= 2
    assert pattern == "*/*/*.csv" or f"{tmp_path}/a/hard.csv" in real  # a hard link is a file of its own
    with pytest.raises(UserError, match="a/y.csv is named twice, also as .*a/x.csv, which is the same file"):
        find_files(["a/x.csv", "a/y.csv"], lambda path: resolve_path(path, tmp_path))


def test_a_span_has_each_file_once(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "day-1.csv").write_text("n\n1\n")
    (tmp_path / "b").symlink_to(tmp_path / "a", target_is_directory=True)
    source = CsvSource(format="csv", path="*/day-{SPAN}.csv")
    _, spans = find_spans(source, lambda path: resolve_path(path, tmp_path))
    assert [file.path for file in spans[1].files] == [f"{tmp_path}/a/day-1.csv"]


def test_named_parts_need_no_folder_that_can_be_listed(tree):
    os.chmod(tree / "b", 0o111)
    try:
        assert match_paths(f"{tree}/b/c/*.csv") == [f"{tree}/b/c/a.csv"]
    finally:
        os.chmod(tree / "b", 0o755)


@pytest.mark.parametrize("folder", ["[new]", "{YYYY}", "{a,b}", "what?*", "a[!b]{SPAN:3}"])
def test_nothing_in_the_name_of_the_yaml_s_folder_is_a_pattern(tmp_path, folder):
    base = tmp_path / folder
    for name in ("data/1.csv", "data/2.csv", "x[1].csv"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text("n\n1\n")

    def found(path):
        return [file.path for file in find_files(path, lambda path: resolve_path(path, base), endings=(".csv",))]

    both = [f"{base}/data/1.csv", f"{base}/data/2.csv"]
    assert found("data/*.csv") == both and found("data") == both and found("**/[0-9].csv") == both
    assert found("x[1].csv") == [f"{base}/x[1].csv"] and found(("data/1.csv", "data/[2].csv")) == both
    unit, spans = find_spans(CsvSource(format="csv", path="data/{SPAN}.csv"), lambda p: resolve_path(p, base))
    assert unit == "number" and [spans[n].files[0].path for n in (1, 2)] == both
