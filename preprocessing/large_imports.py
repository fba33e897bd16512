"""Imports of large libraries, such as TensorFlow, without collecting garbage among what they define."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Keeps the garbage collector away while large libraries are imported, and from what they have defined.

    A million objects that stay are looked through again and again, which takes a fifth of the time of the imports.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
