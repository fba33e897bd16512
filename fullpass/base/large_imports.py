"""Imports large libraries, such as TensorFlow, without garbage collection of the objects they define."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Disables the garbage collector while large libraries are imported, and freezes the objects they defined.

    Otherwise the collector scans a million permanent objects again and again, which takes a fifth of the import time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
