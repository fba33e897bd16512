"""The insides of TensorFlow, TF Transform and tfx_bsl are used through `fullpass.preprocessing.internals` alone."""

import ast
import re

from tests import REPOSITORY
from tests.source_tree import LAYERS, source_files, trees

INSIDE = re.compile(
    r"^\s*(?:from|import) (?:tensorflow\.python|tensorflow_transform\.(?!beam\b)|tfx_bsl\.(?!public\b))"
    r"|^\s*from tensorflow_transform import",
    re.MULTILINE,
)

DOCUMENTED = {"_exit", "_fields", "_get_tmp_dir", "_make_beam_pipeline"}
"""Of `os`, of named tuples, and of TFX's executors, for their subclasses (components/internals)."""


def test_no_other_folder_imports_what_is_not_documented():
    files = [file for package in LAYERS for file in source_files(package)]
    assert len(files) > 100
    found = {str(file.relative_to(REPOSITORY)) for file in files if INSIDE.search(file.read_text(encoding="utf-8"))}
    assert {file for file in found if "preprocessing/internals/" not in file} == set()


def test_no_other_folder_uses_private_attributes():
    """A private attribute that no file of this project sets or defines is one of another package."""
    own, used = set(), {}
    for path, tree in trees(""):
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    own.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    own.add(name)
                case ast.Attribute(attr=name) if re.match("_[a-z]", name) and "internals" not in path:
                    used.setdefault(name, path)
    assert {name: path for name, path in used.items() if name not in own | DOCUMENTED} == {}
