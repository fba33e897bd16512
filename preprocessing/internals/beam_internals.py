"""What Fullpass uses of Apache Beam beyond its documented interface.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version differs.

* `Shared`: one transform graph for all threads of a worker.
* `WindowedValue`, `GlobalWindows`: `finish_bundle` must wrap what it emits.
"""

from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

__all__ = ["GlobalWindows", "Shared", "WindowedValue"]
