"""The user's own modules: found beside the YAML, told apart from other modules of their names, followed by a digest."""

import sys

import pytest

from fullpass.base.errors import UserError
from fullpass.base.user_modules import import_function, import_user_module, source_file_of, use_modules_of
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.user_code import (
    check_code_is_packed,
    code_digest,
    declared_code_files,
    function_problem,
)
from tests import REPOSITORY
from tests.e2e.conftest import run_command

YAML = """\
name: own
data:
  source: {format: csv, path: trips.csv}
  split: {method: hash, column: trip, ratios: {train: 3, eval: 1}}
label: {name: tip, task: regression}
features: {fare: number}
preprocessing: preprocessing:transform
"""
OWN_MODULE = """\
from components.doubled import doubled

def transform(columns):
    return {"own_fare": doubled(columns["fare"])}
"""
NEVER = "raise ImportError('a module of the user that nobody asked for')\n"


@pytest.fixture
def own_folder(tmp_path):
    """A folder whose modules have the names of ours and of the standard library's."""
    folder = tmp_path / "own"
    (folder / "components").mkdir(parents=True)
    (folder / "components" / "__init__.py").touch()
    (folder / "components" / "doubled.py").write_text("def doubled(fare): return fare * 2.0\n")
    for name in ("pipeline.py", "trainer.py", "statistics.py", "queue.py", "logging.py", "json.py"):
        (folder / name).write_text(NEVER)
    (folder / "preprocessing.py").write_text(OWN_MODULE)
    (folder / "trips.csv").write_text("trip,fare,tip\n" + "".join(f"{n},{n % 7},{n % 3}\n" for n in range(40)))
    (folder / "pipeline.yaml").write_text(YAML)
    return folder


@pytest.mark.integration
def test_the_modules_beside_the_yaml_are_the_user_s_and_break_nothing(own_folder, tmp_path):
    # As installed: fullpass is the only name of this checkout that can be imported.
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "fullpass").symlink_to(REPOSITORY / "fullpass")
    environment = {"PYTHONPATH": str(installed)}
    parts = ("run", "pipeline.yaml", "--to", "Transform")
    done = run_command("fullpass", *parts, cwd=own_folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    graph = next((own_folder / "runs" / "own" / "Transform" / "transform_graph").iterdir())
    assert b"own_fare" in (graph / "transformed_metadata" / "schema.pbtxt").read_bytes()


def test_the_modules_of_the_user_come_last(own_folder, clean_imports):
    before = list(sys.path)
    use_modules_of(own_folder)
    use_modules_of(own_folder)
    assert sys.path == [*before, str(own_folder)]


def test_a_named_module_is_the_user_s_whatever_it_is_called(own_folder, clean_imports):
    """A library of the same name stays what it is, before and after, and for whoever imports it by its name."""
    import statistics

    import yaml

    (own_folder / "statistics.py").write_text("def transform(columns): return 'own'\n")
    (own_folder / "yaml").mkdir()
    (own_folder / "yaml" / "__init__.py").touch()
    (own_folder / "yaml" / "own.py").write_text("from . import beside\ndef transform(columns): return beside.WHAT\n")
    (own_folder / "yaml" / "beside.py").write_text("WHAT = 'beside'\n")
    use_modules_of(own_folder)
    for path, returned in (("statistics:transform", "own"), ("yaml.own:transform", "beside")):
        assert function_problem(path, ("columns",), folder=own_folder) is None
        assert import_function(path)({}) == returned
    assert sys.modules["statistics"] is statistics and sys.modules["yaml"] is yaml
    assert source_file_of("statistics") == own_folder / "statistics.py"


@pytest.mark.integration
def test_two_pipelines_may_each_have_a_module_of_one_name(tmp_path, clean_imports):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "features.py").write_text("import helpers\ndef which(columns): return helpers.NAME\n")
        (tmp_path / name / "helpers.py").write_text(f"NAME = {name!r}\n")
    functions = []
    for name in ("a", "b", "a"):
        use_modules_of(tmp_path / name)
        functions.append(import_function("features:which"))
        assert functions[-1]({}) == name
        assert str(tmp_path / name) == sys.path[-1]
    assert [function({}) for function in functions] == ["a", "b", "a"]
    assert "features" not in sys.modules


def test_installed_modules_are_found_where_the_folder_has_none(tmp_path, clean_imports):
    use_modules_of(tmp_path)
    assert import_function("math:floor")(2.5) == 2
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_user_module("no_such_module")
    with pytest.raises(UserError, match="no_such_module:f cannot be imported: ModuleNotFoundError: .*beside the YAML"):
        import_function("no_such_module:f")


def test_a_module_that_exits_is_an_error_and_not_the_end_of_the_command(tmp_path, clean_imports):
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(3)\n")
    use_modules_of(tmp_path)
    with pytest.raises(UserError, match=r"(?s)ends:f cannot be imported: SystemExit: 3.*ends.py:2 in <module>"):
        import_function("ends:f")


def test_no_functions_no_digest():
    assert code_digest([]) == ""


def test_the_digest_follows_the_content_of_vocabulary_files(tmp_path):
    file = tmp_path / "zones.txt"
    file.write_text("a\nb\n")
    before = code_digest([], [str(file)])
    file.write_text("b\na\n")
    assert code_digest([], [str(file)]) != before


