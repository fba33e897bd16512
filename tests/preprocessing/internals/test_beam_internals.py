"""What `beam_internals` promises of Apache Beam: another version that differs fails here first, with a name."""

import signal
import sys
from collections import Counter

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import statesampler
from apache_beam.testing.util import assert_that
from apache_beam.transforms import userstate

from fullpass.pipeline.running.execution.failure import explain
from fullpass.preprocessing.internals import beam_internals
from fullpass.preprocessing.internals.beam_internals import GlobalWindows, Shared, WindowedValue, local_pipeline
from fullpass.preprocessing.internals.prism import without_prism


class Graph:
    """Something that a weak reference can hold."""


def test_a_shared_object_is_made_once():
    shared = Shared()
    first = shared.acquire(Graph, tag="a")
    assert shared.acquire(Graph, tag="a") is first
    assert shared.acquire(Graph, tag="b") is not first


def test_a_value_that_a_bundle_ends_with_is_in_the_global_window():
    value = GlobalWindows.windowed_value(7)
    assert isinstance(value, WindowedValue)
    assert (value.value, len(value.windows)) == (7, 1)


class Stateful(beam.DoFn):
    STATE = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(self, pair, last=beam.DoFn.StateParam(STATE)):  # noqa: B008
        yield pair[1] + (last.read() or 0)
        last.write(pair[1])


def test_each_step_is_inspected_once_and_keeps_its_states(monkeypatch):
    inspected, inspect, steps = Counter(), beam_internals._inspect, []

    def counted(step):
        steps.append(step)  # a step that is gone could leave its id to another one
        inspected[id(step)] += 1
        return inspect(step)

    def are_sums(values):
        assert sorted(values) in ([1, 3], [2, 3]), "the first number, and the sum of both"

    monkeypatch.setattr(beam_internals, "_inspect", counted)
    monkeypatch.setattr(userstate, "get_dofn_specs", userstate.get_dofn_specs)
    beam_internals.inspect_steps_once()
    with local_pipeline() as pipeline:
        pairs = pipeline | beam.Create([("a", 1), ("a", 2)], reshuffle=False)
        assert_that(pairs | beam.ParDo(Stateful()), are_sums)
    assert set(inspected.values()) == {1}
    assert inspect(Stateful()) == userstate.get_dofn_specs(Stateful()) == ({Stateful.STATE}, set())


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of threads that Beam starts
def test_a_pipeline_fails_when_a_worker_is_killed_in_its_work(monkeypatch):
    handlers = worker_handlers.WorkerHandler._registered_environments
    monkeypatch.setitem(handlers, python_urns.SUBPROCESS_SDK, handlers[python_urns.SUBPROCESS_SDK])
    beam_internals.fail_with_workers(lambda code: f"It ended with {code}.")
    processes = ["--direct_running_mode=multi_processing", "--direct_num_workers=2", "--sdk_container_image=none"]
    with pytest.raises(RuntimeError) as failed:
        with beam.Pipeline(options=PipelineOptions([*processes, *without_prism()])) as pipeline:
            _ = pipeline | beam.Create([int(signal.SIGKILL)]) | beam.Map(signal.raise_signal)
    assert explain(failed.value) == "It ended with -9."


def test_a_bundle_waits_some_milliseconds_at_most(monkeypatch):
    """Measured times would depend on the machine, so the period of the thread that a bundle waits for is looked at."""
    periods, start = set(), statesampler.StateSampler.start

    def started(sampler):
        periods.add(sampler.sampling_period_ms)
        start(sampler)

    monkeypatch.setattr(statesampler.StateSampler, "start", started)
    monkeypatch.setattr(statesampler.StateSampler.__init__, "__defaults__", (200,))
    for period in (200, 5):
        periods.clear()
        with local_pipeline() as pipeline:
            _ = pipeline | beam.Create([1], reshuffle=False)
        assert periods == {period}
        beam_internals.end_bundles_at_once()


def test_a_pipeline_imports_no_ipython(monkeypatch):
    for module in beam_internals.ASK_FOR_IPYTHON:
        monkeypatch.setattr(module, "is_in_ipython", module.is_in_ipython)
    for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
        monkeypatch.delitem(sys.modules, name)
    beam_internals.skip_ipython()
    with local_pipeline() as pipeline:
        assert_that(pipeline | beam.Create([1]), lambda values: values == [1])
    assert "IPython" not in sys.modules
