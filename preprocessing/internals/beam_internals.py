"""What Fullpass uses of Apache Beam beyond its documented interface.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version differs.

* `Shared`: one transform graph for all threads of a worker.
* `WindowedValue`, `GlobalWindows`: `finish_bundle` must wrap what it emits.
* `inspect_steps_once`: Beam inspects the signatures of all methods of a step seven times. Once saves 0.4 s of
  processors of Transform (taxi example, means of two runs).
* `fail_with_workers`: If a worker process of the direct runner ends before its work is done, for example because the
  memory is full, Beam 2.65 and 2.77 wait for its answer without end.
* `skip_ipython`: Beam imports IPython to find out whether a pipeline runs in a notebook. Without, each of the six nodes
  that run Beam takes 0.15 s less (taxi example).
* `end_bundles_at_once`: A thread notes which step is running, and sleeps up to 0.2 s between two looks. A bundle waits
  for it at its end. Shorter sleeps bring these waits of 327,346 flights from 0.8 to 0.05 s.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any
from weakref import ref

import apache_beam as beam
import apache_beam.pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.direct import direct_runner
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils import interactive_utils
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from fullpass.base.errors import UserError
from fullpass.preprocessing.internals.prism import without_prism

__all__ = [
    "GlobalWindows",
    "Shared",
    "WindowedValue",
    "end_bundles_at_once",
    "fail_with_workers",
    "inspect_steps_once",
    "local_pipeline",
    "skip_ipython",
]

ASK_FOR_IPYTHON = tuple(
    module for module in (interactive_utils, apache_beam.pipeline, direct_runner) if hasattr(module, "is_in_ipython")
)
"""Modules that call `is_in_ipython` by a name of their own; of the runner only that of Beam from 2.77 on does."""

_POLL_SECONDS = 0.1
"""Seconds between two looks at whether a worker has ended: short beside the seconds that its start takes."""
_STOP_SECONDS = 5.0
"""Seconds that a worker has to end by itself before it is killed."""
_SAMPLING_MS = 5
"""Milliseconds between two looks at the running step, and so the longest wait at the end of a bundle."""
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


def fail_with_workers(told: Callable[[int], str]) -> None:
    """Makes a pipeline of several local processes fail with a UserError when one of them ends too early.

    Args:
        told: Returns the message for the exit code of the process; below 0 it is the signal that ended it.
    """

    class Handler(worker_handlers.SubprocessSdkWorkerHandler):
        def start_worker(self) -> None:
            self.worker = local_job_service.SubprocessSdkWorker(
                self._worker_command_line, self.control_address, self.provision_info, self.worker_id
            )
            self.worker_thread = threading.Thread(name="run_worker", target=self._run, daemon=True)
            self.worker_thread.start()

        def stop_worker(self) -> None:
            # One that has not connected yet does not learn that the pipeline has failed. It ends with Beam's servers.
            self.worker_thread.join(_STOP_SECONDS)

        def _run(self) -> None:
            code = 0
            try:
                self.worker.run()
            except RuntimeError as error:  # "Worker subprocess exited with return code 137"
                code = int(str(error).rpartition(" ")[2])
            _answer_for(self.control_conn, told(128 - code if code > 128 else code))

    worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)(Handler)


def _answer_for(connection: worker_handlers.ControlConnection, message: str) -> None:
    """Answers all requests to a worker that has ended, with an error, until Beam ends the connection."""
    try:
        raise UserError(message)
    except UserError:
        error = traceback.format_exc()  # workers report their own errors in this form
    waiting = connection._futures_by_id
    while connection._state != worker_handlers.BeamFnControlServicer.DONE_STATE:
        for number in list(waiting):
            if (future := waiting.pop(number, None)) is not None:  # the worker may have answered at last
                future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=error))
        time.sleep(_POLL_SECONDS)


def end_bundles_at_once() -> None:
    """Makes bundles wait at their end for some milliseconds only."""
    statesampler.StateSampler.__init__.__defaults__ = (_SAMPLING_MS,)


def skip_ipython() -> None:
    """Makes Beam take a process for no notebook, without an import of IPython, if nothing has imported it."""

    def is_in_ipython() -> bool:
        return "IPython" in sys.modules and _is_in_ipython()

    for module in ASK_FOR_IPYTHON:
        vars(module)["is_in_ipython"] = is_in_ipython
