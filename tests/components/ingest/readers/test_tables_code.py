"""Arrow's Python extension type lets a file name code to run (CVE-2023-47248); no command may run it."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.version import Version

COMMANDS = """
import os, sys
from typer.testing import CliRunner

def tried(name, *arguments):
    from fullpass.pipeline.cli import app
    result = CliRunner().invoke(app, list(arguments))
    say(name, f"{result.output} {result.exception!r}")

def say(name, text):
    refused = "arrow.py_extension_type" in text
    print(name, "RAN" if os.path.exists("RAN") else "refused" if refused else f"not refused: {text!r}")

for kind in ("parquet", "arrow", "stream"):
    if kind != "stream":
        tried(f"init {kind}", "init", f"x.{kind}", "--label", "y", "-o", f"of_{kind}.yaml")
    tried(f"check {kind}", "check", f"{kind}.yaml", "--data")
tried("check module", "check", "module.yaml", "--data")
assert not {"apache_beam", "tensorflow"} & set(sys.modules)

from fullpass.components.predict.input_rows import InputRows
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import RawColumn

try:
    how = input_source({"format": "parquet", "path": "x.parquet"}, "x.parquet", {})
    columns = {"a": RawColumn("a", "number")}
    list(InputRows(input_files(how.source, "x.parquet"), how, columns))
except UserError as error:
    say("predict", str(error))
else:
    say("predict", "read")
"""


class _Code:
    def __reduce__(self):
        return exec, ("open('RAN', 'w').close()",)


@pytest.fixture
def folder(tmp_path):
    """A folder with a file per Arrow format whose schema holds code, and a config for each."""

    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(_Code()),
    }
    schema = pa.schema([pa.field("a", pa.float64(), metadata=metadata), pa.field("y", pa.int64())])
    table = pa.table([pa.array([0.1, 0.5]), pa.array([0, 1])], schema=schema)
    pq.write_table(table, tmp_path / "x.parquet")
    for name, writer in (("x.arrow", pa.ipc.new_file), ("x.stream", pa.ipc.new_stream)):
        with writer(tmp_path / name, schema) as file:
            file.write_table(table)
    (tmp_path / "mine.py").write_text(
        "import pyarrow.parquet as pq\n\n\ndef rows():\n    return pq.read_table('x.parquet')\n"
    )
    sources = {kind: f"format: {kind.replace('stream', 'arrow')}, path: x.{kind}" for kind in ("parquet", "arrow")}
    sources |= {"stream": "format: arrow, path: x.stream", "module": "format: module, function: 'mine:rows'"}
    for kind, source in sources.items():
        (tmp_path / f"{kind}.yaml").write_text(
            f"name: t\ndata: {{source: {{{source}}}}}\nlabel: {{name: y, task: binary}}\nfeatures: {{a: number}}\n"
        )
    return tmp_path


@pytest.mark.integration
def test_no_command_runs_code_of_a_file(folder):
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMMANDS], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 7 and not any(line.endswith(" RAN") for line in lines), done.stdout
    if Version(pa.__version__) < Version("14.0.1"):  # later versions read the column as what it is stored as
        assert all(line.endswith(" refused") for line in lines), done.stdout


@pytest.mark.integration
@pytest.mark.parametrize(
    "order",
    [
        "import fullpass, pyarrow.parquet",
        "import pyarrow.parquet, fullpass",
        # As libraries do that ask whether Arrow is installed.
        "import fullpass, importlib.util\nimportlib.util.find_spec('pyarrow')\nimport pyarrow.parquet",
    ],
    ids=["before", "after", "looked up"],
)
def test_every_reader_in_a_process_that_imports_fullpass_is_protected(folder, order):
    """Each module of the project is imported as a part of `fullpass`, so no module reads without the protection."""
    code = (
        f"{order}\ntry:\n    pyarrow.parquet.read_table('x.parquet')\nexcept RuntimeError as error:\n    print(error)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, timeout=60, check=False)
    assert not (folder / "RAN").exists()
