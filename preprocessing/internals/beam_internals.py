"""What Fullpass uses of Apache Beam beyond its documented interface.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version differs.

* `Shared`: one transform graph for all threads of a worker.
* `WindowedValue`, `GlobalWindows`: `finish_bundle` must wrap what it emits.
* `inspect_steps_once`: Beam inspects the signatures of all methods of a step seven times. Once saves 0.4 s of
  processors of Transform (taxi example, means of two runs).
"""

from typing import Any
from weakref import ref

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from fullpass.preprocessing.internals.prism import without_prism

__all__ = ["GlobalWindows", "Shared", "WindowedValue", "inspect_steps_once", "local_pipeline"]

_inspect = userstate.get_dofn_specs


def local_pipeline() -> beam.Pipeline:
    """Returns a pipeline that runs in this process."""
    return beam.Pipeline(options=PipelineOptions(without_prism()))


def inspect_steps_once() -> None:
    """Makes Beam keep the states and timers that it finds in the methods of a step, as long as the step lives."""
    found: dict[int, tuple[ref[beam.DoFn], Any]] = {}

    def inspect(dofn: beam.DoFn) -> Any:
        known = found.get(id(dofn))
        if known is None or known[0]() is not dofn:
            known = found[id(dofn)] = ref(dofn), _inspect(dofn)
        return known[1]

    userstate.get_dofn_specs = inspect
