"""Keeps Beam's local runner in Python: from Beam 2.66 on it prefers Prism, a program that it downloads.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version chooses otherwise. A run must not
need the internet, and Prism has no fork of the process that has imported TensorFlow already.
"""

from importlib.metadata import version


def without_prism() -> list[str]:
    """Returns the arguments of a Beam pipeline with which the direct runner does not try Prism.

    Prism does not run pipelines that ask for the behaviour of a version; the installed version changes nothing else.
    """
    return [f"--update_compatibility_version={version('apache-beam')}"]
