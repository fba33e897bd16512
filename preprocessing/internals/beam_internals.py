"""What Fullpass uses of Apache Beam beyond its documented interface.

`tests/preprocessing/internals/test_beam_internals.py` fails first if another version differs.

* `Shared`: one transform graph for all threads of a worker.
* `WindowedValue`, `GlobalWindows`: `finish_bundle` must wrap what it emits.
"""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from fullpass.preprocessing.internals.prism import without_prism

__all__ = ["GlobalWindows", "Shared", "WindowedValue", "local_pipeline"]


def local_pipeline() -> beam.Pipeline:
    """Returns a pipeline that runs in this process."""
    return beam.Pipeline(options=PipelineOptions(without_prism()))
