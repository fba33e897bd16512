"""What Fullpass uses of Apache Beam beyond its documented interface.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version differs.

* `Shared`: one transform graph for all threads of a worker.
* `WindowedValue`, `GlobalWindows`: `finish_bundle` must wrap what it emits.
* `inspect_steps_once`: Beam inspects the signatures of all methods of a step seven times. Once saves 0.4 s of
  processors of Transform (taxi example, means of two runs).
* `skip_ipython`: Beam imports IPython to find out whether a pipeline runs in a notebook. Without, each of the six nodes
  that run Beam takes 0.15 s less (taxi example).
"""

import sys
from typing import Any
from weakref import ref

import apache_beam as beam
import apache_beam.pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct import direct_runner
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils import interactive_utils
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from fullpass.preprocessing.internals.prism import without_prism

__all__ = ["GlobalWindows", "Shared", "WindowedValue", "inspect_steps_once", "local_pipeline", "skip_ipython"]

ASK_FOR_IPYTHON = tuple(
    module for module in (interactive_utils, apache_beam.pipeline, direct_runner) if hasattr(module, "is_in_ipython")
)
"""Modules that call `is_in_ipython` by a name of their own; of the runner only that of Beam from 2.77 on does."""

_inspect = userstate.get_dofn_specs
_is_in_ipython = interactive_utils.is_in_ipython


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


def skip_ipython() -> None:
    """Makes Beam take a process for no notebook, without an import of IPython, if nothing has imported it."""

    def is_in_ipython() -> bool:
        return "IPython" in sys.modules and _is_in_ipython()

    for module in ASK_FOR_IPYTHON:
        vars(module)["is_in_ipython"] = is_in_ipython
