"""The insides of TensorFlow, TF Transform and tfx_bsl are used through `fullpass.preprocessing.internals` alone."""

import re

from tests import REPOSITORY
from tests.source_tree import LAYERS, source_files

INSIDE = re.compile(
    r"^\s*(?:from|import) (?:tensorflow\.python|tensorflow_transform\.(?!beam\b)|tfx_bsl\.(?!public\b))"
    r"|^\s*from tensorflow_transform import",
    re.MULTILINE,
)


def test_no_other_folder_imports_what_is_not_documented():
    files = [file for package in LAYERS for file in source_files(package)]
    assert len(files) > 100
    found = {str(file.relative_to(REPOSITORY)) for file in files if INSIDE.search(file.read_text(encoding="utf-8"))}
    assert {file for file in found if "preprocessing/internals/" not in file} == set()
