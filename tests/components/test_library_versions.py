"""The line of TFX, as records name it."""

import platform

import tensorflow as tf
import tfx

from fullpass.components.library_versions import is_same, line


def test_the_line_is_that_of_the_imported_libraries():
    python = ".".join(platform.python_version_tuple()[:2])
    assert line() == f"TFX {tfx.__version__}, Python {python}, TensorFlow {tf.__version__}"


def test_a_line_is_the_first_two_numbers_of_tfx():
    assert is_same("TFX 1.21.0, Python 3.13, TensorFlow 2.21.0", "TFX 1.21.2, Python 3.12")
    assert not is_same("TFX 1.21.0, Python 3.13", "TFX 1.2.0, Python 3.13")
    assert not is_same("TFX 1.16.0, Python 3.12", "TFX 1.21.0, Python 3.12")