def test_the_digest_is_that_of_every_python_file_at_or_below_the_folder(tmp_path, clean_imports):
    """Each alone changes it, its name too; other files, environments and hidden folders do not."""
    code = ["mine.py", "nobody_imports_it.py", "pack/__init__.py", "pack/sub/deep.py", "fast.abi3.so"]
    other = ["notes.md", "zones.json", "env/pyvenv.cfg", "env/lib/a.py", ".hidden/b.py", "pack/__pycache__/c.pyc"]
    for name in (*code, *other):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("F = 1\n")
    use_modules_of(tmp_path)
    before = code_digest(["mine:f"])
    assert len(before) == 16 and code_digest(["mine:g"]) == before != code_digest(["pack:f"])
    followed = []
    for name in (*code, *other):
        (tmp_path / name).write_text("F = 2\n")
        followed += [name] if code_digest(["mine:f"]) != before else []
        (tmp_path / name).write_text("F = 1\n")
    assert followed == code and code_digest(["mine:f"]) == before
    (tmp_path / "pack" / "sub" / "deep.py").rename(tmp_path / "pack" / "sub" / "deeper.py")
    assert code_digest(["mine:f"]) != before


def test_the_file_of_a_module_elsewhere_counts_and_a_moved_folder_does_not(tmp_path, clean_imports, monkeypatch):
    digests = []
    for folder in ("a", "b"):
        (tmp_path / folder / "own").mkdir(parents=True)
        (tmp_path / folder / "own" / "mine.py").write_text("F = 1\n")
        use_modules_of(tmp_path / folder / "own")
        digests.append(code_digest(["mine:f"]))
    assert digests[0] == digests[1]
    monkeypatch.syspath_prepend(str(tmp_path))
    for content in ("F = 1\n", "F = 2\n"):
        (tmp_path / "elsewhere_of_user.py").write_text(content)
        digests.append(code_digest(["elsewhere_of_user:f"]))
    assert len(set(digests)) == 3


def test_the_digest_follows_the_libraries_that_the_code_imports(tmp_path, clean_imports, monkeypatch):
    (tmp_path / "mine.py").write_text("import json\ndef f(columns):\n    import os, shapely.geometry\n")
    use_modules_of(tmp_path)
    digests = {}
    for library in ("shapely", "json", "geometry"):
        versions = {library: "2.0"}
        monkeypatch.setattr(
            "fullpass.pipeline.authoring.user_code.version", lambda name, v=versions: v.get(name, "1.0")
        )
        digests[library] = code_digest(["mine:f"])
    assert digests["shapely"] != digests["json"] == digests["geometry"]


def test_a_line_that_may_read_a_file_is_told_until_files_are_declared(tmp_path):
    folder = tmp_path / "computed"
    folder.mkdir()
    (folder / "rates.csv").write_text("1\n")
    (folder / "d.csv").write_text("a,y\n1,0\n2,1\n")
    (folder / "mine.py").write_text("import os\n\ndef transform(columns):\n    open(os.environ['RATES'])\n")
    text = (
        "name: u\ndata: {source: {format: csv, path: d.csv}}\nlabel: {name: y, task: binary}\nfeatures: {a: number}\n"
    )
    file = folder / "p.yaml"

    def found(more: str) -> list[tuple[str, str]]:
        file.write_text(text + "preprocessing: 'mine:transform'\n" + more)
        return [(problem.path, problem.message) for problem in check(load(file)) if "code_files" in str(problem)]

    [(path, message)] = found("")
    assert path == "code_files" and "mine.py:4" in message
    assert not found("code_files: [rates.csv]\n") and not found("code_files: ['*.csv']\n")
    [(path, message)] = found("code_files: [rates.cvs]\n")
    assert path == "code_files[0]" and "'rates.cvs'" in message and "rates.csv" in message
    digests = []
    for content in ("1\n", "2\n"):
        (folder / "rates.csv").write_text(content)
        file.write_text(text + "code_files: ['*.csv']\n")
        digests.append(code_digest([], declared_code_files(load(file))))
    assert digests[0] != digests[1]


def test_code_that_loads_what_an_image_lacks_is_refused_and_other_code_is_not(tmp_path, clean_imports, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder, shared, installed = (tmp_path / name for name in ("project", "shared", "installed"))
    for place in (folder, shared, installed):
        place.mkdir()
    (folder / "near.py").write_text("F = 1\n")
    (shared / "elsewhere.py").write_text("F = 1\n")
    (installed / "of_package.py").write_text("F = 1\n")
    sys.path.append(str(installed))
    (folder / "d.csv").write_text("a,y\n1,0\n2,1\n")
    file = folder / "p.yaml"
    file.write_text(
        "name: u\ndata: {source: {format: csv, path: d.csv}}\nlabel: {name: y, task: binary}\n"
        "features:\n"
        + "".join(
            f"  {name}: {{type: custom, columns: {{a: number}}, function: '{name}:f'}}\n" for name in ("fine", "wrong")
        )
    )
    import_of = "import sys\nsys.path.insert(0, '../shared')\nimport elsewhere\n".replace("../shared", str(shared))
    end = "def f(columns): ...\n"
    (folder / "fine.py").write_text(f"import near, of_package\nimport zoneinfo\nzoneinfo.ZoneInfo('UTC')\n{end}")
    (folder / "wrong.py").write_text(import_of + end)
    use_modules_of(folder)
    with pytest.raises(UserError) as caught:
        check_code_is_packed(load(file))
    assert f"wrong:f loads {shared / 'elsewhere.py'}, which the image lacks: it has {folder}" in str(caught.value)
