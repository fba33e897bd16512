"""A file has its old or its new content, and a full disk is an error that names it."""

import errno
import io
from types import SimpleNamespace

import numpy as np
import pytest

from fullpass.base.files import pending_file, write_atomically, write_blocks
from fullpass.base.folders import Folder
from tests.base.full_disk import full_after

LONG = "row,value\n" * 10_000


@pytest.mark.parametrize("earlier", [None, "as it was"])
def test_a_full_disk_leaves_what_was_there_and_names_the_file(tmp_path, earlier):
    file = tmp_path / "page.html"
    if earlier:
        file.write_text(earlier)
    with full_after(5000), pytest.raises(OSError, match="page.html") as refused:
        write_atomically(file, LONG)
    assert refused.value.errno == errno.EFBIG and refused.value.filename == str(file)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == (
        [("page.html", earlier)] if earlier else []
    )
    write_atomically(file, LONG)
    assert file.read_text() == LONG


def test_any_error_of_the_block_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), pending_file(tmp_path / "out") as pending:
        pending.write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named_by_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as refused:
        write_atomically(tmp_path / "no" / "page.html", "text")
    assert refused.value.filename == str(tmp_path / "no" / "page.html")


def test_the_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as refused, pending_file(tmp_path / "out"):
        (tmp_path / "input.csv").read_bytes()
    assert refused.value.filename == str(tmp_path / "input.csv")


def test_folders_write_files_in_the_same_way(tmp_path):
    with full_after(5000), pytest.raises(Exception, match="part-0.csv"):
        Folder(str(tmp_path)).copy(io.BytesIO(LONG.encode()), "part-0.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 1_000_000])
def test_blocks_are_the_content_and_no_larger_than_256_kib(size):
    content, written = np.random.default_rng(size).bytes(size), list[bytes]()
    write_blocks(SimpleNamespace(write=written.append), content)
    assert b"".join(written) == content and max(map(len, written), default=0) <= 256 * 1024
