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
    find_code,
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


def test_no_functions_no_digest():
    assert code_digest([]) == ""


def test_the_digest_follows_the_content_of_vocabulary_files(tmp_path):
    file = tmp_path / "zones.txt"
    file.write_text("a\nb\n")
    before = code_digest([], [str(file)])
    file.write_text("b\na\n")
    assert code_digest([], [str(file)]) != before


def test_the_digest_is_that_of_every_file_that_the_code_is_known_to_use(tmp_path, clean_imports):
    """Each file alone changes the digest, however it is imported or read; a file that is not named does not."""
    files = {
        "mine.py": "import helper\nfrom pack.deep import more\n\ndef f(columns):\n    import lazy\n",
        "helper.py": (
            "import importlib\nnamed = importlib.import_module('by_name')\n"
            "table = json.load(open(Path(__file__).parent / 'tables' / 'zones.json'))\n"
        ),
        "by_name.py": "from importlib import import_module\nimport_module(name='in_' + 'parts') if 0 else None\n",
        "tables/zones.json": "{}",
        "lazy.py": "for file in Path('rules').glob('*.txt'): ...\n",
        "rules/a.txt": "a",
        "pack/__init__.py": "F = 1\n",
        "pack/deep.py": "from . import beside\nfrom .sub import *\n",
        "pack/beside.py": "G = 1\n",
        "pack/sub/__init__.py": "__all__ = ['starred']\n",
        "pack/sub/starred.py": "H = 1\n",
        "in_parts.py": "L = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.md").write_text("unrelated")
    use_modules_of(tmp_path)

    def digest() -> str:
        return code_digest(["mine:f"])

    before = digest()
    assert len(before) == 16
    unseen = []
    for name, text in files.items():
        (tmp_path / name).write_text(text + " ")
        unseen += [name] if digest() == before else []
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.md").write_text("something else")
    assert not unseen and digest() == before
    (tmp_path / "rules" / "b.txt").write_text("new")
    assert digest() != before, "a new file of a folder that is listed"


def test_the_digest_follows_the_libraries_that_the_code_imports(tmp_path, clean_imports, monkeypatch):
    (tmp_path / "mine.py").write_text("def f(columns):\n    import shapely.geometry, json\n")
    use_modules_of(tmp_path)
    seen = []
    for installed in ("1.0", "2.0"):
        monkeypatch.setattr("fullpass.pipeline.authoring.user_code.version", lambda name, v=installed: v)
        seen.append(code_digest(["mine:f"]))
    assert seen[0] != seen[1]
    assert find_code(["mine"], tmp_path).libraries == ("shapely",)


def test_a_file_that_is_read_by_a_computed_name_is_told_until_it_is_declared(tmp_path):
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
    (tmp_path / "zones.json").write_text("{}")
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
    reading = "from pathlib import Path\n(Path(__file__).parents[1] / 'zones.json').read_text()\n"
    end = "def f(columns): ...\n"
    (folder / "fine.py").write_text(f"import near, of_package\nimport zoneinfo\nzoneinfo.ZoneInfo('UTC')\n{end}")
    for text, lacking in ((import_of, shared / "elsewhere.py"), (reading, tmp_path / "zones.json")):
        (folder / "wrong.py").write_text(text + end)
        use_modules_of(tmp_path)
        use_modules_of(folder)
        for name in [name for name in sys.modules if name.endswith((".wrong", ".fine")) or name == "elsewhere"]:
            del sys.modules[name]
        with pytest.raises(UserError) as caught:
            check_code_is_packed(load(file))
        assert f"wrong:f loads {lacking}, which the image lacks: it has {folder}" in str(caught.value)
