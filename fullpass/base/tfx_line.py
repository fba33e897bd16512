"""The line of TFX in this environment (docs/lines.md), as records name it."""

import re
import sys
from importlib.metadata import PackageNotFoundError, version


def line() -> str:
    """Returns the line, such as `TFX 1.21.0, Python 3.13, TensorFlow 2.21.0`; without TensorFlow if there is none."""
    parts = [f"TFX {version('tfx')}", f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    try:
        parts.append(f"TensorFlow {version('tensorflow')}")
    except PackageNotFoundError:
        pass  # the small image has none
    return ", ".join(parts)


def is_same(first: str, second: str) -> bool:
    """Returns whether two texts of `line` name one line: the same two first numbers of TFX.

    Example:
        >>> is_same("TFX 1.21.0, Python 3.13, TensorFlow 2.21.0", "TFX 1.21.1, Python 3.12")
        True
        >>> is_same("TFX 1.21.0, Python 3.13", "TFX 1.16.0, Python 3.11")
        False
    """
    return _number(first) == _number(second)


def _number(text: str) -> str:
    found = re.match(r"TFX (\d+\.\d+)\b", text)
    return found[1] if found else text
